"""The reasoning stage: one model round as events, then a tail.

PreReasoning |> hooks |> model_round |> PostReasoning |> hooks |> remember |> decide

tail(acting) | tail(reasoning) | tail(interrupted) | tail(summarizing) | Done(message)

An answer of thinking alone is remembered, and the model asked to go on, `MAX_THINKING` times on end at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agentscope_rx.agent.agent import Stage
from agentscope_rx.agent.budget import limit_before_model
from agentscope_rx.agent.react.decide import Decision, after_reasoning, before_reasoning
from agentscope_rx.agent.react.model_call import Gathered, model_round, offered, says_something, silent, without_choice
from agentscope_rx.agent.react.structured_output import asked_again, asking_of, pieces, stopped, words
from agentscope_rx.agent.run import Done, Run
from agentscope_rx.errors import EmptyResponseError
from agentscope_rx.events import Event, PostReasoningEvent, PreReasoningEvent, ReasoningChunkEvent
from agentscope_rx.messages import GenerateReason, Msg, ToolResultKind, ToolUseBlock
from agentscope_rx.models.wire.speaker_names import hint_message
from agentscope_rx.reactive import Tail, concat, defer, just, onward, tail, throw

if TYPE_CHECKING:
    from agentscope_rx.agent.react.react_agent import ReActAgent
    from agentscope_rx.agent.structured_output.state import StructuredOutputState

MAX_THINKING = 3
"""How often on end an answer of thinking alone is followed by another round."""

GO_ON = "You have thought, and said nothing yet. Go on: call a tool, or give your answer."

_REASONS = {
    Decision.FINISH: GenerateReason.MODEL_STOP,
    Decision.STOP: GenerateReason.REASONING_STOP_REQUESTED,
    Decision.INTERRUPT: GenerateReason.INTERRUPTED,
}


def reasoning(agent: ReActAgent, run: Run, *, sent_back: bool = False) -> Stage:
    """Ask the model, remember its answer, name what follows. `sent_back`: a hook wants this round, limit or not.

    Signals: PreReasoning, chunks, PostReasoning, then a tail or the reply; the model's or a hook's error.
    Cancels: whatever of it is in progress.
    """
    asking = asking_of(run)
    granted = asking is not None and asking.begins()
    limit = _limit(run) if not granted else None
    decision = before_reasoning(
        interrupted=run.interrupted,
        limited=limit is not None,
        iteration=run.iteration,
        max_iters=agent.max_iters,
        gotos=run.goto_count,
        sent_back=sent_back,
    )
    if decision is Decision.INTERRUPT:
        return just(tail(lambda: agent.end_interrupted(run)))
    if decision is Decision.LIMIT and limit is not None:
        return just(tail(lambda: agent.end_limited(run, *limit)))
    if decision is Decision.SUMMARIZE and not granted:
        granted = asking is not None and asking.last_chance()
        if not granted:
            return just(tail(lambda: agent.summarizing(run)))
    if granted:
        # it is what the deadline would have asked for
        run.over()

    def ask(pre: PreReasoningEvent) -> Stage:
        tools = run.toolkit.schemas()
        beside = None
        if asking is not None:
            tools = asking.tools(tools)
            if asking.last:
                pre = offered(agent, pre, tools)
            beside = pieces(run, asking)
        shown, gathered = model_round(agent, run, pre, tools, ReasoningChunkEvent, beside)

        def answered() -> Stage:
            return _answered(agent, run, pre, gathered())

        then = answered
        if asking is not None:
            shown, then = asked_again(agent, run, asking, shown, answered)
        return concat(just(pre), shown, defer(then))

    def fire(history: Sequence[Msg]) -> Stage:
        options = run.options or agent.generate_options
        event = PreReasoningEvent(
            source=run.source,
            iteration=run.iteration,
            model_name=agent.model.model_name,
            system_message=run.system_message if asking is None else asking.system(run.system_message),
            hints=_hints(run, asking),
            messages=history,
            history=history,
            options=options if asking is None else asking.options(options),
        )
        return run.hooks.fired(event, ask)

    return defer(lambda: onward(run.history(), fire))


def _hints(run: Run, asking: StructuredOutputState | None) -> tuple[Msg, ...]:
    """What the model is told in this round only."""
    hints = () if asking is None else asking.hints()
    return (*hints, hint_message(GO_ON)) if run.thinking else hints


def _limit(run: Run) -> tuple[str, float] | None:
    return None if run.limits is None and run.parent is None else limit_before_model(run)


def _answered(agent: ReActAgent, run: Run, pre: PreReasoningEvent, gathered: Gathered) -> Stage:
    if gathered.message is None or (run.shut_down and agent.discards_partial):
        return just(tail(lambda: agent.end_interrupted(run)))
    if not run.interrupted and not says_something(gathered.message.content):
        raise EmptyResponseError(
            model=gathered.model_name, finish_reason=gathered.gather.raw_finish_reason, stage="reasoning"
        )
    event = PostReasoningEvent(
        source=run.source,
        iteration=run.iteration,
        message=gathered.message,
        usage=gathered.gather.usage,
        finish_reason=gathered.gather.finish_reason,
        interrupted=run.interrupted,
        model_name=gathered.model_name,
        queued=gathered.gather.queued,
        messages=gathered.prompt,
        options=pre.options,
        history=pre.history,
    )
    return run.hooks.fired(event, lambda post: _settle(agent, run, post))


def _settle(agent: ReActAgent, run: Run, post: PostReasoningEvent) -> Stage:
    """Remember what the hooks left of the answer, and go where it leads."""
    asking = asking_of(run)
    thinking = bool(post.message.content) and silent(post.message.content) and not (asking is not None and asking.last)
    if asking is not None and not thinking:
        asking.begin(post.message)
        if post.stop_requested and not run.cut_short(ending=not post.interrupted):
            post = stopped(asking, post)
    calls = post.message.tool_calls
    run.thinking = run.thinking + 1 if thinking else 0
    if calls and run.options is None and not agent.repeat_tool_choice:
        _release_choice(agent, run, calls)
    decision = after_reasoning(
        interrupted=run.cut_short(
            ending=not post.interrupted and (post.stop_requested or not (calls or thinking)),
        ),
        stop=post.stop_requested,
        goto=post.goto_messages is not None,
        calls=len(calls),
        thinking=thinking,
    )
    if asking is not None and decision is Decision.FINISH:
        return words(agent, run, asking, post if post.goto_messages is None else post.replace(goto_messages=None))
    if asking is not None and decision is Decision.INTERRUPT:
        asking.attempt(post.message)
    reason = _REASONS.get(decision)
    if reason is not None:
        message = run.final(post.message, reason)
        if message is not post.message:
            post = post.replace(message=message)
    message = post.message
    if decision is Decision.STOP:
        run.pending = bool(calls)
    extra = (post.goto_messages or ()) if decision is Decision.GOTO else ()
    if decision is not Decision.GOTO and post.goto_messages is not None:
        post = post.replace(goto_messages=None)

    def go() -> Stage:
        return just(post, _next(agent, run, decision, post, calls))

    return run.remembered((message, *extra), post, go)


def _release_choice(agent: ReActAgent, run: Run, calls: Sequence[ToolUseBlock]) -> None:
    """A forced choice of tools is over once it is met: forced in each round, the run could end at `max_iters` only."""
    choice = agent.generate_options.tool_choice or agent.model.options.tool_choice
    if choice is not None and choice.is_met(call.name for call in calls):
        run.options = without_choice(agent, agent.generate_options)


def _next(
    agent: ReActAgent, run: Run, decision: Decision, post: PostReasoningEvent, calls: Sequence[ToolUseBlock]
) -> Done | Tail[Event | Done]:
    if decision is Decision.INTERRUPT and post.interrupted:
        # the answer was cut off: its calls may not be all, and are not left pending either
        return tail(
            lambda: concat(run.close_open(ToolResultKind.INTERRUPTED), defer(lambda: agent.end_interrupted(run)))
        )
    if decision is Decision.INTERRUPT:
        return tail(lambda: agent.end_interrupted(run))
    if decision is Decision.ACT:
        return tail(lambda: agent.acting(run, calls))
    if decision is Decision.GOTO:
        run.iteration += 1
        run.goto_count += 1
        return tail(lambda: agent.reasoning(run, sent_back=True))
    if decision is Decision.REASON:
        run.iteration += 1
        return tail(lambda: _go_on(agent, run, post))
    return Done(post.message)


def _go_on(agent: ReActAgent, run: Run, post: PostReasoningEvent) -> Stage:
    """One round more after an answer of thinking alone."""
    if run.thinking > MAX_THINKING:
        reason = post.finish_reason
        return throw(
            EmptyResponseError(
                model=post.model_name,
                finish_reason=None if reason is None else str(reason),
                stage="reasoning",
                thinking=run.thinking,
            )
        )
    return agent.reasoning(run)
