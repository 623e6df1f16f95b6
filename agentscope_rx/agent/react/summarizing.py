"""The last word, when the iterations are used up or a limit is reached: one more question, without tools.

    open calls get error results |> PreSummary |> hooks |> model_round |> PostSummary |> hooks |> remember |> Done

A summary that fails fails the run, as any model call does. One without words (it calls tools, or is empty) is asked for
once more; then the engine says itself that a limit has ended the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agentscope_rx.agent.agent import Stage
from agentscope_rx.agent.react.model_call import Gathered, model_round, offered, silent
from agentscope_rx.agent.run import Done, Run
from agentscope_rx.events import PostSummaryEvent, PreSummaryEvent, SummaryChunkEvent
from agentscope_rx.messages import ContentBlock, GenerateReason, Msg, TextBlock, ToolResultKind, ToolUseBlock
from agentscope_rx.models.wire.speaker_names import hint_message
from agentscope_rx.reactive import concat, concat_map, defer, just, tail

if TYPE_CHECKING:
    from agentscope_rx.agent.react.react_agent import ReActAgent

SUMMARY_REQUEST = (
    "You have used {rounds} without giving a final answer. Answer now, in plain text and without calling tools: "
    "summarize what you have found out and what is still open."
)


LIMIT_REQUEST = (
    "A limit has been reached ({which}) before you gave a final answer. Answer now, in plain text and without calling "
    "tools: summarize what you have found out and what is still open."
)


IN_WORDS = "Your last answer held no words. Write your answer now, as plain text; tools are not called any more."

UNSAID = "I reached {limit} before I had a final answer, and could not sum up what I have found out."


def summarizing(agent: ReActAgent, run: Run, which: str | None = None, *, again: bool = False) -> Stage:
    """Ask for a last word and make it the reply; `which` names the limit, if it is not that of the rounds. `again`: the
    first answer to that held no words.

    Signals: PreSummary, chunks, PostSummary, then the reply with reason MAX_ITERATIONS or LIMIT_REACHED; the model's or
    a hook's error.
    Cancels: whatever of it is in progress.
    """
    # the last word has begun: it is what the deadline would have asked for
    run.over()
    limit = agent.max_iters
    rounds = f"all {limit} rounds" if limit > 1 else "your one round"
    request = hint_message(
        SUMMARY_REQUEST.format(rounds=rounds) if which is None else LIMIT_REQUEST.format(which=which)
    )
    over = f"the limit of {limit} round{'s' if limit > 1 else ''}" if which is None else f"the limit for {which}"
    hints = (request, hint_message(IN_WORDS)) if again else (request,)

    def answered(pre: PreSummaryEvent, gathered: Gathered) -> Stage:
        words = _words(agent, run, gathered)
        if words is None:
            return just(tail(lambda: agent.end_interrupted(run)))
        if silent(words) and not run.interrupted:
            if not again:
                return just(tail(lambda: summarizing(agent, run, which, again=True)))
            words = (TextBlock(UNSAID.format(limit=over)),)
        return _answered(agent, run, pre, gathered, words, which)

    def ask(pre: PreSummaryEvent) -> Stage:
        pre = offered(agent, pre, ())
        chunks, gathered = model_round(agent, run, pre, (), SummaryChunkEvent)
        return concat(just(pre), chunks, defer(lambda: answered(pre, gathered())))

    def fire(history: Sequence[Msg]) -> Stage:
        event = PreSummaryEvent(
            source=run.source,
            iteration=run.iteration,
            max_iterations=limit,
            model_name=agent.model.model_name,
            system_message=run.system_message,
            messages=history,
            history=history,
            hints=hints,
            options=agent.generate_options,
        )
        return run.hooks.fired(event, ask)

    closing = run.close_open(ToolResultKind.REJECTED, f"{over[0].upper()}{over[1:]} was reached before this call ran.")
    return concat(closing, run.history().pipe(concat_map(fire)))


def _words(agent: ReActAgent, run: Run, gathered: Gathered) -> tuple[ContentBlock, ...] | None:
    """What the answer says; None if an interruption has left nothing of it."""
    if gathered.message is None or (run.shut_down and agent.discards_partial):
        return None
    # no tool was offered: a call here could never be answered
    words = tuple(block for block in gathered.message.content if not isinstance(block, ToolUseBlock))
    return None if run.interrupted and not words else words


def _answered(
    agent: ReActAgent,
    run: Run,
    pre: PreSummaryEvent,
    gathered: Gathered,
    words: tuple[ContentBlock, ...],
    which: str | None,
) -> Stage:
    assert gathered.message is not None
    reached = GenerateReason.MAX_ITERATIONS if which is None else GenerateReason.LIMIT_REACHED
    reason = GenerateReason.INTERRUPTED if run.interrupted else reached
    message = run.final(gathered.message.replace(content=words), reason)
    event = PostSummaryEvent(
        source=run.source,
        iteration=run.iteration,
        max_iterations=agent.max_iters,
        message=message,
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


def _settle(agent: ReActAgent, run: Run, post: PostSummaryEvent) -> Stage:
    def go() -> Stage:
        end = tail(lambda: agent.end_interrupted(run)) if run.interrupted else Done(post.message)
        return just(post, end)

    return run.remembered((post.message,), post, go)
