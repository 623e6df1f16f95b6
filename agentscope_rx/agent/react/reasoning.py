"""The reasoning stage: one model round as events, then a tail.

compact |> PreReasoning |> hooks |> model_call |> PostReasoning |> hooks |> remember |> decide

tail(acting) | tail(reasoning) | tail(end_interrupted) | tail(summarizing) | Done(message)

An answer of thinking only is remembered, and the model is asked to continue, at most `MAX_THINKING` times in a row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from agentscope_rx.agent.react.compaction import AfterRefusal, Compacting, compact_before, note_asked, note_counted
from agentscope_rx.agent.react.decide import Decision, after_reasoning, before_reasoning
from agentscope_rx.agent.react.model_call import Answer, call_model, has_content, is_silent, without_choice
from agentscope_rx.agent.react.preparing import notices_before
from agentscope_rx.agent.react.stage import ReActCore, around_stage, probed_stage, sent_of
from agentscope_rx.agent.react.steering import at_end
from agentscope_rx.agent.react.structured_output import (
    answer_in_text,
    ask_again,
    ask_for_output,
    output_of,
    show_output,
    without_response_calls,
)
from agentscope_rx.agent.run import Done, Emitted, Run, Stage
from agentscope_rx.agent.structured_output.state import StructuredOutputState
from agentscope_rx.errors import EmptyResponseError, PromptTooLongError
from agentscope_rx.events import Event, PostReasoningEvent, PreReasoningEvent, ReasoningChunkEvent
from agentscope_rx.hooks.compaction import CompactionWhy
from agentscope_rx.messages import GenerateReason, Msg, ToolResultKind, ToolUseBlock
from agentscope_rx.models.options import ToolSchema
from agentscope_rx.models.wire.speaker_names import hint_message
from agentscope_rx.reactive import Tail, concat, defer, just, onward, steps, tail, throw

MAX_THINKING = 3
"""The number of rounds in a row that may follow answers of thinking only."""

CONTINUE = "You have thought, and said nothing yet. Go on: call a tool, or give your answer."

_REASONS = {
    Decision.FINISH: GenerateReason.MODEL_STOP,
    Decision.STOP: GenerateReason.REASONING_STOP_REQUESTED,
    Decision.INTERRUPT: GenerateReason.INTERRUPTED,
}


def reasoning(agent: ReActCore, run: Run, *, sent_back: bool = False) -> Stage:
    """Ask the model, remember its answer, name the next stage. `sent_back`: a hook asks for this round.

    Signals: PreReasoning, chunks, PostReasoning, then a tail or the reply; the model's or a hook's error.
    Cancels: the hook, the model call or the read of memory in progress.
    """
    output = output_of(run)
    granted = output is not None and output.begins()
    limit = run.usage.before_model() if run.usage.limited and not granted else None
    decision = before_reasoning(
        interrupted=run.interruption.event.fired,
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
        # the rounds are used up: the one that may follow takes no input
        run.inbox.close()
        granted = output is not None and output.last_chance()
        if not granted:
            return just(tail(lambda: agent.summarizing(run)))
    if granted:
        # the round takes the place of the summary that the deadline would ask for
        run.drop_timers()

    stage = _round_of(agent, run, output, sent_back)
    around = run.hooks.around_reasoning
    if around is not None:
        stage = around_stage(around, run, "reasoning", lambda stage=stage: stage)
    if run.hooks.noticing:
        stage = notices_before(agent, run, "round", stage, limited=not granted)
    if run.hooks.compacting:
        stage = compact_before(agent, run, _compacting(agent, run, output, "round"), stage, limited=not granted)
    probes = run.hooks.probes
    return stage if probes is None else probed_stage(agent, probes, run, "reasoning", stage)


def _compacting(agent: ReActCore, run: Run, output: StructuredOutputState | None, why: CompactionWhy) -> Compacting:
    """What hooks that compact are told of the request of this round."""
    tools, options = run.toolkit.schemas(), run.options or agent.generate_options
    system = run.system_message
    if output is not None:
        system, tools, options = output.system(system), output.tools(tools), output.options(options)
    return Compacting(agent, run, why, system_message=system, tools=tools, options=options)


def _round_of(agent: ReActCore, run: Run, output: StructuredOutputState | None, sent_back: bool) -> Stage:
    """The chain of the stage. It is linked in the first round of a run, and serves the others."""
    if run.round is not None:
        last, chain = run.round
        if type(last) is _Round and last.agent is agent and last.output is output and last.sent_back is sent_back:
            return chain
    new = _Round(agent, run, output, sent_back)
    chain: Stage = steps(new.pre_reasoning, new.chunks, new.post_reasoning, new.next)
    run.round = (new, chain)
    return chain


class _Round:
    """One model round after the other: the chain of the stage, and what its steps hand on."""

    __slots__ = (
        "_answer",
        "_decided",
        "_follow",
        "_pre",
        "_run",
        "_tools",
        "agent",
        "output",
        "sent_back",
    )

    def __init__(self, agent: ReActCore, run: Run, output: StructuredOutputState | None, sent_back: bool) -> None:
        self.agent = agent
        self._run = run
        self.output = output
        self.sent_back = sent_back
        # None in a round that goes another way
        self._pre: PreReasoningEvent | None = None
        self._tools: Sequence[ToolSchema] = ()
        self._answer: Callable[[], Answer] | None = None
        self._decided: tuple[Decision, PostReasoningEvent, Sequence[ToolUseBlock]] | None = None
        self._follow: Done | Tail[Event | Done] | None = None

    # --- PreReasoning |> hooks ------------------------------------------------------------------------------------

    def pre_reasoning(self) -> Emitted:
        self._pre = self._answer = self._decided = self._follow = None
        return onward(self._run.history(), self._fire_pre)  # pyright: ignore[reportReturnType]

    def _fire_pre(self, history: Sequence[Msg]) -> Emitted:
        agent, run, output = self.agent, self._run, self.output
        options = run.options or agent.generate_options
        hints = () if output is None else output.hints()
        plain = agent.memory_window is None and not run.memory.marked
        try:
            messages = history if plain else sent_of(agent, run, history)
        except PromptTooLongError as error:
            if not run.hooks.compacting:
                raise
            return self._after_refusal().instead(error)
        event = PreReasoningEvent(
            source=run.source,
            iteration=run.iteration,
            model_name=agent.model.model_name,
            system_message=run.system_message if output is None else output.system(run.system_message),
            hints=(*hints, hint_message(CONTINUE)) if run.thinking else hints,
            messages=messages,
            history=history,
            options=options if output is None else output.options(options),
        )
        if run.hooks.compacting:
            note_asked(run, event)
        return run.hooks.fire_then(event, self._take_pre)  # pyright: ignore[reportReturnType]

    def _take_pre(self, pre: PreReasoningEvent) -> Emitted:
        self._tools = self._run.toolkit.schemas()
        if self.output is not None:
            pre, self._tools = ask_for_output(self.agent, self.output, pre, self._tools)
        self._pre = pre
        return pre

    def _after_refusal(self) -> AfterRefusal:
        """What follows if the request of this round is too long: the round begins again, if hooks have compacted."""
        agent, run, output = self.agent, self._run, self.output

        def again() -> Stage:
            if output is not None:
                # a last chance that was refused is granted again
                output.due = output.last
            return agent.reasoning(run, sent_back=True) if self.sent_back else agent.reasoning(run)

        return AfterRefusal(_compacting(agent, run, output, "overflow"), again)

    # --- the model's answer as chunks -----------------------------------------------------------------------------

    def chunks(self) -> Emitted | None:
        pre = self._pre
        if pre is None:
            return None
        if self.output is not None or self._run.hooks.compacting:
            return self._chunks_or_again(pre)
        chunks, self._answer = call_model(self.agent, self._run, pre, self._tools, ReasoningChunkEvent)
        return chunks

    def _chunks_or_again(self, pre: PreReasoningEvent) -> Stage:
        """The chunks of a request that may be refused, and what follows then; else the rest of the chain."""
        agent, run, output = self.agent, self._run, self.output
        after = self._after_refusal() if run.hooks.compacting else None
        show = None if output is None else show_output(run, output)
        failed = None if after is None else after.failed
        chunks, answer = call_model(agent, run, pre, self._tools, ReasoningChunkEvent, show, failed)

        def answered() -> Stage:
            whole = answer()
            if after is None:
                return rest(whole)
            note_counted(run, pre, whole.response.costs)
            return after.answered(whole.response, lambda: rest(whole))

        def rest(whole: Answer) -> Stage:
            return steps(lambda: self._fire_post(pre, whole), self.next)

        then = answered if after is None else partial(after.then, answered)
        if output is not None:
            chunks, then = ask_again(agent, run, output, chunks, then)
        return concat(chunks, defer(then))

    # --- PostReasoning |> hooks |> remember -----------------------------------------------------------------------

    def post_reasoning(self) -> Emitted | None:
        answer, pre = self._answer, self._pre
        return None if answer is None or pre is None else self._fire_post(pre, answer())

    def _fire_post(self, pre: PreReasoningEvent, answer: Answer) -> Emitted | None:
        agent, run = self.agent, self._run
        interrupted = run.interruption.event.fired
        if answer.message is None or (interrupted and run.interruption.is_shutdown and agent.discards_partial):
            self._follow = Tail(lambda: agent.end_interrupted(run))
            return None
        response = answer.response
        if not interrupted and not has_content(answer.message.content):
            reason = response.raw_finish_reason
            raise EmptyResponseError(model=answer.model_name, finish_reason=reason, stage="reasoning")
        event = PostReasoningEvent(
            source=run.source,
            iteration=run.iteration,
            message=answer.message,
            usage=response.usage,
            finish_reason=response.finish_reason,
            interrupted=interrupted,
            model_name=answer.model_name,
            queued=response.queued,
            messages=answer.prompt,
            options=pre.options,
            history=pre.history,
        )
        return run.hooks.fire_then(event, self._settle)  # pyright: ignore[reportReturnType]

    def _settle(self, post: PostReasoningEvent) -> Emitted:
        """Remember the answer, as the hooks have left it, and decide."""
        agent, run, output = self.agent, self._run, self.output
        thinking = bool(post.message.content) and is_silent(post.message.content) and not (output and output.last)
        if output is not None and not thinking:
            output.begin(post.message)
            if post.stop_requested and not run.interruption.decides(ending=not post.interrupted):
                post = without_response_calls(output, post)
        calls = post.message.tool_calls
        run.thinking = run.thinking + 1 if thinking else 0
        if calls and run.options is None and not agent.repeat_tool_choice:
            _release_choice(agent, run, calls)
        ending = not post.interrupted and (post.stop_requested or not (calls or thinking))
        decision = after_reasoning(
            interrupted=run.interruption.decides(ending=ending),
            stop=post.stop_requested,
            goto=post.goto_messages is not None,
            calls=len(calls),
            thinking=thinking,
        )
        goto = post.goto_messages or ()
        if decision is not Decision.GOTO and post.goto_messages is not None:
            goto, post = (), post.replace(goto_messages=None)
        if output is not None and decision is Decision.FINISH:
            return answer_in_text(agent, run, output, post)
        if output is not None and decision is Decision.INTERRUPT:
            output.attempt(post.message)
        reason = _REASONS.get(decision)
        if reason is not None:
            message = run.final(post.message, reason)
            if message is not post.message:
                post = post.replace(message=message)
        if decision is Decision.STOP:
            run.calls.pending = bool(calls)
        self._decided = (decision, post, calls)
        return run.remember_then((post.message, *goto), post, lambda: post)

    # --- the next stage -------------------------------------------------------------------------------------------

    def next(self) -> Emitted | None:
        if self._decided is None:
            return self._follow
        return _next(self.agent, self._run, *self._decided)


def _release_choice(agent: ReActCore, run: Run, calls: Sequence[ToolUseBlock]) -> None:
    """End a forced choice of tools once the model has made the call: else the run could only end at `max_iters`."""
    choice = agent.generate_options.tool_choice or agent.model.options.tool_choice
    if choice is not None and choice.is_met(call.name for call in calls):
        run.options = without_choice(agent, agent.generate_options)


def _next(
    agent: ReActCore, run: Run, decision: Decision, post: PostReasoningEvent, calls: Sequence[ToolUseBlock]
) -> Done | Tail[Event | Done]:
    """The stage that the decision names."""
    if decision is Decision.INTERRUPT and post.interrupted:
        # the answer was cut off: calls of it may be missing, so none is left pending
        return Tail(
            lambda: concat(run.close_open(ToolResultKind.INTERRUPTED), defer(lambda: agent.end_interrupted(run)))
        )
    if decision is Decision.INTERRUPT:
        return Tail(lambda: agent.end_interrupted(run))
    if decision is Decision.ACT:
        return Tail(lambda: agent.acting(run, calls))
    if decision is Decision.GOTO:
        run.iteration += 1
        run.goto_count += 1
        return Tail(lambda: agent.reasoning(run, sent_back=True))
    if decision is Decision.REASON:
        run.iteration += 1
        return Tail(lambda: _continue(agent, run, post))
    if decision is Decision.FINISH and (follow := at_end(agent, run, post.message)) is not None:
        return follow
    return Done(post.message)


def _continue(agent: ReActCore, run: Run, post: PostReasoningEvent) -> Stage:
    """A further round after an answer of thinking only; an error after too many."""
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
