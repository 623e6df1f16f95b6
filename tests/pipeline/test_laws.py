"""Laws of random trees of pipelines: call is the last event of stream, order, exactly once, every end leaves all whole.

A tree of scripted members gives the text that plain functions give.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from hypothesis import given, note, settings
from hypothesis import strategies as st

from agentscope_rx import Agent, Approve, InMemorySession, Msg, ReActAgent, tool
from agentscope_rx.errors import FanOutError, StepError
from agentscope_rx.events import PostCallEvent
from agentscope_rx.messages import GenerateReason
from agentscope_rx.pipeline import ConditionalPipeline, FanOutPipeline, LoopPipeline, Pipeline, SequentialPipeline
from agentscope_rx.testing import Delay, ScriptedModel, collect_dropped, run_virtual
from tests.pipeline.parts import assert_whole, remembered, use
from tests.support.assertions import assert_prompts_are_whole


@dataclass(frozen=True)
class Leaf:
    """A member that answers with its number around the input: after a while, with a tool, or not at all."""

    kind: str
    wait: int


@dataclass(frozen=True)
class Branch:
    kind: str
    parts: tuple[Any, ...]


LEAVES = st.builds(Leaf, st.sampled_from(["says", "says", "function", "tool", "asks", "fails"]), st.integers(0, 3))
SAFE = st.builds(Leaf, st.sampled_from(["says", "function", "tool", "asks"]), st.integers(0, 3))


def branches(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(parts, min_size=1, max_size=3).map(tuple)
    return st.builds(Branch, st.sampled_from(["sequence", "fan-out", "choice", "loop"]), several)


def trees(leaves: st.SearchStrategy[Leaf]) -> st.SearchStrategy[Branch]:
    return branches(st.recursive(leaves, branches, max_leaves=5))


class Tree:
    """A tree as agents; `ran` counts the calls of the tools by their arguments."""

    def __init__(self, root: Branch) -> None:
        self.root = root
        self.ran: list[str] = []
        self.agents: list[Agent] = []
        self.models: list[ScriptedModel] = []

    def build(self, **options: Any) -> Pipeline:
        self.agents, self.models = [], []
        top = self._agent(self.root, "n", options)
        assert isinstance(top, Pipeline)
        return top

    def _agent(self, node: Leaf | Branch, name: str, options: dict[str, Any] | None = None) -> Any:
        made = self._leaf(node, name) if isinstance(node, Leaf) else self._branch(node, name, options or {})
        if isinstance(made, Agent):
            self.agents.append(made)
        return made

    def _branch(self, node: Branch, name: str, options: dict[str, Any]) -> Pipeline:
        parts = [self._agent(part, f"{name}{number}") for number, part in enumerate(node.parts)]
        if node.kind == "sequence":
            return SequentialPipeline(parts, name, **options)
        if node.kind == "fan-out":
            return FanOutPipeline(parts, name, combine=joined, at_most=2, **options)
        if node.kind == "choice":
            chosen = [(lambda message, n=n: len(message.text) % 3 == n, part) for n, part in enumerate(parts)]
            return ConditionalPipeline(chosen, None, name, **options)
        return LoopPipeline(parts[0], name, max_rounds=2, **options)

    def _leaf(self, node: Leaf, name: str) -> Any:
        if node.kind == "function":

            async def function(message: Msg) -> str:
                await asyncio.sleep(node.wait)
                return wrap(name, message.text)

            function.__name__ = name
            return function
        model = ScriptedModel(*[self._turn(node, name)] * 60)
        self.models.append(model)
        return ReActAgent(name, model, tools=[self._tool(node)] if node.kind in ("tool", "asks") else [])

    def _turn(self, node: Leaf, name: str) -> Callable[[Any], Any]:
        def turn(request: Any) -> Any:
            if node.kind == "fails":
                return ValueError(name)
            told = next(m for m in reversed(request.messages) if m.text and m.role == "user").text
            last = request.messages[-1]
            if node.kind in ("tool", "asks") and not last.tool_results:
                return [Delay(node.wait), use("act", f"{name}-{len(request.messages)}", what=wrap(name, told))]
            return [Delay(node.wait), wrap(name, told)]

        return turn

    def _tool(self, node: Leaf) -> Any:
        @tool(requires_approval=node.kind == "asks")
        async def act(what: str) -> str:
            """Act."""
            self.ran.append(what)
            return "done"

        return act


def wrap(name: str, text: str) -> str:
    return f"{name}({text})"


def joined(outcomes: Any) -> str:
    return "+".join(each.member if each.reply is None else each.reply.text for each in outcomes)


class Failed(Exception):
    pass


def expected(node: Leaf | Branch, text: str, name: str = "n") -> str:
    """What the tree answers, computed by plain functions; `Failed` if it fails."""
    if isinstance(node, Leaf):
        if node.kind == "fails":
            raise Failed
        return wrap(name, text)

    def call(number: int, text: str) -> str:
        return expected(node.parts[number], text, f"{name}{number}")

    numbers = range(len(node.parts))
    if node.kind == "sequence":
        for number in numbers:
            text = call(number, text)
        return text
    if node.kind == "fan-out":
        found: list[str] = []
        for number in numbers:
            try:
                found.append(call(number, text))
            except Failed:
                found.append(f"{name}{number}")
        return "+".join(found)
    if node.kind == "choice":
        return call(len(text) % 3, text) if len(text) % 3 in numbers else text
    return call(0, call(0, text))


async def answered(top: Pipeline, reply: Msg) -> Msg:
    """The reply once all that waits for approval is approved."""
    while reply.generate_reason is GenerateReason.APPROVAL_REQUIRED:
        reply = await top.call([Approve(call) for call in reply.pending_calls])
    return reply


async def assert_all_whole(tree: Tree) -> None:
    for agent in tree.agents:
        assert not agent.running
        await assert_whole(agent.conversation(), remembered(agent))
    for model in tree.models:
        assert_prompts_are_whole(model)


def outcome(root: Branch, text: str) -> str | None:
    try:
        return expected(root, text)
    except Failed:
        return None


@settings(max_examples=60)
@given(trees(LEAVES))
def test_a_tree_answers_as_functions_do(root: Branch):
    tree = Tree(root)

    async def main() -> None:
        top = tree.build()
        for text in ("x", "xy"):
            right = outcome(root, text)
            with suppress(StepError, FanOutError):
                reply = await answered(top, await top.call(text))
                assert reply.text == right
                right = None
            assert right is None
            await assert_all_whole(tree)

    run_virtual(main())


@settings(max_examples=40)
@given(trees(SAFE))
def test_call_is_the_last_event_of_stream(root: Branch):
    async def main() -> None:
        one, other = Tree(root), Tree(root)
        called = await one.build().call("x")
        events = [event async for event in other.build().stream("x")]
        last = events[-1]
        assert isinstance(last, PostCallEvent) and last.depth == 0
        assert (last.message.text, last.message.generate_reason) == (called.text, called.generate_reason)
        assert [event.seq for event in events] == list(range(len(events)))
        for event in events:
            assert event.path[0] == events[0].run_id and len(event.path) % 2 == 1

    run_virtual(main())


@settings(max_examples=60)
@given(trees(SAFE), st.sampled_from(["cancel", "interrupt"]), st.lists(st.integers(0, 60), min_size=1, max_size=3))
def test_a_tree_that_is_cut_off_is_whole(root: Branch, way: str, ends: list[int]):
    tree = Tree(root)

    async def main() -> None:
        top = tree.build()
        for at in ends:
            task = top.call("x").as_task()
            await asyncio.wait([task], timeout=at / 8 + 0.01)
            if way == "cancel":
                task.cancel()
            else:
                top.interrupt()
            with suppress(asyncio.CancelledError):
                await task
            for agent in tree.agents:
                await agent.idle()
            await assert_all_whole(tree)
        reply = await answered(top, await top.call("yz"))
        assert reply.text == outcome(root, "yz")
        assert len(tree.ran) == len(set(tree.ran)) or "loop" in str(root) or len(ends) > 1
        await assert_all_whole(tree)

    with collect_dropped():
        run_virtual(main())


@settings(max_examples=60)
@given(trees(SAFE))
def test_what_waits_goes_on_in_another_process(root: Branch):
    """Each approval is given by a new process, which has nothing but the session."""
    tree = Tree(root)
    note(str(root))

    async def main() -> None:
        session = InMemorySession()
        top = tree.build()
        await top.bind(session, "s")
        reply = await top.call("x")
        while reply.generate_reason is GenerateReason.APPROVAL_REQUIRED:
            top = tree.build()
            await top.bind(session, "s")
            pending = await top.pending_calls()
            assert [call.id for call in pending] == [call.id for call in reply.pending_calls]
            reply = await top.call(Approve(pending[0]))
        assert reply.text == outcome(root, "x")
        again = tree.build()
        await again.bind(session, "s")
        assert (await answered(again, await again.call("xy"))).text == outcome(root, "xy")

    run_virtual(main())
