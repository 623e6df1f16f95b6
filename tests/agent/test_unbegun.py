"""A call that is never begun warns with the line that made it; one that is begun later does not."""

from __future__ import annotations

import asyncio
import gc
import inspect
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from reactivex import operators as ops

from agentscope_rx import ReActAgent
from agentscope_rx.errors import InvalidInputError
from agentscope_rx.events import ReasoningChunkEvent
from agentscope_rx.testing import ScriptedModel, call, run_virtual
from tests.agent.parts import agent


@contextmanager
def warned() -> Iterator[list[warnings.WarningMessage]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught
        gc.collect()


FORGOTTEN = {
    "call": (lambda it: it.call("hi"), "A call of agent 'Friday' was never begun: await it, run"),
    "stream": (lambda it: it.stream("hi"), "subscribe to it or read it with `async for`."),
    "piped": (lambda it: it.call("hi").pipe(ops.map(str)), "A call of agent"),
    "words": (lambda it: it.stream("hi").text(), "A stream of agent"),
    "one kind": (lambda it: it.stream("hi").of_type(ReasoningChunkEvent), "A stream of agent"),
}


@pytest.mark.parametrize("shape", FORGOTTEN)
def test_what_is_forgotten_warns_with_its_line(shape: str):
    make, text = FORGOTTEN[shape]
    friday = agent(ScriptedModel())
    with warned() as caught:
        make(friday)
    (warning,) = caught
    assert warning.category is RuntimeWarning and text in str(warning.message)
    assert (warning.filename, warning.lineno) == (__file__, make.__code__.co_firstlineno)


def test_the_line_is_that_of_the_statement_and_each_is_told():
    friday = agent(ScriptedModel())

    def forget() -> None:
        friday.call("hi")

        for _ in range(2):
            friday.call(
                "hi",
            )

    with warned() as caught:
        forget()
    first = inspect.getsourcelines(forget)[1]
    assert [warning.lineno - first for warning in caught] == [1, 4, 4]


@pytest.mark.parametrize(
    "begin",
    [
        lambda flow: flow.run(),
        lambda flow: asyncio.run(_awaited(flow)),
        lambda flow: asyncio.run(_listed(flow)),
        lambda flow: flow.pipe(ops.map(str)).run(),
    ],
)
@pytest.mark.parametrize("make", [lambda it: it.call("hi"), lambda it: it.stream("hi")])
def test_what_is_stored_and_begun_later_does_not_warn(begin, make):
    friday = agent(ScriptedModel("fine"))
    with warned() as caught:
        stored = make(friday)
        gc.collect()
        begin(stored)
        del stored
    assert caught == []


async def _awaited(flow) -> None:
    await flow


async def _listed(flow) -> None:
    assert [value async for value in flow]


def test_what_was_refused_or_disposed_of_does_not_warn():
    friday = agent(ScriptedModel())

    async def main() -> None:
        friday.call("hi").subscribe().dispose()
        await friday.idle()

    with warned() as caught:
        with pytest.raises(InvalidInputError):
            friday.call(42)  # pyright: ignore[reportArgumentType]
        with pytest.raises(InvalidInputError):
            friday.stream("hi", memory=42)  # pyright: ignore[reportArgumentType]
        run_virtual(main())
    assert caught == []


def test_a_stream_of_ones_own_and_sub_agents_do_not_warn():
    class Loud(ReActAgent):
        def stream(self, *args, **options):
            return super().stream(*args, **options)

    for kind in (ReActAgent, Loud):
        helper = kind("Helper", ScriptedModel("I help."))
        boss = Loud("Boss", ScriptedModel(call("call_helper", message="?"), "done"), tools=[helper])
        with warned() as caught:
            assert boss.call("hi").run().text == "done"
        assert caught == []


def test_as_an_error_it_is_reported_and_breaks_nothing(monkeypatch: pytest.MonkeyPatch):
    raised: list[BaseException | None] = []
    monkeypatch.setattr("sys.unraisablehook", lambda args: raised.append(args.exc_value))
    friday = agent(ScriptedModel("fine"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        friday.call("hi")
        gc.collect()
    assert [type(error) for error in raised] == [RuntimeWarning]
    assert friday.call("hi").run().text == "fine"
