"""`RuntimeStateHook`: the model reads the time, the folder, the room left in its window, and more, when it has changed.

    request 1   question . STATE 10:00
    request 2   question . STATE 10:00 . call . result                             unchanged: nothing is added
    request 3   question . STATE 10:00 . call . result . call . result . STATE 10:10

A state is added at the end, and stays in its place in later requests, so each request begins with the one before it,
byte for byte, and prompt caches hold. It is in no memory: the places of the last states are kept with the conversation.
When a message behind which a state stands leaves the requests, the state goes with it, and the present one is added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from os import PathLike, fspath
from typing import Final, cast
from zoneinfo import ZoneInfo

from agentscope_rx.errors import ConfigurationError, InvalidInputError
from agentscope_rx.events import Event, EventSource, PostReasoningEvent, PreReasoningEvent
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.hooks.base import Hook, check_priority
from agentscope_rx.hooks.shipped.facts import UNKNOWN, Fact, Told, tell_all
from agentscope_rx.hooks.system_hint import wrapped
from agentscope_rx.messages import Msg
from agentscope_rx.messages.frozen import shown
from agentscope_rx.models.chat_model import ChatModel
from agentscope_rx.models.checks import check_count, check_seconds
from agentscope_rx.models.tokens import EstimatedTokens
from agentscope_rx.models.wire.speaker_names import hint_message
from agentscope_rx.parts import Part
from agentscope_rx.reactive import Flow, concat_map
from agentscope_rx.reactive.kernel.dropped import report_dropped

STEP: Final = 10
"""What is left of the window is told in steps of so many percent."""
DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_KEPT = 16
"""The states that stay in requests. If there are more, the older half goes at once: each time breaks prompt caches."""
_TEXT = 500


@dataclass(frozen=True, slots=True)
class _State:
    """A state that was added: behind which message, what it was made of, and its text."""

    after: str
    key: str
    text: str


@dataclass(frozen=True, slots=True)
class _Shown:
    """The states in the requests of a conversation, and the tokens of its last request with the answer."""

    used: int = 0
    states: tuple[_State, ...] = ()


class RuntimeStateHook(Hook):
    """Adds the runtime state to a request if it differs from the last state that the model has read.

    | option    | the model reads                                                                              |
    |-----------|----------------------------------------------------------------------------------------------|
    | `minutes` | the time, anew after so many minutes; None: no time                                          |
    | `zone`    | ... in this zone, such as "Europe/Berlin"; None: the local one                               |
    | `folder`  | the working folder                                                                           |
    | `window`  | the rest of so many tokens (or of the model's window), in steps of 10 percent                |
    | `tasks`   | open tasks: a function of the `EventSource`, which has the conversation (`source.parts`)     |
    | `facts`   | the answers of these functions, by name; "not known" if one fails, and `on_dropped` gets the error |

    The hook calls the functions before each request, so they must not block; an awaitable or Observable has
    `fact_timeout` seconds. `clock` gives the time, with a zone.

    A state stays in its place in later requests, so prompt caches hold; no memory holds it. The last 16 stay. A state
    whose message leaves the requests, by a compaction, leaves with it, and the present one follows. One hook serves
    many conversations, and is saved with them.
    """

    def __init__(
        self,
        *,
        minutes: int | None = 10,
        zone: str | tzinfo | None = None,
        folder: str | PathLike[str] | None = None,
        window: int | ChatModel | None = None,
        tasks: Callable[[EventSource], Iterable[str]] | None = None,
        facts: Mapping[str, Fact] | None = None,
        fact_timeout: float = 5.0,
        clock: Callable[[], datetime] | None = None,
        name: str = "runtime_state",
        priority: int = 800,
    ) -> None:
        if minutes is not None:
            check_count("minutes", minutes)
        check_seconds("fact_timeout", fact_timeout, infinite=False)
        check_priority("RuntimeStateHook", priority)
        for option, function in (("tasks", tasks), ("clock", clock), *(facts or {}).items()):
            if function is not None and not callable(function):
                raise ConfigurationError(f"{option} must be a function, not {function!r:.60}.")
        self.minutes = minutes
        self.zone: tzinfo | None = _zone(zone)
        self.folder: str | None = None if folder is None else str(fspath(folder))
        self.window: int | None = _window(window)
        self.priority = priority
        self._tasks = tasks
        self._facts: dict[str, Fact] = dict(facts or {})
        self._fact_timeout = fact_timeout
        self._clock = _utc if clock is None else clock
        self._part: Part[_Shown] = Part(name, 1, _Shown(), dump=_dump, read=_read)

    def on_pre_reasoning(self, event: Event) -> Event | Flow[Event] | None:
        """Put the states that were shown in their places, and a new one at the end if it differs from the last."""
        assert isinstance(event, PreReasoningEvent)
        told = tell_all(self._facts, self._fact_timeout)
        if isinstance(told, Flow):
            return told.pipe(concat_map(lambda found: self._placed(event, found) or event))
        return self._placed(event, told)

    def on_pre_summary(self, event: Event) -> Event | None:
        """Put the states that were shown in their places."""
        assert isinstance(event, PreReasoningEvent)
        return _with_states(event, _present(event.messages, self._part.get(event.source).states))

    def on_post_reasoning(self, event: Event) -> None:
        """Note the size of the request and its answer."""
        assert isinstance(event, PostReasoningEvent)
        usage = event.usage
        if self.window is not None and usage is not None and usage.input_tokens:
            used = usage.input_tokens + usage.output_tokens
            self._part.change(event.source, lambda before: (replace(before, used=used), None))

    # --- the state ----------------------------------------------------------------------------------------------------

    def _placed(self, event: PreReasoningEvent, told: Told) -> Event | None:
        messages = event.messages
        key, text = self._state(event, told)

        def add(before: _Shown) -> tuple[_Shown, list[tuple[_State, int]]]:
            present = _present(messages, before.states)
            states = tuple(state for state, _ in present)
            if messages and key and (not states or states[-1].key != key):
                state = _State(messages[-1].id, key, text)
                present = [*present, (state, len(messages))]
                states = (*states, state)
                if len(states) > _KEPT:
                    states, present = states[_KEPT // 2 :], present[_KEPT // 2 :]
            after = before if states == before.states else replace(before, states=states)
            return after, present

        return _with_states(event, self._part.change(event.source, add))

    def _state(self, event: PreReasoningEvent, told: Told) -> tuple[str, str]:
        """What decides if the state has changed, and its text."""
        lines: list[tuple[str, str]] = []
        if self.minutes is not None:
            now = self._now()
            lines.append((f"{int(now.timestamp() // (60 * self.minutes))}", f"Time: {_time_text(now, self.zone)}"))
        if self.folder is not None:
            lines.append((self.folder, f"Working folder: {_line(self.folder)}"))
        if self.window is not None:
            room = self._room(event, self.window)
            lines.append((room, f"Room left in the context window: {room} of {self.window:,} tokens"))
        if self._tasks is not None and (tasks := self._open_tasks(event.source)) is not None:
            lines.append((tasks, f"Open tasks: {tasks}"))
        for name, value in told.items():
            if value is not None:
                lines.append((_line(value), f"{_line(name)}: {_line(value)}"))
        if not lines:
            return "", ""
        text = "\n".join(["The state now:", *(f"- {text}" for _, text in lines)])
        return "\n".join(key for key, _ in lines), wrapped(text)

    def _now(self) -> datetime:
        now = self._clock()
        if not isinstance(now, datetime) or now.tzinfo is None:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(
                f"The clock of a RuntimeStateHook must give a datetime with a zone, such as datetime.now(UTC), not "
                f"{now!r:.60}."
            )
        return now.astimezone(self.zone)

    def _room(self, event: PreReasoningEvent, window: int) -> str:
        used = self._part.get(event.source).used or _ESTIMATE.count(event.messages)
        left = max(0.0, 100 - 100 * used / window)
        step = int(left // STEP) * STEP
        return f"about {step}%" if step else f"less than {STEP}%"

    def _open_tasks(self, source: EventSource) -> str | None:
        assert self._tasks is not None
        try:
            return _line("; ".join(map(_line, self._tasks(source)))) or "none"
        except Exception as error:
            report_dropped(error, "the open tasks of a RuntimeStateHook")
            return UNKNOWN

    def __repr__(self) -> str:
        return f"<RuntimeStateHook {self._part.name!r}>"


_ESTIMATE: Final = EstimatedTokens()


def _present(messages: Sequence[Msg], states: Sequence[_State]) -> list[tuple[_State, int]]:
    """The states whose message is still there, with the place behind it."""
    left = {state.after for state in states}
    places: dict[str, int] = {}
    for index in range(len(messages) - 1, -1, -1):
        if not left:
            break
        id = messages[index].id
        if id in left:
            places[id] = index + 1
            left.discard(id)
    return [(state, places[state.after]) for state in states if state.after in places]


def _with_states(event: PreReasoningEvent, present: Sequence[tuple[_State, int]]) -> Event | None:
    if not present:
        return None
    messages = list(event.messages)
    # from the end, so that the places before stay
    for state, place in reversed(present):
        # equal in each request
        hint = hint_message(state.text)
        messages.insert(place, hint.replace(id=f"state-{state.after}", timestamp=messages[place - 1].timestamp))
    return event.replace(messages=messages)


def _utc() -> datetime:
    return datetime.now(UTC)


def _line(value: object) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= _TEXT else f"{text[:_TEXT]}..."


def _time_text(now: datetime, zone: tzinfo | None) -> str:
    offset = now.strftime("%z")
    name = f"{zone.key}, " if isinstance(zone, ZoneInfo) else ""
    return f"{DAYS[now.weekday()]}, {now:%Y-%m-%d %H:%M} ({name}UTC{offset[:3]}:{offset[3:5]})"


def _zone(zone: object) -> tzinfo | None:
    if zone is None or isinstance(zone, tzinfo):
        return zone
    try:
        return ZoneInfo(cast("str", zone))
    except (KeyError, ValueError, TypeError, OSError, AttributeError):
        raise ConfigurationError(f"zone must be a time zone such as 'Europe/Berlin', not {zone!r:.60}.") from None


def _window(window: object) -> int | None:
    if isinstance(window, ChatModel):
        known = window.capabilities
        if known is None or known.context_window is None:
            raise ConfigurationError(f"The context window of {window!r} is unknown: give its tokens, window=128_000.")
        return known.context_window
    if window is not None:
        check_count("window", window)
    return cast("int | None", window)


def _dump(shown: _Shown) -> object:
    return {"used": shown.used, "states": [[each.after, each.key, each.text] for each in shown.states]}


def _read(data: object) -> _Shown:
    try:
        given = cast("Mapping[str, object]", data)
        rows = cast("list[tuple[str, str, str]]", given["states"])
        return _Shown(int(cast("int", given["used"])), tuple(_State(*row) for row in rows))
    except (TypeError, KeyError, ValueError, IndexError):
        raise InvalidInputError(f"The runtime state of a conversation cannot be read: {shown(data, 60)}") from None
