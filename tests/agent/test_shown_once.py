"""Each value of a call is shown once: the law over generators, emitters and Observables."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentscope_rx import ReActAgent, TextBlock, ToolContext, ToolError, Toolkit, tool
from agentscope_rx.events import ActingChunkEvent, Event, PostActingEvent
from agentscope_rx.models.options import ExecutionConfig
from agentscope_rx.reactive import Flow, from_iterable
from agentscope_rx.testing import ScriptedModel, call, run_virtual


def generator(values: Sequence[str]) -> object:
    def play() -> Iterator[str]:
        yield from values

    return play


def async_generator(values: Sequence[str]) -> object:
    async def play() -> AsyncIterator[str]:
        for each in values:
            yield each

    return play


def observable(values: Sequence[str]) -> object:
    def play() -> Flow[str]:
        return from_iterable(values)

    return play


def unannounced(values: Sequence[str]) -> object:
    async def play() -> object:
        return from_iterable(values)

    return play


def emitter(values: Sequence[str]) -> object:
    def play(context: ToolContext) -> str:
        for each in values[:-1]:
            context.emit(each)
        return values[-1]

    return play


def joined(values: Sequence[str]) -> object:
    async def play() -> AsyncIterator[str]:
        for each in values:
            yield each

    return tool(result="joined")(play)


FORMS = [generator, async_generator, observable, unannounced, emitter, joined]


def seen(toolkit: Toolkit) -> tuple[list[str], str]:
    """The texts of the chunk events that show anything, and the result."""
    (name,) = toolkit.names
    events: list[Event] = []
    friday = ReActAgent("Friday", ScriptedModel([call(name)], "done"), toolkit=toolkit)
    run_virtual(friday.stream("hi").pipe(_into(events)))
    chunks = [each for each in events if isinstance(each, ActingChunkEvent)]
    assert [each.is_last for each in chunks] == [False] * (len(chunks) - 1) + [True]
    (post,) = [each for each in events if isinstance(each, PostActingEvent)]
    return [each.text for each in chunks if each.chunk.output], post.result.text


def _into(events: list[Event]) -> Callable[[Flow[Event]], Flow[Event]]:
    from agentscope_rx.reactive import concat_map

    def note(event: Event) -> Event:
        events.append(event)
        return event

    return concat_map(note)


@settings(max_examples=25)
@given(form=st.sampled_from(FORMS), values=st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=6))
def test_law_the_chunk_events_of_a_call_are_what_it_gave(form: Callable[[Sequence[str]], object], values: list[str]):
    shown, result = seen(Toolkit([form(values)]))
    assert shown == values
    assert result == ("".join(values) if form is joined else values[-1])


@pytest.mark.parametrize("form", [generator, async_generator, observable, unannounced])
def test_a_value_that_a_failure_follows_was_progress(form: Callable[[Sequence[str]], object]):
    class Failing(list[str]):
        def __iter__(self) -> Iterator[str]:
            yield from ("a", "b")
            raise ToolError("no more")

    shown, result = seen(Toolkit([form(Failing())]))
    assert shown == ["a", "b", "Error: no more"] and result == "Error: no more"


def test_an_attempt_that_failed_does_not_count():
    tries: list[int] = []

    def play() -> Iterator[str]:
        tries.append(1)
        yield "a"
        if len(tries) == 1:
            raise ToolError("again", retryable=True)

    config = ExecutionConfig(max_attempts=2, initial_backoff=0.1)
    assert seen(Toolkit([play], execution_config=config)) == (["a", "a"], "a")


def test_a_result_that_has_become_another_is_shown():
    toolkit = Toolkit()
    toolkit.register(
        tool(generator(["a", "b"])),  # pyright: ignore
        postprocess=lambda call, result: replace(result, output=(TextBlock("B"),)),
    )
    assert seen(toolkit) == (["a", "b", "B"], "B")
    cut_shown, result = seen(Toolkit([joined(["x" * 600, "y" * 600])], max_result=500))
    assert cut_shown == ["x" * 600, "y" * 600, result]
