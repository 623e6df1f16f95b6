"""`TextGuardrail`: the base of checks that look for things in a text: it replaces each, stops at the first, or warns.

A text of more than `INLINE` characters is searched on a worker thread. In a tool call the texts of the arguments are
searched, and their form stays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Literal, NamedTuple, cast

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.guardrails.check_request import CheckRequest
from agentscope_rx.guardrails.port import Answer, Guardrail, check_guardrail
from agentscope_rx.guardrails.verdict import Kind, Verdict
from agentscope_rx.messages.frozen import thaw
from agentscope_rx.reactive import on_worker

TextAction = Literal["replace", "stop", "warn"]

INLINE = 8192
"""The length of a text that is searched on the loop's thread."""


class Span(NamedTuple):
    """A find in a text: the characters from `start` to `end`, a label, and what replaces them.

    `instead` is the check's `template` unless it is given.
    """

    start: int
    end: int
    label: str
    instead: str | None = None

    def moved(self, by: int) -> Span:
        """Returns the span moved by so many characters."""
        return self._replace(start=self.start + by, end=self.end + by) if by else self


class TextGuardrail(Guardrail):
    """A check that looks for spans in a text. `action`: it replaces each ("replace"), stops at the first, or warns.

    A subclass writes `find`; `template` replaces each find. A text of more than 8,192 characters is
    searched on a worker thread. In a tool call the texts of the arguments are searched, and their form stays.
    """

    def __init__(self, kinds: Iterable[Kind], action: TextAction, template: str, tools: Collection[str] | None) -> None:
        if action not in ("replace", "stop", "warn"):
            raise ConfigurationError(f"action must be 'replace', 'stop' or 'warn', not {action!r:.60}.")
        if isinstance(kinds, str) or isinstance(tools, str):
            raise ConfigurationError(f"kinds and tools take lists of names, not {kinds!r:.60} and {tools!r:.60}.")
        self.kinds: tuple[Kind, ...] = tuple(kinds)
        self.action: TextAction = action
        self.template = template
        self.tools: frozenset[str] | None = None if tools is None else frozenset(tools)
        check_guardrail(self)

    def find(self, text: str, before: str = "") -> Iterable[Span]:
        """The spans that were found in the text; `before` is the text directly before it."""
        raise NotImplementedError

    def check(self, request: CheckRequest) -> Answer:
        """The verdict on the text of the request."""
        if len(request.text) <= INLINE:
            return self._judge(request)
        return on_worker(partial(self._judge, request))

    def redacted(self, text: str) -> str:
        """The text with all finds replaced, such as for a log: `Content(redact=Secrets().redacted)`."""
        spans = disjoint(self.find(text))
        return self._without(text, spans) if spans else text

    def _judge(self, request: CheckRequest) -> Verdict:
        if request.kind == "tool_call" and request.call is not None and request.call.raw is None:
            labels: list[str] = []
            arguments = self._replaced(thaw(request.call.input), labels)
            content = cast("Mapping[str, object]", arguments)
            return self._verdict(labels, content)
        spans = disjoint(self.find(request.text, request.before))
        spans = [span for span in spans if span.end > span.start or span.instead]
        return self._verdict([span.label for span in spans], self._without(request.text, spans) if spans else "")

    def _verdict(self, labels: Sequence[str], content: str | Mapping[str, object]) -> Verdict:
        if not labels:
            return Verdict()
        reason = f"found {', '.join(dict.fromkeys(labels))}"
        if self.action == "replace":
            return Verdict.replace(content, reason)
        return Verdict.stop(reason) if self.action == "stop" else Verdict.warn(reason)

    def _replaced(self, value: object, labels: list[str]) -> object:
        """The value with all texts in it replaced, keys and numbers included: a card number may be given as one."""
        if isinstance(value, (str, int)) and not isinstance(value, bool):
            text = str(value)
            spans = disjoint(self.find(text))
            labels += [span.label for span in spans]
            return self._without(text, spans) if spans else value
        if isinstance(value, Mapping):
            items = cast("Mapping[str, object]", value).items()
            return {str(self._replaced(key, labels)): self._replaced(each, labels) for key, each in items}
        if isinstance(value, list):
            return [self._replaced(each, labels) for each in cast("list[object]", value)]
        return value

    def _without(self, text: str, spans: Sequence[Span]) -> str:
        pieces: list[str] = []
        at = 0
        for span in spans:
            instead = self.template.replace("{kind}", span.label) if span.instead is None else span.instead
            pieces += [text[at : span.start], instead]
            at = span.end
        return "".join([*pieces, text[at:]])


def disjoint(spans: Iterable[Span]) -> list[Span]:
    """The spans in order; those that overlap are one, with the label of the first."""
    found: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        if found and span.start < found[-1].end:
            last = found.pop()
            span = Span(last.start, max(last.end, span.end), last.label, last.instead)
        found.append(span)
    return found
