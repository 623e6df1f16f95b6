"""`RecordedModel`: a model that plays the answers of a log of events, so that any run becomes a regression test.

record(agent.stream("Weather?"), "run.jsonl")               once, with the real model
ReActAgent("Friday", RecordedModel("run.jsonl"), ...)       in the test, without the model
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike, fspath

from agentscope_rx.errors import AgentScopeError, ConfigurationError
from agentscope_rx.events import Event
from agentscope_rx.events._log_file import read_log
from agentscope_rx.messages import ContentBlock, Msg, MsgRole
from agentscope_rx.models.chat_model import OutputSupport
from agentscope_rx.models.options import GenerateOptions, ToolSchema
from agentscope_rx.models.response import ChatResponse
from agentscope_rx.reactive import Flow, defer, from_iterable
from agentscope_rx.reactive.kernel.flow import Operator
from agentscope_rx.testing.recorded_answers import RecordedCall, RecordedSummary, recorded_calls, with_ids
from agentscope_rx.testing.scripted_model import (
    HANG,
    Delay,
    PlainStep,
    ScriptedModel,
    ScriptExhaustedError,
    Step,
)

_CONVERSATION = re.compile(r"(?<=conversation_id: )[0-9a-f]{8,}")
"""The id in the result of a sub-agent, with which a later call continues its conversation."""


class RecordedMismatchError(AgentScopeError, AssertionError):
    """A request that differs from the recorded one. The text shows the first difference."""


class RecordedModel(ScriptedModel):
    """A model that plays the answers of a recorded run: the same increments, ids of calls, usage and errors, in order.

        await record(agent.stream("Weather?"), "run.jsonl")             # once, with the real model
        ReActAgent("Friday", RecordedModel("run.jsonl"), ...)           # in the test, without the model

    | argument | is                                                                                              |
    |----------|-------------------------------------------------------------------------------------------------|
    | `log`    | the file that `record` wrote, or events                                                         |
    | `agent`  | the name of the agent whose answers are played, such as a sub-agent; default: the outermost runs |
    | `pace`   | 1.0 plays the recorded times, 2.0 twice as fast; default: all at once                           |
    | `strict` | compares each request with the log (default)                                                    |

    A comparison looks at role, name and content of the system message, the messages that the run has added to memory
    by then, and the hints. It does not look at ids, times, metadata, the text of summaries and messages from before
    the run. A difference is a `RecordedMismatchError`. Of runs that went on together, such as parallel calls of a
    sub-agent, the matching one is played. Use `strict=False` if a hook or a wrapper replaces the messages of requests,
    or if the agent observes messages during the run: a log does not hold these.

    Retries and compactions are played as recorded. An answer that was interrupted or left plays what had come, and
    then hangs. A recorded error has its class and text; its other attributes are None. If hooks changed the chunks in
    the log, so that they do not add up to the message, the message is played.
    """

    provider = "recorded"

    def __init__(
        self,
        log: str | PathLike[str] | Iterable[Event],
        *,
        agent: str | None = None,
        strict: bool = True,
        pace: float | None = None,
        model_name: str | None = None,
        output_modes: Iterable[OutputSupport] | None = None,
    ) -> None:
        if pace is not None and not pace > 0:
            raise ConfigurationError(f"pace must be a number greater than 0, or None for no waits, not {pace!r}.")
        is_path = isinstance(log, (str, PathLike))
        self.log_name: str = fspath(log) if is_path else "the log"
        if not is_path and not isinstance(log, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"A log is the path of a file, or a list of events, not {log!r:.60}.")
        events = tuple(read_log(log) if is_path else log)
        _check_log(self.log_name, events, agent)
        self.calls: list[RecordedCall] = recorded_calls(events, agent)
        """The recorded calls, in the order in which they are played."""
        name = model_name or next((call.pre.model_name for call in self.calls if call.pre.model_name), "recorded")
        super().__init__(*map(self._turn, range(len(self.calls))), model_name=name, output_modes=output_modes)
        self._pace = pace
        self._requested = 0
        self.strict = strict
        self.mismatches: list[AgentScopeError] = []
        """The requests that differed from the log, or came after its last answer."""
        self._earlier: dict[str, int] = {}
        """By recorded run: the number of messages that the conversation had before the run."""
        self._ids: dict[str, str] = {}
        """The recorded ids of sub-agents' conversations, and those that they have now."""

    def assert_complete(self) -> None:
        """Raise the first mismatch, also if the run did not fail with it; `AssertionError` if answers are left."""
        if self.mismatches:
            raise self.mismatches[0]
        if self.unplayed:
            call = self.calls[len(self.requests)]
            answer = "an answer without an end" if call.post is None else _text(call.post.message)
            raise AssertionError(
                f"{self.unplayed} of {len(self.calls)} answers of {self.log_name} were not played; next: {answer:.300}"
            )

    def _turn(self, number: int) -> Step:
        # made when it is played: then its place is known, and the conversations of sub-agents have their ids
        return lambda request: list(_steps(self.calls[number], self._pace, self._ids))

    def stream(
        self,
        messages: Sequence[Msg],
        tools: Sequence[ToolSchema] = (),
        options: GenerateOptions | None = None,
        *,
        around: Operator[ChatResponse, ChatResponse] | None = None,
    ) -> Flow[ChatResponse]:
        """Play the next recorded answer, without deadlines and retries: the log holds those that there were.

        Signals: the increments, and completion or the recorded error; `ScriptExhaustedError` after the last answer,
        `RecordedMismatchError` for a request that differs.
        Cancels: the answer; it counts as played.
        """
        merged = (options or self.options).over(self.options)
        answer: Flow[ChatResponse] = defer(lambda: self.do_stream(messages, tools, merged))
        return answer if around is None else answer.pipe(around)

    def do_stream(
        self, messages: Sequence[Msg], tools: Sequence[ToolSchema], options: GenerateOptions
    ) -> Flow[ChatResponse]:
        """Compares the request with the log, and plays the next answer."""
        play = super().do_stream

        def begin() -> Flow[ChatResponse]:
            try:
                summary = self._check(tuple(messages), tools)
            except AgentScopeError as error:
                self.mismatches.append(error)
                raise
            return play(messages, tools, options) if summary is None else from_iterable(summary.answer())

        return defer(begin)

    def _check(self, messages: tuple[Msg, ...], tools: Sequence[ToolSchema]) -> RecordedSummary | None:
        """Find the answer to a request, and put it at its place among `calls`; or a summary that a hook asks for."""
        number = self._requested
        if number >= len(self.calls):
            raise ScriptExhaustedError(
                f"{self.log_name} has {len(self.calls)} model calls, and this is request {number + 1}. "
                f"The conversation ends with: {messages[-1] if messages else None!r:.200}"
            )
        first: str | None = None
        summary: RecordedSummary | None = None
        for index in self._candidates(number):
            call = self.calls[index]
            ids = {**self._ids, **dict(_conversations(call.history, messages))}
            # (a compaction may have changed what was before the run)
            earlier = None if call.compacted else self._earlier.get(call.pre.run_id)
            difference, before = _difference(call, messages, earlier, ids)
            if difference is not None and call.summaries and not tools:
                summary = summary or call.summaries[-1]
            elif difference is None or not self.strict:
                self._ids = ids
                self._earlier[call.pre.run_id] = before
                self.calls.insert(number, self.calls.pop(index))
                self._requested += 1
                return None
            first = first or difference
        if summary is not None:
            return summary
        raise RecordedMismatchError(f"Request {number + 1} of {len(self.calls)} differs from {self.log_name}: {first}")

    def _candidates(self, number: int) -> Iterator[int]:
        """The next calls of the runs that were going on together: the order of these may be another one now."""
        end = self.calls[number].run_end
        runs: set[str] = set()
        for index in range(number, len(self.calls)):
            call = self.calls[index]
            if call.run_begin <= end and call.pre.run_id not in runs:
                runs.add(call.pre.run_id)
                yield index


def _check_log(name: str, events: Sequence[object], agent: str | None) -> None:
    """`ConfigurationError` for a log without events, or without any of this agent."""
    found = dict.fromkeys(event.agent if isinstance(event, Event) else None for event in events)
    if not found or None in found:
        wrong = next((event for event in events if not isinstance(event, Event)), None)
        problem = "holds no events" if not found else f"holds {wrong!r:.60}, which is no event"
        raise ConfigurationError(f"{name} {problem}: there is nothing to play. Record a run, by record(stream, file).")
    if agent is not None and agent not in found:
        raise ConfigurationError(f"{name} has no events of an agent {agent!r}. It has those of {[*found]}.")


def _steps(call: RecordedCall, pace: float | None, ids: Mapping[str, str]) -> Iterator[PlainStep]:
    """The steps that play a recorded call."""
    at = call.pre.timestamp
    for timestamp, response in call.increments(ids):
        if pace is not None and timestamp > at:
            yield Delay((timestamp - at) / pace)
            at = timestamp
        yield response
    if call.error is not None:
        yield call.error
    elif call.hangs:
        yield HANG


def _conversations(recorded: Sequence[Msg], requested: Sequence[Msg]) -> Iterator[tuple[str, str]]:
    """The ids of the conversations of sub-agents, as recorded and now: each run makes its own."""
    now = {result.id: result.text for message in requested for result in message.tool_results}
    for message in recorded:
        for result in message.tool_results:
            before, after = (_CONVERSATION.search(text) for text in (result.text, now.get(result.id, "")))
            if before is not None and after is not None and before[0] != after[0]:
                yield before[0], after[0]


def _difference(
    call: RecordedCall, messages: tuple[Msg, ...], earlier: int | None, ids: Mapping[str, str]
) -> tuple[str | None, int]:
    """The first difference of a request, or None; and the number of messages before the run."""
    system, hints = call.pre.system_message, call.pre.hints
    system_now = messages[0] if messages and messages[0].role is MsgRole.SYSTEM else None
    if _text(system) != _text(system_now):
        return _shown("the system message", _text(system), _text(system_now)), 0
    rest = messages if system_now is None else messages[1:]
    expected = (*call.history, *hints)
    before = len(rest) - len(expected)
    if before < 0 or (earlier is not None and before != earlier):
        count = len(expected) + (earlier or 0)
        last = _text(rest[-1])[:200] if rest else "none"
        return f"it has {len(rest)} messages where the log has {count}. The last one is {last}", before
    for number, (recorded, now) in enumerate(zip(expected, rest[before:], strict=True), 1):
        one, other = with_ids(_text(recorded), ids), _text(now)
        if one != other:
            return _shown(f"message {number} of {len(expected)} of the run", one, other), before
    return None, before


def _shown(what: str, recorded: str, requested: str) -> str:
    """Both texts, from shortly before the place where they differ."""
    pairs = enumerate(zip(recorded, requested, strict=False))
    same = next((n for n, (one, other) in pairs if one != other), min(len(recorded), len(requested)))
    start = max(0, same - 60)
    dots = "..." if start else ""
    one, other = recorded[start : start + 300], requested[start : start + 300]
    return f"{what}\n  recorded:  {dots}{one}\n  requested: {dots}{other}"


def _text(message: Msg | None) -> str:
    """What is compared of a message."""
    if message is None:
        return "none"
    return f"{message.role.value} {message.name!r}: " + ", ".join(_block_text(block) for block in message.content)


def _block_text(block: ContentBlock) -> str:
    fields = (field.name for field in dataclasses.fields(block) if field.compare)
    shown = ", ".join(f"{n}={getattr(block, n)!r}" for n in fields if n not in ("metadata", "type"))
    return f"{type(block).__name__}({shown})"
