"""The resume of a run that its process has lost: a new run takes its place, and goes on from its last checkpoint.

    call()                     resumes it, and so do the same input again, and answers to its pending calls
    call("something else")     does not: its open calls are closed, as those of any earlier run

The new run has the counts, the limits used and the output requested of the old one. Its PreCallEvent names it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agentscope_rx.agent.durable.saved_run import SavedRun
from agentscope_rx.agent.input import ParsedInput
from agentscope_rx.agent.structured_output.pending import PendingOutput, read_output
from agentscope_rx.agent.structured_output.progress import restore_progress
from agentscope_rx.agent.structured_output.state import StructuredOutputState
from agentscope_rx.errors import ConfigurationError, SavedStateError
from agentscope_rx.events import ResumedRun
from agentscope_rx.messages import Msg, MsgRole

if TYPE_CHECKING:
    from agentscope_rx.agent.run import Run


def take_unfinished(run: Run, given: ParsedInput) -> None:
    """Make the run the one that resumes the unfinished run, if the input does."""
    conversation = run.conversation
    unfinished = conversation.unfinished
    if unfinished is None or (given.empty and unfinished["stage"] == "acting"):
        return
    messages = given.messages
    if conversation.resumed(messages) or all(message.role is MsgRole.TOOL for message in messages):
        run.resumed = unfinished
        # the deadline counts the time that both have been active
        run.started -= unfinished["elapsed"]


def resumed_run(saved: SavedRun) -> ResumedRun:
    """The run that is resumed, for the event that reports it."""
    return ResumedRun(saved["id"], saved["iteration"], saved["last"])


def remembered_input(run: Run, history: Sequence[Msg]) -> tuple[Msg, ...]:
    """The input of the run that this one resumes, as memory has it."""
    if run.resumed is None:
        return ()
    ids = set(run.resumed["input"])
    return tuple(message for message in history if message.id in ids)


def requested_by(saved: SavedRun) -> PendingOutput | None:
    """The structured output that the run was to give; `SavedStateError` if its schema cannot be used."""
    try:
        return read_output(saved["output"])
    except ConfigurationError as error:
        raise SavedStateError(saved["id"], f"the output that the run was to give cannot be used: {error}") from error


def restore(run: Run, saved: SavedRun, history: Sequence[Msg]) -> None:
    """Give the run the counts of the one that it resumes, its structured output, and input that it has not taken."""
    run.iteration = saved["iteration"]
    run.goto_count = saved["goto_count"]
    run.thinking = saved["thinking"]
    usage, used = run.usage, saved["usage"]
    usage.model_calls = used["model_calls"]
    usage.model_retries = used["model_retries"]
    usage.tool_calls = used["tool_calls"]
    usage.tokens = used["tokens"]
    usage.cost = used["cost"]
    progress, output = saved["progress"], run.extras.get("output")
    if progress is not None and isinstance(output, StructuredOutputState):
        restore_progress(output, progress, history)
    for waiting in saved["inbox"]:
        run.inbox.put(waiting["messages"], waiting["when"])
    interruption = saved["interruption"]
    if interruption is not None:
        run.interruption.request(interruption["message"], interruption["source"])
