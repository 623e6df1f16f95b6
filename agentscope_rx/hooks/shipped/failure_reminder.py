"""`FailureReminderHook`: tells the model that it repeats a call that fails.

    call(x) fails   call(x) fails   call(x) fails      the hint, in the next request     call(y) ...
       1               2               3               "... failed 3 times ... another way"

| failures of a call                                | are                                                    |
|---------------------------------------------------|--------------------------------------------------------|
| `failed`, `timeout`, `rejected`, `not_found`, `invalid_arguments` | counted                                |
| `interrupted`                                     | not counted: the call may have been right              |
| followed by a success of the same call            | forgotten                                              |

The counts belong to the conversation and are saved with it. The hint is in one request and in no memory.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Literal, cast

from agentscope_rx.errors import ConfigurationError, InvalidInputError
from agentscope_rx.events import Event, PostActingEvent, PreReasoningEvent
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.hooks.base import DEFAULT_PRIORITY, Hook, check_priority
from agentscope_rx.hooks.system_hint import wrapped
from agentscope_rx.messages import ToolResultBlock, ToolResultKind, ToolUseBlock
from agentscope_rx.messages.frozen import shown
from agentscope_rx.models.checks import check_count, check_one_of
from agentscope_rx.parts import Part

Same = Literal["arguments", "error"]
"""What makes two failing calls of a tool equal."""

_KEPT = 64
"""The failing calls that are counted in one conversation; the one that failed longest ago is forgotten first."""
_TEXT = 300


@dataclass(frozen=True, slots=True)
class _Failing:
    """The failures of one call so far. `due`: the model has not been told of the last one."""

    key: str
    tool: str
    arguments: str
    error: str
    count: int
    due: bool = False


_Counts = tuple[_Failing, ...]


class FailureReminderHook(Hook):
    """Adds a hint to the next request after `after` equal failing calls: what failed, how often, with which error.

    With `same="arguments"` calls of one tool with the same arguments are equal, with `same="error"` calls of one tool
    with the same error text. Other calls between them do not matter. A success resets the count; interrupted calls do
    not count. After `stop_after` failures the run ends (`ACTING_STOP_REQUESTED`), and the count begins anew. The state
    is part of the conversation, so one hook serves many of them; no memory holds the hints.
    """

    def __init__(
        self,
        after: int = 3,
        *,
        same: Same = "arguments",
        stop_after: int | None = None,
        name: str = "failing_calls",
        priority: int = DEFAULT_PRIORITY,
    ) -> None:
        check_count("after", after)
        check_one_of("same", same, ("arguments", "error"), optional=False)
        if stop_after is not None:
            check_count("stop_after", stop_after)
            if stop_after < after:
                raise ConfigurationError(
                    f"stop_after={stop_after} would end the run before the reminder after {after} failures: give it at "
                    f"least {after}."
                )
        check_priority("FailureReminderHook", priority)
        self.after = after
        self.same: Same = same
        self.stop_after = stop_after
        self.priority = priority
        self._part: Part[_Counts] = Part(name, 1, (), dump=_dump, read=_read)

    def on_post_acting(self, event: Event) -> Event | None:
        """Count the call, or forget it if it was a success."""
        assert isinstance(event, PostActingEvent)
        call, result = event.tool_use, event.result
        if result.kind is ToolResultKind.INTERRUPTED:
            return None
        if not result.is_error:
            self._part.change(event.source, lambda counts: (_without(counts, self._succeeded(call)), None))
            return None
        key = self._key(call, result)

        def count(counts: _Counts) -> tuple[_Counts, int]:
            before = next((each.count for each in counts if each.key == key), 0)
            arguments, error = _short(_arguments(call)), _short(result.text)
            failing = _Failing(key, call.name, arguments, error, before + 1, before + 1 >= self.after)
            others = tuple(each for each in counts if each.key != key)
            if self.stop_after is not None and failing.count >= self.stop_after:
                return others, failing.count
            return (*others, failing)[-_KEPT:], failing.count

        failures = self._part.change(event.source, count)
        return event.stop() if self.stop_after is not None and failures >= self.stop_after else None

    def on_pre_reasoning(self, event: Event) -> Event | None:
        """Add the hint for the calls that have failed so often since the last request."""
        assert isinstance(event, PreReasoningEvent)

        def take(counts: _Counts) -> tuple[_Counts, _Counts]:
            due = tuple(each for each in counts if each.due)
            if not due:
                return counts, ()
            return tuple(replace(each, due=False) if each.due else each for each in counts), due

        due = self._part.change(event.source, take)
        return event.with_hint(wrapped("\n".join(map(self._text, due)))) if due else None

    def _key(self, call: ToolUseBlock, result: ToolResultBlock) -> str:
        what = result.text if self.same == "error" else _arguments(call)
        return f"{call.name}:{_digest(what)}"

    def _succeeded(self, call: ToolUseBlock) -> str:
        """The key, or the beginning of the keys, that a success of this call clears."""
        return f"{call.name}:" if self.same == "error" else f"{call.name}:{_digest(_arguments(call))}"

    def _text(self, failing: _Failing) -> str:
        if self.same == "error":
            said = f"Calls of '{failing.tool}' have failed {failing.count} times with the same error"
        else:
            said = (
                f"The call of '{failing.tool}' with the arguments {failing.arguments} has failed {failing.count} times"
            )
        return (
            f"{said}: {failing.error}\nDo not repeat it unchanged. Find out why it fails, then try another way: other "
            "arguments, another tool, or ask the user. If there is no other way, say so."
        )

    def __repr__(self) -> str:
        return f"<FailureReminderHook after {self.after} failures with the same {self.same}>"


def _arguments(call: ToolUseBlock) -> str:
    """The arguments in one form for equal ones; those that are not JSON, as they came."""
    if call.raw is not None:
        return call.raw
    return json.dumps(call.input, sort_keys=True, ensure_ascii=False, default=str)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _short(text: str) -> str:
    one = " ".join(text.split())
    return one if len(one) <= _TEXT else f"{one[:_TEXT]}..."


def _without(counts: _Counts, key: str) -> _Counts:
    found = tuple(each for each in counts if not each.key.startswith(key))
    return counts if len(found) == len(counts) else found


def _dump(counts: _Counts) -> object:
    return [[each.key, each.tool, each.arguments, each.error, each.count, each.due] for each in counts]


def _read(data: object) -> _Counts:
    if not isinstance(data, list):
        raise InvalidInputError(f"The state of failing calls must be a JSON array, not {shown(data, 60)}.")
    try:
        return tuple(_Failing(*each) for each in cast("list[tuple[str, str, str, str, int, bool]]", data))
    except TypeError as error:
        raise InvalidInputError(f"The state of failing calls has a row that cannot be read: {error}") from error
