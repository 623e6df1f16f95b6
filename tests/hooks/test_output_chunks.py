"""OutputChunkEvent: what hooks left of a chunk, again; hooks that name it choose when it is shown, not what it says."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reactivex import operators as ops

from agentscope_rx import Hook, ReActAgent, StreamOptions, StructuredOutput, hook
from agentscope_rx.errors import HookError
from agentscope_rx.events import ChunkEvent, Event, OutputChunkEvent, ReasoningChunkEvent
from agentscope_rx.hooks import DROP, hook_operator
from agentscope_rx.messages import ContentBlock, TextBlock, ToolUseBlock
from agentscope_rx.models.response import ToolUseDelta
from agentscope_rx.reactive import empty, just
from agentscope_rx.testing import Delay, ScriptedModel, run_virtual
from tests.agent.parts import agent, events_of, types

SHAPE = {"type": "object", "properties": {"city": {"type": "string"}, "key": {"type": "string"}}}
MODES = ["native", "prompted", "tool"]
PIECES = ['{"city": "Ro', 'me", "key": "', "zzz9", '"}']


def made(mode: str, *hooks: Hook, pieces: list[str] = PIECES, delay: float = 0) -> ReActAgent:
    """An agent whose model answers with the object, in pieces, in the way of the mode."""
    if mode == "tool":
        deltas = [ToolUseDelta(0, "a", "generate_response", pieces[0])]
        deltas += [ToolUseDelta(0, arguments=piece) for piece in pieces[1:]]
    else:
        deltas = list(pieces)
    turn = [step for delta in deltas for step in (delta, Delay(delay))]
    return agent(ScriptedModel(turn, output_modes=MODES), hooks=hooks)


async def run(mode: str, someone: ReActAgent, options: StreamOptions | None = None) -> list[Event]:
    output = StructuredOutput(SHAPE, mode=mode)  # pyright: ignore
    return await events_of(someone, "?", options, output=output)


def text_of(delta: ContentBlock | None) -> str:
    return delta.raw or "" if isinstance(delta, ToolUseBlock) else getattr(delta, "text", "")


def with_text(event: ChunkEvent, text: str) -> ChunkEvent:
    delta = event.delta
    if isinstance(delta, ToolUseBlock):
        return event.replace(delta=ToolUseBlock(delta.id, delta.name, raw=text))
    return event.replace(delta=TextBlock(text))


def outputs(events: list[Event]) -> list[OutputChunkEvent]:
    return [event for event in events if isinstance(event, OutputChunkEvent)]


async def later(value: object) -> object:
    await asyncio.sleep(1)
    return value


FORMS = {"sync": lambda value: value, "coroutine": later, "flow": lambda value: just(value)}


# --- what hooks did to the chunk underneath ----------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("kind", [ReasoningChunkEvent, ChunkEvent])
def test_a_dropped_chunk_brings_no_piece(mode, form, kind):
    """What a hook keeps from being shown is not shown by another event, in no form of the stream."""
    secret = hook(kind)(lambda event: form(DROP) if "zzz9" in text_of(event.delta) else form(None))
    for options in (None, StreamOptions(incremental=False)):
        events = run_virtual(run(mode, made(mode, secret), options))
        assert len(outputs(events)) == 3
        chunks = [event for event in events if isinstance(event, ChunkEvent)]
        assert not any("zzz9" in event.to_json() or "zzz9" in f"{event.accumulated}" for event in chunks)
        assert outputs(events)[-1].value == {"city": "Rome", "key": ""}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_rewritten_chunk_brings_the_rewritten_piece(mode, form):
    @hook(ReasoningChunkEvent)
    def starred(event: ReasoningChunkEvent):
        return form(with_text(event, text_of(event.delta).replace("zzz9", "****")))

    someone = made(mode, starred)
    events = run_virtual(run(mode, someone))
    assert [event.value for event in outputs(events)][-1] == {"city": "Rome", "key": "****"}
    assert not any("zzz9" in event.to_json() for event in events if isinstance(event, ChunkEvent))
    assert events[-1].message.structured() == {"city": "Rome", "key": "zzz9"}, "the message is what was said"


@pytest.mark.parametrize("mode", MODES)
def test_merged_chunks_bring_one_piece(mode):
    def merged(events: list[ReasoningChunkEvent]) -> ReasoningChunkEvent:
        return with_text(events[-1], "".join(text_of(event.delta) for event in events))

    merging = hook_operator(ReasoningChunkEvent, lambda s: s.pipe(ops.to_list(), ops.filter(bool), ops.map(merged)))
    events = run_virtual(run(mode, made(mode, merging)))
    assert [event.value for event in outputs(events)] == [{"city": "Rome", "key": "zzz9"}]


actions = st.lists(st.sampled_from(["keep", "drop", "star", "twice", "nothing", "late"]), min_size=4, max_size=4)


@pytest.mark.parametrize("mode", MODES)
@given(actions)
def test_each_piece_is_that_of_the_chunk_before_it(mode: str, what: list[str]):
    """The law: pieces of the output are the shown chunks that bring one, each right behind its chunk."""
    left = iter(what)
    answers = {
        "keep": lambda e: e,
        "drop": lambda e: DROP,
        "star": lambda e: with_text(e, "*"),
        "twice": lambda e: just(e, e),
        "nothing": lambda e: empty(),
        "late": later,
    }
    events = run_virtual(run(mode, made(mode, hook(ReasoningChunkEvent)(lambda e: answers[next(left)](e)))))
    shown = [event for event in events if isinstance(event, ReasoningChunkEvent)]
    pieces = outputs(events)
    assert [event.delta for event in pieces] == [event.delta for event in shown]
    assert [event.accumulated for event in pieces] == [event.accumulated for event in shown]
    places = [event.seq for event in pieces]
    assert places == [event.seq + 1 for event in shown]


# --- hooks of the pieces -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_a_hook_that_names_the_pieces_sees_each(mode):
    """Such a hook was never called, and nothing said so."""
    values: list[object] = []
    noting = hook(OutputChunkEvent)(lambda event: values.append(event.value))
    events = run_virtual(run(mode, made(mode, noting)))
    assert values == [event.value for event in outputs(events)]
    assert values[-1] == {"city": "Rome", "key": "zzz9"}


def test_output_chunks_skip_hooks_of_all_chunks_or_events():
    seen: list[str] = []

    class All(Hook):
        def on_event(self, event: Event) -> None:
            seen.append(event.type)

    chunk = hook(ChunkEvent)(lambda event: seen.append(event.type))
    events = run_virtual(run("native", made("native", All(), chunk)))
    assert len(outputs(events)) == 4 and "output_chunk" not in seen
    assert seen.count("reasoning_chunk") == 8


def test_a_method_sees_the_pieces():
    class Watching(ReActAgent):
        def __init__(self, *args, **options) -> None:
            super().__init__(*args, **options)
            self.values: list[object] = []

        def output_chunk(self, event: OutputChunkEvent) -> None:
            self.values.append(event.value)

    someone = Watching("Friday", ScriptedModel(list(PIECES), output_modes=["native"]))
    run_virtual(run("native", someone))
    assert someone.values[-1] == {"city": "Rome", "key": "zzz9"}


@pytest.mark.parametrize("mode", MODES)
def test_sampled_pieces_are_whole_values(mode):
    """The use of an operator here: a value now and then, not a piece of one. Flushed before the stage ends."""
    someone = made(mode, hook_operator(OutputChunkEvent, ops.sample(1.0)), delay=0.4)
    events = run_virtual(run(mode, someone))
    # at 0.8 s and at the end, of pieces at 0, 0.4, 0.8 and 1.2 s
    assert [text_of(event.delta) for event in outputs(events)] == PIECES[2:]
    assert [event.value for event in outputs(events)] == [{"city": "Rome", "key": "zzz9"}] * 2
    assert types(events).index("post_reasoning") > max(
        index for index, event in enumerate(events) if isinstance(event, OutputChunkEvent)
    )
    assert "".join(text_of(e.delta) for e in events if isinstance(e, ReasoningChunkEvent)) == "".join(PIECES)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_dropped_piece_is_in_the_value_of_the_next(mode, form):
    every_other = iter([DROP, None] * 10)
    thinned = hook(OutputChunkEvent)(lambda event: form(next(every_other)))
    events = run_virtual(run(mode, made(mode, thinned)))
    assert [event.value for event in outputs(events)] == [
        {"city": "Rome", "key": ""},
        {"city": "Rome", "key": "zzz9"},
    ]


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_piece_cannot_be_made_to_say_something_else(form):
    """It would be shown as the chunk before it all the same."""
    starring = hook(OutputChunkEvent)(lambda event: form(event.replace(delta=TextBlock("*"))))
    with pytest.raises(HookError, match=r"on output_chunk.*must keep `delta`.*@hook\(ReasoningChunkEvent\)"):
        run_virtual(run("native", made("native", starring)))


def test_slow_hooks_of_pieces_end_before_the_stage_does():
    someone = made("native", hook(OutputChunkEvent)(later))
    events = run_virtual(run("native", someone))
    order = types(events)
    assert order.count("output_chunk") == 4
    assert order.index("post_reasoning") > len(order) - 1 - order[::-1].index("output_chunk")


def test_without_an_output_there_are_no_pieces_and_no_operator():
    seen: list[Event] = []
    someone = agent(ScriptedModel("Hello"), hooks=[hook(OutputChunkEvent)(seen.append)])
    assert "output_chunk" not in types(run_virtual(events_of(someone, "hi")))
    assert not seen
