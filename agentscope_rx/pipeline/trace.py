"""`Trace`: what a program has done so far, read from the pipeline's memory, so that any process can go on with it.

    input      user "Write about tea."
    round      assistant [call_writer {...}]             metadata of each call: {"step": {"begin": id, "input": [...]}}
               tool      [call_writer: "Tea is ..."]
    round      assistant [call_critic {...}, call_editor {...}]
               tool ...
    reply      assistant "Tea is ..."                    the program has ended

A run goes on with the program of an earlier one if it has taken over calls of it, was given their results, or resumes a
run that was cut off. Any other run begins anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from agentscope_rx.agent.run import Run
from agentscope_rx.errors import StepError
from agentscope_rx.messages import Msg, MsgRole, ToolResultBlock, ToolUseBlock
from agentscope_rx.pipeline.member_tool import ERRORS, INPUT, reply_in
from agentscope_rx.pipeline.steps import Progress, StepResult

STEP = "step"
"""The key in a call's metadata by which its program is known."""

_LOST = "its result is not in memory any more"


class Trace:
    """The rounds of one program: those that have ended, and the open one."""

    __slots__ = ("begin", "input", "members", "open", "pipeline", "rounds")

    def __init__(self, pipeline: str, members: Mapping[str, str], begin: str, input: tuple[Msg, ...]) -> None:
        self.pipeline: str = pipeline
        self.members: Mapping[str, str] = members
        """The names of the members by those of their tools."""
        self.begin: str = begin
        """The id of the run that has begun the program."""
        self.input: tuple[Msg, ...] = input
        self.rounds: tuple[tuple[StepResult, ...], ...] = ()
        self.open: Msg | None = None
        """The message with the calls of the round in progress."""

    @property
    def progress(self) -> Progress:
        """What the program is given."""
        return Progress(self.input, self.rounds)

    @property
    def where(self) -> str:
        """The place that the run has reached, in words."""
        if self.open is None:
            return f"before step {len(self.rounds) + 1}"
        names = [self.members.get(call.name, call.name) for call in self.open.tool_calls]
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        return f"in step {len(self.rounds) + 1} ({shown})"

    def mark(self) -> dict[str, object]:
        """The metadata of a call of this program."""
        return {STEP: {"begin": self.begin, "input": [message.id for message in self.input]}}

    def settle(self, run: Run, history: Sequence[Msg]) -> None:
        """Take the results of the round in progress from memory."""
        if self.open is not None:
            self.rounds = (*self.rounds, self._round(run, self.open, results_after(history, self.open)))
            self.open = None

    def _round(self, run: Run, message: Msg, results: Mapping[str, ToolResultBlock]) -> tuple[StepResult, ...]:
        errors = cast("dict[str, Exception]", run.extras.get(ERRORS, {}))
        return tuple(self._result(call, results.get(call.id), errors.get(call.id)) for call in message.tool_calls)

    def _result(self, call: ToolUseBlock, result: ToolResultBlock | None, cause: Exception | None) -> StepResult:
        member = self.members.get(call.name, call.name)
        elapsed = None if result is None else cast("float | None", result.metadata.get("elapsed"))
        reply = None if result is None else reply_in(result)
        if reply is not None:
            return StepResult(member, reply, None, elapsed)
        kind, text, error_type = "failed", _LOST, None
        if result is not None and result.kind is None:
            # a result that a caller has given instead of the member
            return StepResult(member, Msg(member, result.output, MsgRole.ASSISTANT), None, elapsed)
        if result is not None and result.kind is not None:
            kind, text = result.kind.value, result.text.removeprefix("Error: ")
            if result.metadata.get("cancelled") is True:
                kind = "cancelled"
            error_type = cast("str | None", result.metadata.get("error_type"))
        error = StepError(self.pipeline, member, len(self.rounds) + 1, text, kind, error_type)
        error.__cause__ = cause
        return StepResult(member, None, error, elapsed)


def trace_of(run: Run, pipeline: str, members: Mapping[str, str], history: Sequence[Msg], *, goes_on: bool) -> Trace:
    """The trace of the run's program: a new one, or that of the program that the run goes on with."""
    given = run.input.messages
    if run.resumed is not None:
        ids = set(run.resumed["input"])
        given = tuple(message for message in history if message.id in ids)
    last = _last_round(history, pipeline, given if run.resumed is not None else ())
    answered = any(message.tool_results for message in given)
    if last is None or not (goes_on or answered or run.resumed is not None):
        given = _with_observed(given, pipeline, history)
        run.extras[INPUT] = given
        return Trace(pipeline, members, run.id, given)
    mark = _mark_of(last)
    assert mark is not None
    ids = set(cast("list[str]", mark["input"]))
    found = tuple(message for message in history if message.id in ids)
    run.extras[INPUT] = found
    trace = Trace(pipeline, members, cast("str", mark["begin"]), found)
    for message in history:
        own = _mark_of(message)
        if own is not None and message.name == pipeline and own["begin"] == trace.begin:
            trace.open = message
            if message is not last:
                trace.settle(run, history)
    return trace


def _with_observed(given: tuple[Msg, ...], pipeline: str, history: Sequence[Msg]) -> tuple[Msg, ...]:
    """The input after what the pipeline has observed since it spoke last: its members are told both."""
    ids = {message.id for message in given}
    at = len(history)
    while at and history[at - 1].role is MsgRole.USER:
        at -= 1
    return (*(each for each in history[at:] if each.id not in ids), *given)


def results_after(history: Sequence[Msg], message: Msg) -> dict[str, ToolResultBlock]:
    """The results by call id in the messages behind this one."""
    results: dict[str, ToolResultBlock] = {}
    for index in range(len(history) - 1, -1, -1):
        each = history[index]
        if each.id == message.id:
            break
        for result in each.tool_results:
            results.setdefault(result.id, result)
    return results


def _last_round(history: Sequence[Msg], pipeline: str, after: Sequence[Msg]) -> Msg | None:
    """The last message with calls of an unfinished program, if it is behind these messages."""
    begin = {message.id for message in after}
    for index in range(len(history) - 1, -1, -1):
        message = history[index]
        if message.id in begin:
            return None
        if message.name == pipeline and message.role is MsgRole.ASSISTANT:
            return message if _mark_of(message) is not None else None
    return None


def _mark_of(message: Msg) -> Mapping[str, object] | None:
    for block in message.content:
        if isinstance(block, ToolUseBlock) and isinstance(mark := block.metadata.get(STEP), Mapping):
            return cast("Mapping[str, object]", mark)
    return None
