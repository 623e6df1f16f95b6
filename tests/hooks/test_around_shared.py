"""Operators that keep what they stand around beyond its run, or share it between runs: typed errors, and no silence."""

from __future__ import annotations

import asyncio

import pytest
from reactivex import operators as ops

from agentscope_rx.errors import HookError
from agentscope_rx.hooks import around
from agentscope_rx.testing import Delay, ScriptedModel, run_virtual
from tests.agent.parts import agent


def test_a_shared_source_ends_with_its_own_run():
    shared: list[object] = []

    @around("model")
    def once(source, request):
        shared[:] = shared or [source.pipe(ops.publish(), ops.ref_count())]
        return shared[0]

    async def main():
        first = agent(ScriptedModel(["one", Delay(5), "two"]), hooks=[once]).start("hi")
        await asyncio.sleep(1)
        second = agent(ScriptedModel("never asked"), hooks=[once])
        waiting = second.start("hi")
        await asyncio.sleep(1)
        first.dispose()
        async with asyncio.timeout(60):
            with pytest.raises(HookError, match="its own run has left it"):
                await waiting.result()
        await second.idle()
        assert not second.running

    run_virtual(main())


@pytest.mark.parametrize("kind", ["call", "reasoning", "model"])
def test_a_source_that_is_kept_beyond_its_run_is_refused(kind):
    kept: list[object] = []

    @around(kind)
    def keep(source, request):
        kept.append(source)
        return kept[0]

    async def main():
        friday = agent(ScriptedModel("Hi.", repeat=True), hooks=[keep])
        assert (await friday.call("hi")).text == "Hi."
        async with asyncio.timeout(60):
            with pytest.raises(HookError, match="its own run has left it"):
                await friday.call("again")
        assert not friday.running

    run_virtual(main())


def test_an_operator_that_has_enough_hears_no_error():
    errors: list[Exception] = []

    @around("model")
    def first(source, request):
        return source.pipe(ops.do_action(on_error=errors.append), ops.take(1))

    friday = agent(ScriptedModel(["one", Delay(5), "two"]), hooks=[first])
    assert run_virtual(friday.call("hi")).text == "one"
    assert errors == []
