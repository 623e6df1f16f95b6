"""`take_end`: the end of work in the background, as a run takes it (see `agent.background`).

Background |> PostActing |> hooks (under the path of the job) |> Input |> hooks |> remember
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from agentscope_rx.agent.background.feed import job_source, told_now
from agentscope_rx.agent.background.job import Job
from agentscope_rx.agent.background.wording import message_of, result_of
from agentscope_rx.agent.inbox import QueuedInput
from agentscope_rx.agent.run import Run
from agentscope_rx.events import BackgroundEvent, Event, InputEvent, PostActingEvent
from agentscope_rx.messages import Msg
from agentscope_rx.reactive import Flow, concat, defer, just, onward
from agentscope_rx.tools import ToolNested


def take_end(run: Run, queued: QueuedInput, job: Job, remember: Callable[[InputEvent], Flow[Event]]) -> Flow[Event]:
    """The result of a job: hooks on results see and change it, as any result; then it is input to the run.

    Signals: the PostActing event under the path of the job, and the InputEvent; a hook's error.
    Cancels: the hook in progress.
    """

    def fire(history: Sequence[Msg]) -> Flow[Event]:
        event = PostActingEvent(
            source=run.source,
            iteration=run.iteration,
            tool_use=job.call,
            message=Msg.tool(result_of(job), run.name),
            elapsed=job.elapsed,
            schema=run.toolkit.schema(job.call.name),
            history=history,
        )
        return run.hooks.fire_then(event, give)

    def give(post: PostActingEvent) -> Flow[Event]:
        message = message_of(job, post.result)
        event = InputEvent(source=run.source, iteration=run.iteration, input=(message,), when=queued.when)
        shown = ToolNested(job.call, post.replace(source=job_source(job, run.source)))
        return concat(just(cast("Event", shown)), defer(lambda: run.hooks.fire_then(event, remember)))

    # a slow reader may not have come to it
    told = run.hooks.watched(BackgroundEvent, defer(lambda: just(*told_now(job, run.source))))
    fired = onward(run.history(), fire) if PostActingEvent in run.hooks.seen else fire(())
    return concat(told, fired)
