"""The tools for background work: `background_list`, `_read`, `_send`, `_stop` and `_wait`.

They work on the jobs of the conversation that they are called in. The result of a job is none of theirs: it comes as a
message, once, through the hooks on results.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Literal

from agentscope_rx.agent.background.ends import ends
from agentscope_rx.agent.background.job import Job
from agentscope_rx.agent.background.jobs import Jobs
from agentscope_rx.agent.background.wording import LIST, READ, SEND, STOP, WAIT
from agentscope_rx.agent.run import Run
from agentscope_rx.errors import ToolError
from agentscope_rx.messages import TextBlock, ToolResultBlock
from agentscope_rx.reactive import Flow, just, then
from agentscope_rx.tools import Tool, ToolContext, tool
from agentscope_rx.tools.results.origin import output_of

MAX_WAIT = 3600.0
"""The longest wait of a tool, in seconds."""


@tool(name=LIST, read_only=True, background=False)
def background_list(context: ToolContext) -> str:
    """List the jobs in the background, with their states."""
    lines = [_line(job) for job in _jobs(context).all]
    return "\n".join(lines) or "There is no job in the background."


@tool(name=READ, read_only=True, background=False)
async def background_read(job: str, context: ToolContext, wait: float = 0) -> ToolResultBlock:
    """Read the output of a job since the last read. The result of a job that has ended comes as a message, not here.

    Args:
        job: The id of the job.
        wait: How many seconds to wait for output, if there is none yet.
    """
    found = _find(context, job)
    seconds = _seconds("wait", wait)
    if seconds and not found.unread and found.running and found.log.scope.is_here():
        reader = found.log.read(found.log.end, lambda: True)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    while not found.unread and await reader.wait():
                        reader.take()
        finally:
            reader.close()
    output = tuple(block for chunk in found.read() for block in chunk.output)
    if not output:
        output = (TextBlock("No output."),)
    return output_of(context.call, found.call.name, (*output, TextBlock(_line(found))))


@tool(name=SEND, background=False)
def background_send(job: str, message: str, context: ToolContext) -> str:
    """Send a message to a job, if what it runs takes messages: an agent, or a tool that reads them.

    Args:
        job: The id of the job.
        message: The text.
    """
    _jobs(context).send(job, message)
    return "The message was sent."


@tool(name=STOP, background=False)
def background_stop(job: str, context: ToolContext) -> str:
    """Stop a job in the background.

    Args:
        job: The id of the job.
    """
    found = _find(context, job)
    return "The job is being stopped." if _jobs(context).stop(found.id) else f"The job has ended: {found.state}."


@tool(name=WAIT, read_only=True, background=False)
def background_wait(
    context: ToolContext, jobs: list[str] | None = None, until: Literal["any", "all"] = "all", timeout: float = 60
) -> Flow[str]:
    """Wait until jobs in the background have ended. Their results follow as messages.

    Args:
        jobs: The ids of the jobs; all jobs in progress, if left out.
        until: One of them has ended, or all.
        timeout: How many seconds to wait at most.
    """
    seconds = _seconds("timeout", timeout)
    chosen = _jobs(context).in_progress if jobs is None else tuple(_find(context, each) for each in jobs)
    if not chosen:
        return just("There is no job to wait for.")
    return ends(chosen, until=until, timeout=seconds).pipe(then(lambda: just(_report(chosen))))


def background_tools() -> tuple[Tool, ...]:
    """The five tools."""
    return background_list, background_read, background_send, background_stop, background_wait


def _run(context: ToolContext) -> Run:
    if not isinstance(context.host, Run):
        raise ToolError("There is no background work here: no agent has made this call.")
    return context.host


def _jobs(context: ToolContext) -> Jobs:
    jobs = _run(context).conversation.jobs
    if jobs is None:
        raise ToolError("There is no background work here: the agent has no BackgroundHook.")
    return jobs


def _find(context: ToolContext, id: str) -> Job:
    return _jobs(context).find(id)


def _seconds(name: str, seconds: float) -> float:
    if not 0 <= seconds <= MAX_WAIT:
        raise ToolError(f"{name} must be a number of seconds from 0 to {MAX_WAIT:g}, not {seconds!r}.")
    return seconds


def _line(job: Job) -> str:
    news = ", new output" if job.unread else ""
    return f"job {job.id}: {job.call.name}, {job.state} after {job.elapsed:.1f} s{news}"


def _report(jobs: Sequence[Job]) -> str:
    return "\n".join(_line(job) for job in jobs)
