"""The jobs of a conversation, connected with its agent; and those of an earlier process (see `agent.background`).

ended there, its result not in memory                           told
idempotent, read-only, a sub-agent, or `in_doubt="run"`         run again, unless a hook refuses the call
any other                                                       told as in doubt
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import cast
from weakref import ref

from agentscope_rx.agent.background.job import CANNOT_WAIT, Job
from agentscope_rx.agent.background.jobs import Jobs
from agentscope_rx.agent.background.policy import BackgroundPolicy
from agentscope_rx.agent.background.records import JobRecord
from agentscope_rx.agent.inbox import Inbox
from agentscope_rx.agent.lifecycle import in_its_turn
from agentscope_rx.agent.ports import AgentCore
from agentscope_rx.agent.react.asking import refusal_of
from agentscope_rx.agent.react.background_call import background_call
from agentscope_rx.agent.react.stage import ActingCore
from agentscope_rx.agent.run import Run
from agentscope_rx.agent.sub_agent.child_tool import ChildTool, close_child
from agentscope_rx.agent.sub_agent.conversations import SubConversations
from agentscope_rx.errors import AgentBusyError, RunEndedError
from agentscope_rx.events import BackgroundEvent, Event, EventSource
from agentscope_rx.messages import ToolResultBlock, ToolResultKind, ToolUseBlock
from agentscope_rx.reactive import (
    Flow,
    catch,
    concat,
    empty,
    flat_map_iterable,
    spawn_background,
    then,
    throw,
)
from agentscope_rx.tools import ToolEvent, ToolNotice
from agentscope_rx.tools.calls.execute import PreparedCall
from agentscope_rx.tools.wrapper import innermost


def jobs_of(agent: AgentCore, run: Run, policy: BackgroundPolicy | None) -> Jobs:
    """The jobs of the run's conversation, under the policy of its agent."""
    conversation = run.conversation
    jobs = conversation.jobs
    if jobs is None:
        jobs = Jobs(conversation.parts)
        _connect(jobs, agent, run)
    jobs.policy = BackgroundPolicy() if policy is None else policy
    return jobs


def _connect(jobs: Jobs, agent: AgentCore, run: Run) -> None:
    """Connect the jobs with the sub-agents, the session and the shutdown of their conversation."""
    # weakly: a conversation goes with its memory
    memory, owner, its = ref(run.memory), ref(agent), ref(run.conversation)

    def inbox_of(job: Job) -> Inbox | None:
        children = None if (conversation := its()) is None else conversation.children
        child = None if children is None else children.of_call(job.call.id)
        if child is None or child.conversation is None:
            return None
        runs = child.conversation.entered
        if not runs:
            raise RunEndedError(child.conversation.name, job.id)
        return runs[0].inbox

    def below() -> Iterator[Jobs]:
        conversation = its()
        return iter(()) if conversation is None else conversation.jobs_below()

    def let_go(children: SubConversations, id: str) -> Callable[[], Flow[object]]:
        def free() -> Flow[object]:
            children.let_go(id)
            return empty()

        return free

    def ended(job: Job) -> None:
        host, job.host = job.host, None
        children = None if (conversation := its()) is None else conversation.children
        if children is None:
            return
        child, id = children.of_call(job.call.id), job.call.id
        if child is None or child.reply is None or not isinstance(host, Run):
            children.let_go(id)
            return
        # nothing can answer the calls that its sub-agent waits for
        closed = close_child(child, host, ToolResultKind.REJECTED, CANNOT_WAIT).pipe(then(let_go(children, id)))
        spawn_background(closed, "closing the calls of a sub-agent", loop=job.log.scope.loop)

    def settled(job: Job) -> None:
        agent, where = owner(), memory()
        if agent is not None and where is not None and agent.conversation(where).binding is not None:
            saved = in_its_turn(agent, where, lambda run: agent.checkpoint(run) or empty()).pipe(catch(_busy))
            spawn_background(saved, f"saving agent {agent.name}", loop=job.log.scope.loop)

    jobs.inbox_of, jobs.on_ended, jobs.on_settled, jobs.below = inbox_of, ended, settled, below
    if agent.shutdown is not None:
        agent.shutdown.drain(jobs)


def _busy(error: Exception) -> Flow[object]:
    # the run in progress saves the conversation at its end
    return empty() if isinstance(error, AgentBusyError) else throw(error)


def settle_lost(agent: ActingCore, run: Run, jobs: Jobs) -> Flow[Event] | None:
    """Settle the jobs that the saved state has, and this process has not; None if there is none.

    Signals: the events of those that are run again.
    Cancels: nothing: they are jobs by then.
    """
    lost = jobs.lost()
    again: list[Flow[Event]] = []
    for record in lost:
        call, state = record["call"], record["state"]
        result = record.get("result")
        if state == "running":
            refused = refusal_of(run, call) if _is_run_again(agent, run, call) else None
            if refused is None and _is_run_again(agent, run, call):
                again.append(_run_again(agent, run, jobs, record))
                continue
            state = "in_doubt" if refused is None else "failed"
            result = None if refused is None else ToolResultBlock.error(call, ToolResultKind.REJECTED, refused)
        path = tuple(record["path"])
        source, began = EventSource(path[-1], run.name, path), run.clock() - record["elapsed"]
        job = Job.ended(call, source, began, record["job"], state)
        job.result = result
        jobs.add_ended(job)
    return concat(*again) if again else None


def _is_run_again(agent: ActingCore, run: Run, call: ToolUseBlock) -> bool:
    tool = run.toolkit.get(call.name)
    if tool is None or not run.toolkit.available(call.name):
        return False
    # a sub-agent goes on from its own conversation
    harmless = tool.read_only or tool.idempotent or isinstance(innermost(tool), ChildTool)
    return harmless or (tool.in_doubt or agent.in_doubt) == "run"


def _run_again(agent: ActingCore, run: Run, jobs: Jobs, record: JobRecord) -> Flow[Event]:
    """Begin the call once more, as the same job."""
    call = record["call"]
    prepared = run.toolkit.prepare(call, config=agent.tool_execution_config, runtime=run.context)
    assert isinstance(prepared, PreparedCall)
    items = background_call(agent, run, jobs, prepared, 0.0, again=record["job"])

    def shown(item: ToolEvent) -> Iterable[Event]:
        # its handle is in memory
        return (cast("Event", item.event),) if isinstance(item, ToolNotice) else ()

    return run.hooks.watched(BackgroundEvent, items.pipe(flat_map_iterable(shown)))
