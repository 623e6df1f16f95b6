"""What the stages do for a run that asks for a structured output or has the finish tool; see `agent.structured_output`.

reasoning   asks as `StructuredOutputState` says, shows pieces of the output, and hands words without calls to `words`
acting      hands results to `StructuredOutputState`; then -> tail(handed_over) | tail(given_up) | tail(reasoning)
the end     `tidied`: traces leave memory, whatever ended the run
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from pydantic_core import to_json

from agentscope_rx.agent.agent import Stage
from agentscope_rx.agent.react.decide import Decision
from agentscope_rx.agent.react.model_call import voids
from agentscope_rx.agent.run import Done, Run
from agentscope_rx.agent.structured_output.cleanup import without_calls, without_traces
from agentscope_rx.agent.structured_output.request import OutputRequest
from agentscope_rx.agent.structured_output.state import StructuredOutputState, Verdict
from agentscope_rx.errors import BadRequestError, StructuredOutputError, UnsupportedOptionError
from agentscope_rx.events import Event, MemoryEvent, OutputChunkEvent, PostReasoningEvent
from agentscope_rx.messages import GenerateReason, Msg, TextBlock
from agentscope_rx.reactive import (
    Flow,
    Tail,
    catch,
    concat,
    concat_map,
    defer,
    empty,
    flat_map_iterable,
    just,
    tail,
    throw,
    transform_type,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentscope_rx.agent.react.react_agent import ReActAgent
    from agentscope_rx.tools import Toolkit

_KEY = "output"
_TOOLKIT = "toolkit without the response tool"


def ask(run: Run, request: OutputRequest) -> None:
    """Make this the request of the run, in the place of an earlier one; its tool belongs to the run's toolkit alone."""
    run.toolkit = cast("Toolkit", run.extras.setdefault(_TOOLKIT, run.toolkit))
    run.extras[_KEY] = StructuredOutputState(request)
    if request.tool is not None:
        run.toolkit = run.toolkit.overlay(request.tool)


def asking_of(run: Run) -> StructuredOutputState | None:
    """How far the run has got with its request; None if it makes none."""
    return run.extras.get(_KEY)  # pyright: ignore[reportReturnType]


def pieces(run: Run, asking: StructuredOutputState) -> Callable[[Flow[Event]], Flow[Event]] | None:
    """Puts the pieces of the output beside the chunks, as hooks have left those: what is dropped brings none."""
    if asking.request.output is None:
        return None
    operator = run.hooks.chunks(OutputChunkEvent)

    def beside(chunks: Flow[Event]) -> Flow[Event]:
        events = cast("Flow[Event]", chunks.pipe(flat_map_iterable(asking.shown)))
        if operator is None:
            return events
        return events.pipe(transform_type(cast("type[Event]", OutputChunkEvent), operator, void=voids))

    return beside


def asked_again(
    agent: ReActAgent, run: Run, asking: StructuredOutputState, shown: Flow[Event], answered: Callable[[], Stage]
) -> tuple[Flow[Event], Callable[[], Stage]]:
    """The round, and what follows it: once more if it forces the response tool and the provider takes no forced
    choice, be it the server that says so or the model that knows."""
    if not asking.forced:
        return shown, answered

    def refused(error: Exception) -> Flow[Event]:
        if isinstance(error, UnsupportedOptionError):
            told = error.option == "tool_choice"
        else:
            told = isinstance(error, BadRequestError) and "tool_choice" in f"{error} {error.code} {error.body}"
        asking.refused = told
        # the last chance has not been had
        asking.due = told and asking.last
        return empty() if told else throw(error)

    def then() -> Stage:
        return just(tail(lambda: agent.reasoning(run))) if asking.refused else answered()

    return shown.pipe(catch(refused)), then


def stopped(asking: StructuredOutputState, post: PostReasoningEvent) -> PostReasoningEvent:
    """The answer of a run that a hook stops: a call of the response tool cannot wait for a later run.

    It leaves the message; if nothing else would be left, what it was to hand over is said in words.
    """
    message = post.message
    kept = without_calls(message, asking.calls)
    if kept is message:
        return post
    if not kept.content:
        given = (TextBlock(call.raw or to_json(call.input).decode()) for call in message.tool_calls)
        kept = message.replace(content=tuple(given))
    return post.replace(message=kept)


def words(agent: ReActAgent, run: Run, asking: StructuredOutputState, post: PostReasoningEvent) -> Stage:
    """Where an answer without calls leads: it is the output, or words to be remembered and answered.

    Signals: PostReasoning, then a tail or the reply.
    Cancels: the write to memory runs to its end.
    """
    verdict, message = asking.words(post.message)
    output = asking.request.output
    in_words = verdict is Verdict.FAILED and output is not None and output.on_failure == "text"
    if verdict is Verdict.ACCEPTED:
        message = run.final(message, GenerateReason.STRUCTURED_OUTPUT)
    elif verdict is Verdict.PLAIN or in_words:
        message = run.final(message, _plain_reason(asking))
        asking.attempts.discard(message.id)

    told = post.replace(message=message)

    def go() -> Stage:
        event = cast("Event | Done | Tail[Event | Done]", told)
        if verdict is Verdict.AGAIN:
            run.iteration += 1
            return just(event, tail(lambda: agent.reasoning(run)))
        if verdict is Verdict.FAILED and not in_words:
            return just(event, tail(lambda: given_up(agent, run, asking)))
        return just(event, Done(message))

    return run.remembered((message,), told, go)


def after_batch(
    agent: ReActAgent, run: Run, asking: StructuredOutputState, decision: Decision, stopped: Msg | None
) -> Tail[Event | Done] | None:
    """Where the results of a round lead, if that is for the output to say: None leaves it to the decision.

    `stopped` is the result that a hook has stopped the run at.
    """
    if decision not in (Decision.REASON, Decision.STOP):
        return None
    verdict = asking.results()
    if verdict is Verdict.ACCEPTED:
        # (a hook may have stopped the run beside calls that wait: an answer that does not say so leaves none waiting)
        run.pending = False
        return tail(lambda: concat(run.close_open(), defer(lambda: handed_over(agent, run, asking))))
    if decision is Decision.STOP:
        # it is the reply, and no trace
        asking.calls.difference_update(result.id for result in (stopped.tool_results if stopped is not None else ()))
        return None
    return tail(lambda: given_up(agent, run, asking)) if verdict is Verdict.FAILED else None


def handed_over(agent: ReActAgent, run: Run, asking: StructuredOutputState) -> Stage:
    """The end of a run whose response was accepted: the reply is remembered."""
    reason = GenerateReason.MODEL_STOP if asking.request.output is None else GenerateReason.STRUCTURED_OUTPUT
    return _replied(run, run.final(asking.reply(agent.name), reason))


def given_up(agent: ReActAgent, run: Run, asking: StructuredOutputState) -> Stage:
    """The end of a run that got no output: an error, or what was said instead."""
    output = asking.request.output
    if output is None or output.on_failure == "error":
        return throw(StructuredOutputError(agent.name, asking.problems, attempts=asking.failures, text=asking.text))
    if not asking.text:
        return just(tail(lambda: agent.summarizing(run, asking.limit)))
    return _replied(run, run.final(Msg.assistant(asking.text, agent.name), _plain_reason(asking)))


def tidied(run: Run, asking: StructuredOutputState) -> Flow[Event]:
    """Take the traces out of memory.

    Signals: one `MemoryEvent`, if there were any.
    Cancels: nothing that has begun; what is left is done when the disposed run is repaired.
    """
    if not asking.calls and not asking.attempts:
        return empty()

    def take_out(history: list[Msg]) -> Flow[Event]:
        replaced, removed = without_traces(history, asking.calls, asking.attempts)
        if not replaced and not removed:
            return empty()
        writes: list[Flow[object]] = [run.memory.replace(message) for message in replaced]
        if removed:
            writes.append(run.memory.delete(removed))

        def done() -> Flow[object]:
            for id in asking.calls:
                run.open.pop(id, None)
            return empty()

        return run.wrote(MemoryEvent(source=run.source, replaced=replaced, removed=removed), *writes, defer(done))

    return run.history().pipe(concat_map(lambda history: take_out(list(history))))


def _replied(run: Run, message: Msg) -> Stage:
    return cast("Stage", run.replied(message))


def _plain_reason(asking: StructuredOutputState) -> GenerateReason:
    if asking.limit is not None:
        return GenerateReason.LIMIT_REACHED
    return GenerateReason.MAX_ITERATIONS if asking.last else GenerateReason.MODEL_STOP
