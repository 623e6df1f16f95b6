"""One tool call that may go on in the background (see `agent.background`), and what it has in common with others."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from agentscope_rx.agent.background.job import Job
from agentscope_rx.agent.background.jobs import Jobs
from agentscope_rx.agent.background.promotion import in_background
from agentscope_rx.agent.background.wording import handle_of
from agentscope_rx.agent.durable.durability import key_of
from agentscope_rx.agent.react.stage import ActingCore
from agentscope_rx.agent.run import Run
from agentscope_rx.context import RuntimeContext
from agentscope_rx.events import BackgroundEvent
from agentscope_rx.hooks import ToolRequest
from agentscope_rx.messages import ToolResultBlock, ToolUseBlock
from agentscope_rx.messages.frozen import thaw
from agentscope_rx.reactive import Flow
from agentscope_rx.tools import ToolContext, ToolEvent, ToolNotice
from agentscope_rx.tools.argument_wrappers import layered_call
from agentscope_rx.tools.calls.execute import PreparedCall
from agentscope_rx.tools.calls.failure import failure


def seconds_of(jobs: Jobs, prepared: PreparedCall, context: RuntimeContext | None) -> float | ToolResultBlock | None:
    """The seconds in the foreground of a call; None: it stays there. An error result if its tool's function fails."""
    call = prepared.call
    try:
        return jobs.seconds(prepared.tool, call.name, thaw(layered_call(call, context).input))
    except Exception as error:
        return failure(call, error)


def background_call(
    agent: ActingCore, run: Run, jobs: Jobs, prepared: PreparedCall, after: float, *, again: str | None = None
) -> Flow[ToolEvent]:
    """The items of a call that goes on in the background after so many seconds.

    It waits for the limits of its tool and of its toolkit, and takes no place of its batch: calls behind it do not wait
    for its end. `again` is the id of a job of an earlier process, which is run once more.

    Signals: as `in_background`.
    Cancels: the call, unless it has gone on.
    """
    call = prepared.call

    def make() -> Job:
        job = Job(call, run.source, run.clock(), again, prepared.tool)
        job.host = run
        # an interruption ends its wait in the foreground, not that of a job
        forget = run.interruption.event.listen(lambda: job.state is None and job.cut.fire())
        # a run of many rounds must not keep every call that it has made
        job.log.ended.listen(forget)
        return job

    def items(job: Job) -> Flow[ToolEvent]:
        context = context_of(agent, run, call, job) if prepared.tool.takes_context else None
        items = run.toolkit.call(prepared, context=context, stop=(job.cut,))
        around, probes = run.hooks.around_tool, run.hooks.probes
        request = None if around is None and probes is None else request_of(run, call)
        if around is not None and request is not None:
            items = around.over(items, request)
        return items if probes is None or request is None else probes.tool(items, request)

    def promote(job: Job) -> Iterable[ToolEvent] | None:
        if again is None and not jobs.has_room:
            return None
        run.calls.in_background |= {call.id}
        children = run.conversation.children
        if children is not None:
            children.hold(call.id)
        jobs.begin(job)
        state = "promoted" if after else "started"
        event = BackgroundEvent(source=run.source, job=job.id, tool_use=call, state=state, elapsed=job.elapsed)
        return ToolNotice(call, event), handle_of(job, run.toolkit.names)

    if run.durable is not None and run.durable.records(prepared.tool):
        prepared.before = partial(run.durable.begin, run, call)
    return in_background(items, make, after, promote, always=again is not None)


def request_of(run: Run, call: ToolUseBlock) -> ToolRequest:
    """The call as operators of hooks and probes around it see it."""
    schema = run.toolkit.schema(call.name)
    return ToolRequest(source=run.source, iteration=run.iteration, call=call, schema=schema)


def context_of(agent: ActingCore, run: Run, call: ToolUseBlock, job: Job | None = None) -> ToolContext:
    """The call as its tool sees it. A job is not interrupted together with its run."""
    return ToolContext(
        call,
        runtime=run.context,
        run_id=run.id,
        agent=agent.name,
        path=run.source.path,
        toolkit=run.toolkit,
        stores=() if run.context_store is None else (run.context_store,),
        interrupted=lambda: run.interrupted and (job is None or job.state is None),
        host=run,
        key=partial(key_of, run),
        parts=run.conversation.parts,
        messages=run.memory.read,
        received=None if job is None else job.received,
    )
