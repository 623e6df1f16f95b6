"""`Rules`: what the protocol asks of a stream of events, checked event by event."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ag_ui.core import Event as AgUiEvent
from pydantic import TypeAdapter

_ADAPTER: TypeAdapter[Any] = TypeAdapter(AgUiEvent)

STARTS = {
    "TEXT_MESSAGE_START": ("text", "messageId"),
    "REASONING_START": ("span", "messageId"),
    "REASONING_MESSAGE_START": ("reasoning", "messageId"),
    "TOOL_CALL_START": ("call", "toolCallId"),
    "STEP_STARTED": ("step", "stepName"),
    "SUBAGENT_STARTED": ("subagent", "subagentRunId"),
}
GOES_ON = {
    "TEXT_MESSAGE_CONTENT": ("text", "messageId"),
    "REASONING_MESSAGE_CONTENT": ("reasoning", "messageId"),
    "TOOL_CALL_ARGS": ("call", "toolCallId"),
}
ENDS = {
    "TEXT_MESSAGE_END": ("text", "messageId"),
    "REASONING_END": ("span", "messageId"),
    "REASONING_MESSAGE_END": ("reasoning", "messageId"),
    "TOOL_CALL_END": ("call", "toolCallId"),
    "STEP_FINISHED": ("step", "stepName"),
    "SUBAGENT_FINISHED": ("subagent", "subagentRunId"),
    "SUBAGENT_ERROR": ("subagent", "subagentRunId"),
}
ONCE = {"call", "reasoning", "span", "subagent"}
"""What is opened once in a run; a text message may go on after it was closed."""


class RuleBrokenError(AssertionError):
    """The stream breaks a rule of the protocol."""


def check(events: Iterable[dict[str, Any]]) -> None:
    """Raise `RuleBrokenError` unless the events are those of one run that has ended."""
    rules = Rules()
    for event in events:
        rules.see(event)
    if not rules.ended:
        raise RuleBrokenError("the run has not ended")


class Rules:
    """One stream of one run."""

    def __init__(self) -> None:
        self.ended = False
        self._began = False
        self._open: dict[tuple[Any, ...], Any] = {}
        self._used: set[tuple[Any, ...]] = set()
        self._owners: dict[tuple[str, str], Any] = {}
        self._results: set[str] = set()

    def see(self, event: dict[str, Any]) -> None:
        """The next event."""
        _ADAPTER.validate_python(event)
        kind = event["type"]
        self._is(None not in event.values() or kind == "CUSTOM", event, "a field is null")
        self._is(not self.ended, event, "it comes after the end")
        if kind == "RUN_ERROR":
            self.ended = True
            return
        if kind == "RUN_STARTED":
            self._is(not self._began, event, "the run has begun already")
            self._began = True
            return
        self._is(self._began, event, "the run has not begun")
        if kind == "RUN_FINISHED":
            self._is(not self._open, event, f"open: {list(self._open)}")
            self.ended = True
        elif kind in STARTS:
            self._start(event, *STARTS[kind])
        elif kind in GOES_ON or kind in ENDS:
            self._go_on(event, *(GOES_ON.get(kind) or ENDS[kind]), ends=kind in ENDS)
        elif kind == "TOOL_CALL_RESULT":
            self._is(event["messageId"] not in self._results, event, "the id was used")
            self._results.add(event["messageId"])
            self._is(("call", event["toolCallId"]) not in self._open, event, "its call is open")

    def _start(self, event: dict[str, Any], what: str, field: str) -> None:
        owner, key = event.get("subagentRunId"), self._key(event, what, field)
        self._is(key not in self._open, event, "it is open already")
        self._is(what not in ONCE or key not in self._used, event, "the id was used")
        if what == "subagent":
            parent = event.get("parentSubagentRunId")
            self._is(parent is None or ("subagent", parent) in self._used, event, "its parent was not announced")
        else:
            self._is(owner is None or ("subagent", owner) in self._open, event, "its sub-agent is not running")
            if what != "step":
                self._is(self._owners.setdefault((what, key[1]), owner) == owner, event, "it has another owner")
        if what == "call" and event.get("parentMessageId") is not None:
            known = self._owners.setdefault(("text", event["parentMessageId"]), owner)
            self._is(known == owner, event, "its message has another owner")
        self._open[key] = owner
        self._used.add(key)

    def _go_on(self, event: dict[str, Any], what: str, field: str, *, ends: bool) -> None:
        key = self._key(event, what, field)
        self._is(key in self._open, event, "it is not open")
        self._is(what == "subagent" or self._open[key] == event.get("subagentRunId"), event, "it has another owner")
        if ends:
            del self._open[key]

    def _key(self, event: dict[str, Any], what: str, field: str) -> tuple[Any, ...]:
        return (what, event[field], event.get("subagentRunId")) if what == "step" else (what, event[field])

    def _is(self, right: bool, event: dict[str, Any], why: str) -> None:
        if not right:
            raise RuleBrokenError(f"{event}: {why}")
