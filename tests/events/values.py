"""Hypothesis strategies for every kind of event."""

from __future__ import annotations

from hypothesis import strategies as st

from agentscope_rx import Approve, Reject
from agentscope_rx import events as kinds
from agentscope_rx.messages import Citation
from agentscope_rx.models.accumulate import block_builder
from agentscope_rx.models.options import GenerateOptions, ToolSchema
from agentscope_rx.models.response import FinishReason
from agentscope_rx.plan import Plan, SubTask, Todo
from tests.messages.values import (
    blocks,
    ids,
    messages,
    numbers,
    objects,
    short_messages,
    tool_results,
    tool_uses,
    usages,
    words,
)

places = {
    "source": st.builds(kinds.EventSource, words, words, st.lists(ids, max_size=3).map(tuple)),
    "seq": st.integers(-1, 10**6),
    "timestamp": numbers,
}
# (what a message can hold is for its own tests)
several = st.lists(messages | short_messages, max_size=2).map(tuple)
flags = st.booleans()
iterations = st.integers(0, 99)


@st.composite
def chunks(draw, kind):
    delta = draw(st.none() | blocks)
    view = count = None
    if delta is not None and draw(flags):
        view = block_builder(delta)
        count = view.add(delta)
    return kind(
        **{name: draw(values) for name, values in places.items()},
        iteration=draw(iterations),
        message_id=draw(ids),
        delta=delta,
        snapshot=draw(st.none() | blocks),
        view=view,
        count=count or 0,
    )


def _built(kind, **fields):
    return st.builds(kind, **places, **fields)


remembered = st.none() | st.sampled_from(["arguments", "tool"])
answers = st.one_of(
    st.builds(lambda id, input, remember: Approve(id, input, remember=remember), ids, st.none() | objects, remembered),
    st.builds(lambda id, reason, remember: Reject(id, reason, remember=remember), ids, words, remembered),
)

schemas = st.none() | st.builds(ToolSchema, words, words, objects)

names = words.filter(str.strip)
plan_states = st.sampled_from(["todo", "in_progress", "done", "abandoned"])
_planned = {
    "name": names,
    "description": words,
    "expected_outcome": words,
    "state": plan_states,
    "outcome": st.none() | words,
    "id": ids,
    "created_at": numbers,
    "finished_at": st.none() | numbers,
}
subtasks = st.builds(SubTask, **_planned)
plans = st.builds(Plan, **_planned, subtasks=st.lists(subtasks, max_size=3).map(tuple))
todos = st.builds(Todo, names, plan_states)

citations = st.builds(
    Citation,
    number=st.integers(1, 99),
    base=words,
    document=words,
    title=words,
    chunk=iterations,
    page=st.none() | iterations,
    headings=st.lists(words, max_size=2).map(tuple),
    start=iterations,
    end=iterations,
    score=st.floats(0, 1),
)

_asking = {
    "iteration": iterations,
    "model_name": words,
    "system_message": st.none() | messages,
    "hints": several,
    "messages": several,
    "history": several,
    "options": st.none() | st.builds(GenerateOptions, temperature=st.none() | numbers),
}
_written = {"message": messages, "usage": st.none() | usages}
_answered = {
    "queued": numbers,
    "finish_reason": st.none() | st.sampled_from(FinishReason),
    "interrupted": flags,
    **{name: _asking[name] for name in ("model_name", "messages", "options", "history")},
}

EVENTS = {
    kinds.PreCallEvent: _built(
        kinds.PreCallEvent,
        input=several,
        answers=st.lists(answers, max_size=2).map(tuple),
        system_message=st.none() | messages,
        pending=st.lists(tool_uses, max_size=2).map(tuple),
        history=several,
    ),
    kinds.InputEvent: _built(
        kinds.InputEvent, iteration=iterations, input=several, when=st.sampled_from(["next_round", "idle"])
    ),
    kinds.PreReasoningEvent: _built(kinds.PreReasoningEvent, **_asking),
    kinds.ReasoningChunkEvent: chunks(kinds.ReasoningChunkEvent),
    kinds.OutputChunkEvent: chunks(kinds.OutputChunkEvent),
    kinds.PostReasoningEvent: _built(
        kinds.PostReasoningEvent,
        iteration=iterations,
        **_written,
        **_answered,
        stop_requested=flags,
        goto_messages=st.none() | several,
    ),
    kinds.PreActingEvent: _built(
        kinds.PreActingEvent, iteration=iterations, tool_use=tool_uses, schema=schemas, history=several
    ),
    kinds.ActingChunkEvent: _built(
        kinds.ActingChunkEvent, iteration=iterations, tool_use=tool_uses, chunk=tool_results, is_last=flags
    ),
    kinds.PostActingEvent: _built(
        kinds.PostActingEvent,
        iteration=iterations,
        tool_use=tool_uses,
        message=messages,
        stop_requested=flags,
        schema=schemas,
        history=several,
    ),
    kinds.PreSummaryEvent: _built(kinds.PreSummaryEvent, **_asking, max_iterations=iterations),
    kinds.SummaryChunkEvent: chunks(kinds.SummaryChunkEvent),
    kinds.PostSummaryEvent: _built(
        kinds.PostSummaryEvent,
        iteration=iterations,
        max_iterations=iterations,
        **_written,
        **_answered,
    ),
    kinds.MemoryEvent: _built(
        kinds.MemoryEvent, replaced=several, removed=st.lists(ids, max_size=2).map(tuple), added=several
    ),
    kinds.ContextEvent: _built(
        kinds.ContextEvent,
        step=words,
        cause=st.sampled_from(["tokens", "messages", "overflow", "tool", "manual"]),
        tokens_before=iterations,
        tokens_after=iterations,
        messages_before=iterations,
        messages_after=iterations,
        uncached=iterations,
        counted=flags,
        usage=_written["usage"],
        model_name=words,
        error=words,
    ),
    kinds.BackgroundEvent: _built(
        kinds.BackgroundEvent,
        job=ids,
        tool_use=tool_uses,
        state=st.sampled_from(["started", "promoted", "completed", "failed", "stopped", "in_doubt"]),
        result=st.none() | tool_results,
        elapsed=st.floats(0, 1e6),
    ),
    kinds.HubEvent: _built(
        kinds.HubEvent,
        hub=words,
        change=st.sampled_from(["joined", "left", "announced", "said"]),
        member=words,
        number=st.none() | iterations,
        message=st.none() | messages,
        heard_by=st.lists(words, max_size=2).map(tuple),
        missed_by=st.lists(words, max_size=2).map(tuple),
        error_text=words,
    ),
    kinds.RetrievalEvent: _built(
        kinds.RetrievalEvent,
        question=words,
        queries=st.lists(words, max_size=2).map(tuple),
        bases=st.lists(words, max_size=2).map(tuple),
        passages=st.lists(citations, max_size=2).map(tuple),
        call_id=ids,
        elapsed=st.floats(0, 1e6),
        usage=_written["usage"],
        model_name=words,
        error_text=words,
    ),
    kinds.CitationEvent: _built(
        kinds.CitationEvent,
        message_id=ids,
        citations=st.lists(citations, max_size=2).map(tuple),
        unknown=st.lists(st.integers(1, 99), max_size=2).map(tuple),
    ),
    kinds.PlanEvent: _built(
        kinds.PlanEvent,
        name=words,
        change=st.sampled_from(["created", "subtask_state", "finished", "todos", "mode_off"]),
        plan=st.none() | plans,
        subtask=st.none() | iterations,
        todos=st.lists(todos, max_size=2).map(tuple),
        text=words,
    ),
    kinds.PostCallEvent: _built(kinds.PostCallEvent, **_written, input=several, history=several),
    kinds.PreObserveEvent: _built(kinds.PreObserveEvent, input=several),
    kinds.PostObserveEvent: _built(kinds.PostObserveEvent, input=several),
    kinds.RetryEvent: _built(
        kinds.RetryEvent,
        stage=st.sampled_from(["model", "tool"]),
        tool_use_id=st.none() | ids,
        attempt=iterations,
        delay=numbers,
        error_type=words,
        error_text=words,
        discarded=flags,
        model_name=words,
    ),
    kinds.ErrorEvent: _built(
        kinds.ErrorEvent, error_type=words, error_text=words, error=st.none() | st.builds(ValueError, words)
    ),
}

events = st.one_of(*EVENTS.values())
