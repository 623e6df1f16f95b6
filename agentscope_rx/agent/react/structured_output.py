"""Structured output in the stages of a ReAct run; also the finish tool. The state of it is `StructuredOutputState`.

reasoning   asks for the output, shows the deltas of it, and hands answers without calls to `answer_in_text`
acting      hands results to the state; then -> tail(hand_over) | tail(give_up) | tail(reasoning)
the end     `remove_traces`, however the run has ended
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

from pydantic_core import to_json

from agentscope_rx.agent.react.decide import Decision
from agentscope_rx.agent.react.model_call import fit_choice, voids
from agentscope_rx.agent.react.stage import ReActCore
from agentscope_rx.agent.react.steering import at_end, end_or_go_on
from agentscope_rx.agent.removing import remove_from_memory
from agentscope_rx.agent.run import Done, Run, Stage
from agentscope_rx.agent.structured_output.cleanup import has_all_traces, without_calls, without_traces
from agentscope_rx.agent.structured_output.request import OutputRequest
from agentscope_rx.agent.structured_output.state import StructuredOutputState, Verdict
from agentscope_rx.errors import BadRequestError, StructuredOutputError, UnsupportedOptionError
from agentscope_rx.events import Event, OutputChunkEvent, PostReasoningEvent, PreReasoningEvent
from agentscope_rx.messages import GenerateReason, Msg, TextBlock
from agentscope_rx.models.options import ToolSchema
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
from agentscope_rx.tools import Toolkit

_KEY = "output"
_TOOLKIT = "toolkit without the response tool"


def request_output(run: Run, request: OutputRequest) -> None:
    """Make this the request of the run, replacing an earlier one. Its tool is in the run's toolkit only."""
    run.toolkit = cast("Toolkit", run.extras.setdefault(_TOOLKIT, run.toolkit))
    run.extras[_KEY] = StructuredOutputState(request)
    if request.tool is not None:
        run.toolkit = run.toolkit.overlay(request.tool)


def change_toolkit(run: Run, toolkit: Toolkit) -> None:
    """Give the run another toolkit; the response tool of its request, if it has one, goes with it."""
    run.toolkit = toolkit
    output = output_of(run)
    if output is None:
        return
    run.extras[_TOOLKIT] = toolkit
    if output.request.tool is not None:
        run.toolkit = toolkit.overlay(output.request.tool)


def output_of(run: Run) -> StructuredOutputState | None:
    """The state of the run's request for an output; None if it has none."""
    return run.extras.get(_KEY)  # pyright: ignore[reportReturnType]


def ask_for_output(
    agent: ReActCore, output: StructuredOutputState, pre: PreReasoningEvent, tools: Sequence[ToolSchema]
) -> tuple[PreReasoningEvent, Sequence[ToolSchema]]:
    """The event and the tools of a round; at the last chance with the response tool only."""
    tools = output.tools(tools)
    return (fit_choice(agent, pre, tools) if output.last else pre), tools


def show_output(run: Run, output: StructuredOutputState) -> Callable[[Flow[Event]], Flow[Event]] | None:
    """An operator that adds an OutputChunk behind each chunk of the output that hooks have let pass."""
    if output.request.output is None:
        return None
    operator = run.hooks.chunks(OutputChunkEvent)

    def add(chunks: Flow[Event]) -> Flow[Event]:
        events = cast("Flow[Event]", chunks.pipe(flat_map_iterable(output.show)))
        if operator is None:
            return events
        return events.pipe(transform_type(cast("type[Event]", OutputChunkEvent), operator, void=voids))

    return add


def ask_again(
    agent: ReActCore, run: Run, output: StructuredOutputState, chunks: Flow[Event], answered: Callable[[], Stage]
) -> tuple[Flow[Event], Callable[[], Stage]]:
    """The chunks, and the stage after them: a round without a forced choice, if the provider refuses the choice."""
    if not output.forced:
        return chunks, answered

    def refused(error: Exception) -> Flow[Event]:
        if isinstance(error, UnsupportedOptionError):
            by_choice = error.option == "tool_choice"
        else:
            by_choice = isinstance(error, BadRequestError) and "tool_choice" in f"{error} {error.code} {error.body}"
        output.refused = by_choice
        # a last chance that was refused is granted again
        output.due = by_choice and output.last
        return empty() if by_choice else throw(error)

    def then() -> Stage:
        return just(tail(lambda: agent.reasoning(run))) if output.refused else answered()

    return chunks.pipe(catch(refused)), then


def without_response_calls(output: StructuredOutputState, post: PostReasoningEvent) -> PostReasoningEvent:
    """The answer of a run that a hook stops, without its calls of the response tool, which no later run can settle.

    If nothing else is left of the message, the arguments of these calls become its text.
    """
    message = post.message
    kept = without_calls(message, output.calls)
    if kept is message:
        return post
    if not kept.content:
        arguments = (TextBlock(call.raw or to_json(call.input).decode()) for call in message.tool_calls)
        kept = message.replace(content=tuple(arguments))
    return post.replace(message=kept)


def answer_in_text(agent: ReActCore, run: Run, output: StructuredOutputState, post: PostReasoningEvent) -> Stage:
    """Remember an answer without calls, and follow its verdict: it is the output, or a failed attempt at it.

    Signals: PostReasoning, then a tail or the reply.
    Cancels: nothing: the write to memory, once begun, runs to its end.
    """
    verdict, message = output.read_text(post.message)
    requested = output.request.output
    as_text = verdict is Verdict.FAILED and requested is not None and requested.on_failure == "text"
    if verdict is Verdict.ACCEPTED:
        message = run.final(message, GenerateReason.STRUCTURED_OUTPUT)
    elif verdict is Verdict.PLAIN or as_text:
        message = run.final(message, _plain_reason(output))
        output.attempts.discard(message.id)

    event = post.replace(message=message)

    def go() -> Stage:
        if verdict is Verdict.AGAIN:
            run.iteration += 1
            return just(event, tail(lambda: agent.reasoning(run)))
        if verdict is Verdict.FAILED and not as_text:
            return just(event, tail(lambda: give_up(agent, run, output)))
        follow: Tail[Event | Done] | None = None
        if requested is None:
            follow = at_end(agent, run, message)
        return just(event, Done(message) if follow is None else follow)

    return run.remember_then((message,), event, go)


def after_results(
    agent: ReActCore, run: Run, output: StructuredOutputState, decision: Decision, stopped: Msg | None
) -> Tail[Event | Done] | None:
    """The stage that follows the results of a round, if these decide on the output; else None.

    `stopped` is the result at which a hook has stopped the run.
    """
    if decision not in (Decision.REASON, Decision.STOP):
        return None
    verdict = output.results()
    if verdict is Verdict.ACCEPTED:
        # a hook may have stopped the run while other calls wait: this reply does not report them, so they are closed
        run.calls.pending = False
        return tail(lambda: concat(run.close_open(), defer(lambda: hand_over(agent, run, output))))
    if decision is Decision.STOP:
        # the result is the reply, and is no trace
        output.calls.difference_update(result.id for result in (stopped.tool_results if stopped is not None else ()))
        return None
    return tail(lambda: give_up(agent, run, output)) if verdict is Verdict.FAILED else None


def hand_over(agent: ReActCore, run: Run, output: StructuredOutputState) -> Stage:
    """End the run with the accepted response."""
    if output.request.output is None:
        return end_or_go_on(agent, run, run.final(output.reply(agent.name), GenerateReason.MODEL_STOP))
    # the value is there
    return run.end_with(run.final(output.reply(agent.name), GenerateReason.STRUCTURED_OUTPUT))


def give_up(agent: ReActCore, run: Run, output: StructuredOutputState) -> Stage:
    """End a run that got no output: with an error, or with the model's last text."""
    requested = output.request.output
    if requested is None or requested.on_failure == "error":
        return throw(StructuredOutputError(agent.name, output.problems, attempts=output.failures, text=output.text))
    if not output.text:
        return just(tail(lambda: agent.summarizing(run, output.limit)))
    return run.end_with(run.final(Msg.assistant(output.text, agent.name), _plain_reason(output)))


def remove_traces(run: Run, output: StructuredOutputState) -> Flow[Event]:
    """Remove the failed attempts and the calls of the response tool from memory.

    Signals: one `MemoryEvent`, if there were any.
    Cancels: nothing that has begun; the repair of a disposed run removes the rest.
    """
    if not output.calls and not output.attempts:
        return empty()

    def remove(history: Sequence[Msg]) -> Flow[Event]:
        replaced, removed = without_traces(history, output.calls, output.attempts)
        if not replaced and not removed:
            return empty()

        def done() -> Flow[object]:
            for id in output.calls:
                run.calls.open.pop(id, None)
            return empty()

        return remove_from_memory(run, history, removed, replaced, defer(done))

    return run.history().pipe(concat_map(partial(_with_traces, run, output)), concat_map(remove))


def _with_traces(run: Run, output: StructuredOutputState, history: Sequence[Msg]) -> Flow[Sequence[Msg]]:
    """The history if all traces are in it, else the whole conversation.

    A memory in a database may have left out what was compressed during the run.
    """
    if has_all_traces(history, output.calls, output.attempts):
        return just(history)
    memory = run.memory

    def whole(count: int) -> Flow[Sequence[Msg]]:
        return just(history) if count <= len(history) else memory.get_memory()

    return memory.count().pipe(concat_map(whole))


def _plain_reason(output: StructuredOutputState) -> GenerateReason:
    if output.limit is not None:
        return GenerateReason.LIMIT_REACHED
    return GenerateReason.MAX_ITERATIONS if output.last else GenerateReason.MODEL_STOP
