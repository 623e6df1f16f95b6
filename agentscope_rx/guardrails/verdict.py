"""`Verdict`: what a check says of what it has judged; `Finding`: a verdict with the check that gave it.

| verdict                   | means                                                                        |
|---------------------------|------------------------------------------------------------------------------|
| `PASS`, or None           | it may go on                                                                 |
| `Verdict.warn(text)`      | it may go on, and the warning is reported                                    |
| `Verdict.replace(content)`| this content takes its place                                                 |
| `Verdict.stop(reason)`    | it goes no further                                                           |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Final, Literal, cast

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages.frozen import encodable

Kind = Literal["input", "output", "tool_call", "tool_result"]
"""What a check judges."""
KINDS: Final[tuple[Kind, ...]] = ("input", "output", "tool_call", "tool_result")

Action = Literal["pass", "warn", "replace", "stop"]
Content = str | Mapping[str, object]
"""What takes the place of something: a text; for a tool call its arguments."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a check; made by `Verdict.stop`, `Verdict.replace` and `Verdict.warn`.

    | verdict | means |
    |---|---|
    | `PASS`, or None | it may go on |
    | `Verdict.warn(text)` | it may go on, and the warning is reported |
    | `Verdict.replace(content)` | this content takes its place |
    | `Verdict.stop(reason)` | it goes no further |

    `reason` is for developers, and for the model in the place of a call or a result that was stopped. `reply` ends the
    run with this text; a stopped input or output ends it in any case.
    """

    action: Action = "pass"
    reason: str = ""
    content: Content | None = None
    reply: str | None = None

    def __post_init__(self) -> None:
        for text in cast("tuple[object, ...]", (self.reason, self.reply or "")):
            if not isinstance(text, str):
                raise InvalidInputError(f"The reason and the reply of a verdict are texts, not {text!r:.80}.")
        content: object = self.content
        if (self.action == "replace") is not isinstance(content, (str, Mapping)):
            raise InvalidInputError(
                f"Verdict.replace takes a text, or the arguments of a call, not {self.content!r:.60}."
            )
        object.__setattr__(self, "reason", encodable(self.reason))

    @classmethod
    def stop(cls, reason: str, reply: str | None = None) -> Verdict:
        """Stops the judged content, for this reason. With `reply` the run ends with that text."""
        return cls("stop", reason, None, reply)

    @classmethod
    def replace(cls, content: Content, reason: str = "") -> Verdict:
        """Replaces the judged content: by a text, or by the arguments of a tool call."""
        return cls("replace", reason, content)

    @classmethod
    def warn(cls, text: str) -> Verdict:
        """Lets it pass, and reports the text."""
        return cls("warn", text)


PASS: Final = Verdict()
"""The verdict of a check that has no objection."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A verdict other than `PASS`: the check, the kind of content, the reason; `error` if the check itself failed."""

    guardrail: str
    kind: Kind
    action: Action
    reason: str = ""
    error: Exception | None = field(default=None, compare=False)

    def to_dict(self) -> dict[str, object]:
        """The finding as plain JSON, as it is kept in the metadata of a message."""
        return {"guardrail": self.guardrail, "kind": self.kind, "action": self.action, "reason": self.reason}
