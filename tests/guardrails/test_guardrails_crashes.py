"""A process that is killed at any moment: the next one is stopped as it was, and sends nothing that was refused."""

from __future__ import annotations

import asyncio

import pytest

from agentscope_rx import ReActAgent
from agentscope_rx.guardrails import GuardrailsHook, UntrustedResults, Verdict, guardrail
from agentscope_rx.testing import run_virtual
from tests.agent.durable.crashes import NotingMemory, World, at_every_moment
from tests.agent.durable.test_every_moment import acting, model, use


@guardrail("input")
async def no_poems(request):
    await asyncio.sleep(0.1)
    return Verdict.stop("a poem") if "poem" in request.text else None


@guardrail("input", parallel=True)
async def no_poems_beside(request):
    await asyncio.sleep(0.1)
    return Verdict.stop("a poem") if "poem" in request.text else None


@guardrail("tool_result")
def no_b(request):
    return Verdict.stop("b", reply="I stop here.") if request.text == "did go-b" else None


def maker(*checks, hooks=()):
    def script(text: str, results: int) -> object:
        assert "poem" not in text
        steps = [use(f"{text}1", f"{text}-a"), use(f"{text}2", f"{text}-b"), use(f"{text}3", f"{text}-c")]
        return steps[results] if results < len(steps) else ["Done", "."]

    def make(world: World) -> ReActAgent:
        # (the tests know a turn by its text, so that is kept)
        guards = [GuardrailsHook(*checks, refused="keep")] if checks else []
        made = [*guards, *(hook() for hook in hooks)]
        return ReActAgent("A", model(world, script), tools=acting(world), memory=NotingMemory(world), hooks=made)

    return make


@pytest.mark.parametrize("turns", [["a poem", "go"], ["go", "a poem"]])
def test_a_stopped_input(turns):
    run_virtual(at_every_moment(maker(no_poems), turns))


def test_a_stopped_result():
    run_virtual(at_every_moment(maker(no_b), ["go"]))


def test_a_stop_beside_the_model():
    def make(world: World) -> ReActAgent:
        def script(text: str, results: int) -> object:
            return "Done."

        hooks = [GuardrailsHook(no_poems_beside, refused="keep")]
        return ReActAgent("A", model(world, script), tools=acting(world), memory=NotingMemory(world), hooks=hooks)

    run_virtual(at_every_moment(make, ["go", "a poem"]))


def test_isolation_after_untrusted_results():
    # the second call and the third are refused, in each process
    def isolated():
        return UntrustedResults(tools=["act"], sensitive=["act"], then="refuse", nonce=lambda: "0123456789abcdef")

    run_virtual(at_every_moment(maker(hooks=[isolated]), ["go"]))
