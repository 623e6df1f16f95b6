"""`Approve` and `Reject`: the answers to calls that wait for approval. Frozen values, part of a call's input.

    reply = agent.call("Delete the old files").run()
    for call in reply.pending_calls: ...
    reply = agent.call([Approve(first), Reject(second, "keep the logs")]).run()

| `remember`    | the answer also applies, for the rest of the session, to                    |
|---------------|------------------------------------------------------------------------------|
| None          | nothing else                                                                 |
| `"arguments"` | calls of this tool with the same arguments (the edited ones, if edited)      |
| `"tool"`      | every call of this tool                                                      |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, get_args

from pydantic import Discriminator

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages.blocks import ToolUseBlock
from agentscope_rx.messages.frozen import check_encodable, encodable, freeze, shown

Remember = Literal["arguments", "tool"]


@dataclass(frozen=True, slots=True, init=False)
class Approve:
    """Let the call run. `input` replaces the model's arguments, also in memory.

    `remember="arguments"` also decides later calls of this tool with the same arguments, `"tool"` every later call of
    it, in this conversation.
    """

    call_id: str
    input: Mapping[str, object] | None = None
    remember: Remember | None = None
    type: Literal["approve"] = "approve"

    def __init__(
        self,
        call: ToolUseBlock | str,
        input: Mapping[str, object] | None = None,
        *,
        remember: Remember | None = None,
    ) -> None:
        if input is not None and not isinstance(input, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInputError(f"Approve: input must be the arguments as a dict, not {shown(input, 60)}.")
        put = object.__setattr__
        put(self, "call_id", _id_of("Approve", call))
        put(self, "input", None if input is None else freeze(input, "Approve.input"))
        put(self, "remember", _remember("Approve", remember))
        put(self, "type", "approve")

    def __post_init__(self) -> None:
        # called by the JSON codec, which sets the slots without __init__
        object.__setattr__(self, "call_id", _id_of("Approve", self.call_id))
        object.__setattr__(self, "input", None if self.input is None else freeze(self.input, "Approve.input"))


@dataclass(frozen=True, slots=True, init=False)
class Reject:
    """Do not let the call run. The model reads `reason` in a result of kind `rejected`.

    `remember` is that of `Approve`.
    """

    call_id: str
    reason: str = ""
    remember: Remember | None = None
    type: Literal["reject"] = "reject"

    def __init__(self, call: ToolUseBlock | str, reason: str = "", *, remember: Remember | None = None) -> None:
        if not isinstance(reason, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInputError(f"Reject: reason must be a str, not {shown(reason, 60)}.")
        put = object.__setattr__
        put(self, "call_id", _id_of("Reject", call))
        put(self, "reason", encodable(reason))
        put(self, "remember", _remember("Reject", remember))
        put(self, "type", "reject")

    def __post_init__(self) -> None:
        object.__setattr__(self, "call_id", _id_of("Reject", self.call_id))
        object.__setattr__(self, "reason", encodable(self.reason))


ApprovalAnswer = Annotated[Approve | Reject, Discriminator("type")]
"""The answer to a call that waits for approval. pydantic chooses the class by `type`."""


def _id_of(answer: str, call: object) -> str:
    if isinstance(call, ToolUseBlock):
        return call.id
    if isinstance(call, str) and call:
        check_encodable(call, f"{answer}.call_id")
        return call
    raise InvalidInputError(f"{answer} takes a call (of reply.pending_calls) or its id, not {shown(call, 60)}.")


def _remember(answer: str, remember: Remember | None) -> Remember | None:
    if remember is not None and remember not in get_args(Remember):
        raise InvalidInputError(f"{answer}: remember must be None, 'arguments' or 'tool', not {shown(remember, 60)}.")
    return remember
