"""The summary at the end of the rounds, or at a limit: one more model call, without tools.

    compact |> open calls get error results |> PreSummary |> hooks |> model_call |> PostSummary |> hooks |> remember
    |> Done

A summary that fails fails the run, as any model call does. One without text (it calls tools, or is empty) is asked for
once more; then the reply says that a limit has ended the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from agentscope_rx.agent.react.compaction import AfterRefusal, Compacting, compact_before
from agentscope_rx.agent.react.model_call import Answer, call_model, fit_choice, is_silent
from agentscope_rx.agent.react.preparing import notices_before
from agentscope_rx.agent.react.stage import ReActCore, around_stage, probed_stage, sent_of
from agentscope_rx.agent.run import Done, Run, Stage
from agentscope_rx.errors import PromptTooLongError
from agentscope_rx.events import PostSummaryEvent, PreSummaryEvent, SummaryChunkEvent
from agentscope_rx.hooks.compaction import CompactionWhy
from agentscope_rx.messages import ContentBlock, GenerateReason, Msg, TextBlock, ToolResultKind, ToolUseBlock
from agentscope_rx.models.wire.speaker_names import hint_message
from agentscope_rx.reactive import concat, concat_map, defer, just, tail

SUMMARY_REQUEST = (
    "You have used {rounds} without giving a final answer. Answer now, in plain text and without calling tools: "
    "summarize what you have found out and what is still open."
)

LIMIT_REQUEST = (
    "A limit has been reached ({which}) before you gave a final answer. Answer now, in plain text and without calling "
    "tools: summarize what you have found out and what is still open."
)

TEXT_REQUEST = "Your last answer held no words. Write your answer now, as plain text; tools are not called any more."

NO_SUMMARY = "I reached {limit} before I had a final answer, and could not sum up what I have found out."


def summarizing(agent: ReActCore, run: Run, which: str | None = None, *, again: bool = False) -> Stage:
    """Ask for a summary and make it the reply. `which` names the limit that was reached, None being `max_iters`.

    `again` is true if the first summary held no text.

    Signals: PreSummary, chunks, PostSummary, then the reply with reason MAX_ITERATIONS or LIMIT_REACHED; the model's or
    a hook's error.
    Cancels: the hook, the model call or the read of memory in progress.
    """
    # the deadline would ask for this very summary
    run.drop_timers()
    run.inbox.close()
    limit = _limit(agent, which)

    def begin() -> Stage:
        text = f"{limit[0].upper()}{limit[1:]} was reached before this call ran."
        fired = run.history().pipe(concat_map(partial(_fire_pre, agent, run, which, again)))
        return concat(run.close_open(ToolResultKind.REJECTED, text), fired)

    around, probes, compacting = run.hooks.around_summarizing, run.hooks.probes, run.hooks.compacting
    if around is not None:
        stage = around_stage(around, run, "summarizing", begin)
    else:
        # calls are closed when the hooks have been asked
        stage = defer(begin) if compacting or run.hooks.noticing or probes is not None else begin()
    if run.hooks.noticing:
        stage = notices_before(agent, run, "summary", stage, limited=False, limit_reached=which is not None)
    if compacting:
        stage = compact_before(agent, run, _compacting(agent, run, "round"), stage, limited=False)
    return stage if probes is None else probed_stage(agent, probes, run, "summarizing", stage)


def _compacting(agent: ReActCore, run: Run, why: CompactionWhy) -> Compacting:
    """What hooks that compact are told of the request for a summary."""
    return Compacting(agent, run, why, system_message=run.system_message, options=agent.generate_options)


def _after_refusal(agent: ReActCore, run: Run, which: str | None, again: bool) -> AfterRefusal:
    """What follows if the request is too long: it is made again, if hooks have compacted."""
    return AfterRefusal(_compacting(agent, run, "overflow"), lambda: summarizing(agent, run, which, again=again))


def _limit(agent: ReActCore, which: str | None) -> str:
    if which is not None:
        return f"the limit for {which}"
    return f"the limit of {agent.max_iters} round{'s' if agent.max_iters > 1 else ''}"


def _fire_pre(agent: ReActCore, run: Run, which: str | None, again: bool, history: Sequence[Msg]) -> Stage:
    """PreSummary |> hooks."""
    rounds = f"all {agent.max_iters} rounds" if agent.max_iters > 1 else "your one round"
    request = hint_message(
        SUMMARY_REQUEST.format(rounds=rounds) if which is None else LIMIT_REQUEST.format(which=which)
    )
    try:
        messages = sent_of(agent, run, history)
    except PromptTooLongError as error:
        if not run.hooks.compacting:
            raise
        return _after_refusal(agent, run, which, again).instead(error)
    event = PreSummaryEvent(
        source=run.source,
        iteration=run.iteration,
        max_iterations=agent.max_iters,
        model_name=agent.model.model_name,
        system_message=run.system_message,
        messages=messages,
        history=history,
        hints=(request, hint_message(TEXT_REQUEST)) if again else (request,),
        options=agent.generate_options,
    )
    return run.hooks.fire_then(event, partial(_ask, agent, run, which, again))


def _ask(agent: ReActCore, run: Run, which: str | None, again: bool, pre: PreSummaryEvent) -> Stage:
    """The event, the chunks of the summary, then PostSummary."""
    pre = fit_choice(agent, pre, ())
    if run.hooks.compacting:
        after = _after_refusal(agent, run, which, again)
        chunks, answer = call_model(agent, run, pre, (), SummaryChunkEvent, failed=after.failed)
        then = partial(after.then, lambda: _answered(agent, run, which, again, pre, answer()))
        return concat(just(pre), chunks, defer(then))
    chunks, answer = call_model(agent, run, pre, (), SummaryChunkEvent)
    return concat(just(pre), chunks, defer(lambda: _answered(agent, run, which, again, pre, answer())))


def _answered(
    agent: ReActCore, run: Run, which: str | None, again: bool, pre: PreSummaryEvent, answer: Answer
) -> Stage:
    """The reply made of the answer; without text, a further request or a fixed reply."""
    content = _content(agent, run, answer)
    if content is None:
        return just(tail(lambda: agent.end_interrupted(run)))
    if is_silent(content) and not run.interrupted:
        if not again:
            return just(tail(lambda: summarizing(agent, run, which, again=True)))
        content = (TextBlock(NO_SUMMARY.format(limit=_limit(agent, which))),)
    return _fire_post(agent, run, which, pre, answer, content)


def _content(agent: ReActCore, run: Run, answer: Answer) -> tuple[ContentBlock, ...] | None:
    """The answer without calls, for which no tool was offered; None if an interruption has left nothing of it."""
    if answer.message is None or (run.interruption.is_shutdown and agent.discards_partial):
        return None
    content = tuple(block for block in answer.message.content if not isinstance(block, ToolUseBlock))
    return None if run.interrupted and not content else content


def _fire_post(
    agent: ReActCore,
    run: Run,
    which: str | None,
    pre: PreSummaryEvent,
    answer: Answer,
    content: tuple[ContentBlock, ...],
) -> Stage:
    """PostSummary |> hooks."""
    assert answer.message is not None
    interrupted = run.interrupted
    reached = GenerateReason.MAX_ITERATIONS if which is None else GenerateReason.LIMIT_REACHED
    message = run.final(answer.message.replace(content=content), GenerateReason.INTERRUPTED if interrupted else reached)
    event = PostSummaryEvent(
        source=run.source,
        iteration=run.iteration,
        max_iterations=agent.max_iters,
        message=message,
        usage=answer.response.usage,
        finish_reason=answer.response.finish_reason,
        interrupted=interrupted,
        model_name=answer.model_name,
        queued=answer.response.queued,
        messages=answer.prompt,
        options=pre.options,
        history=pre.history,
    )
    return run.hooks.fire_then(event, partial(_settle, agent, run))


def _settle(agent: ReActCore, run: Run, post: PostSummaryEvent) -> Stage:
    """Remember the summary, and end."""

    def end() -> Stage:
        return just(post, tail(lambda: agent.end_interrupted(run)) if run.interrupted else Done(post.message))

    return run.remember_then((post.message,), post, end)
