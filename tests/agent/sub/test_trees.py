"""Random trees of agents whose tools wait, answered in random orders, with restarts in between.

The law: whatever the tree and the order, in the end every call of every level has exactly one result, each tool has run
exactly once, and no question was asked again after its answer.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from agentscope_rx import (
    Approve,
    InMemoryMemory,
    InMemorySession,
    Msg,
    ReActAgent,
    Reject,
    Toolkit,
    ToolResultBlock,
    tool,
)
from agentscope_rx.memory import Memory
from agentscope_rx.messages import TextBlock, ToolUseBlock
from agentscope_rx.models.options import ToolSchema
from agentscope_rx.testing import Delay, ScriptedModel, run_virtual
from tests.agent.parts import events_of, remembered
from tests.agent.sub.parts import assert_all_whole
from tests.support.assertions import assert_one_truth, assert_prompts_are_whole


@dataclass(frozen=True)
class Node:
    """An agent: in each round it calls these; a nested node is a sub-agent."""

    rounds: tuple[tuple[str | Node, ...], ...]
    parallel: bool = True


def trees_of(names: Sequence[str]) -> st.SearchStrategy[Node]:
    """Trees of agents that call tools of these names."""
    kinds = st.sampled_from(names)

    def nodes(calls: st.SearchStrategy[Any]) -> st.SearchStrategy[Node]:
        rounds = st.lists(st.lists(calls, min_size=1, max_size=3).map(tuple), min_size=1, max_size=2).map(tuple)
        return st.builds(Node, rounds, st.booleans())

    return st.recursive(nodes(kinds), lambda inner: nodes(kinds | inner), max_leaves=4)


@dataclass
class Tree:
    """A tree as agents. The models and tools outlive a restart; all else is made anew.

    `pace`: how many seconds each model takes for an answer.
    """

    root: Node
    memory: Callable[[], Memory] = InMemoryMemory
    pace: float = 0.0
    ran: Counter[str] = field(default_factory=Counter)
    models: dict[str, ScriptedModel] = field(default_factory=dict)
    tools: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        self.tools = tuple(self._tools())

    def build(self, **options: Any) -> ReActAgent:
        return self._agent(self.root, "root", **options)

    def _agent(self, node: Node, name: str, **options: Any) -> ReActAgent:
        toolkit = Toolkit(self.tools, parallel=node.parallel)
        toolkit.register_schema(ToolSchema("outside", "Somebody else.", {"type": "object"}))
        for number, inner in enumerate(_inner(node)):
            toolkit.register(self._agent(inner, f"{name}_{number}").as_tool(memory=self.memory))
        made = ScriptedModel(*self._script(node, name))
        return ReActAgent(name, self.models.setdefault(name, made), toolkit=toolkit, memory=self.memory(), **options)

    def _script(self, node: Node, name: str) -> Iterator[list[Any]]:
        for turn in _turns(node, name):
            yield [Delay(self.pace), *turn] if self.pace else turn
        if self.pace:
            # (one that is cut off may be asked more often)
            yield from [["done"]] * 40

    def _tools(self) -> Iterator[Any]:
        def body(name: str) -> Callable[[str], str]:
            def run(who: str) -> str:
                self.ran[who] += 1
                return f"{name} has run"

            return run

        quick, risky = body("quick"), body("risky")

        @tool(name="quick")
        async def quick_tool(who: str) -> str:
            """Runs."""
            return quick(who)

        @tool(name="risky", requires_approval=True)
        async def risky_tool(who: str) -> str:
            """Needs a person."""
            return risky(who)

        @tool(name="slow")
        async def slow_tool(who: str) -> str:
            """Takes its time, and some for its clean-up."""
            try:
                await asyncio.sleep(0.5)
                return quick(who)
            finally:
                await asyncio.sleep(0.125)

        yield from (quick_tool, risky_tool, slow_tool)


def _inner(node: Node) -> list[Node]:
    return [each for calls in node.rounds for each in calls if isinstance(each, Node)]


def _turns(node: Node, name: str) -> Iterator[list[Any]]:
    number = 0
    for turn, calls in enumerate(node.rounds):
        steps: list[Any] = []
        for place, each in enumerate(calls):
            # ids are unique within an agent only
            if isinstance(each, Node):
                steps.append(ToolUseBlock(f"{turn}{place}", f"call_{name}_{number}", {"message": "go"}))
                number += 1
            else:
                who = {"who": f"{name} {turn} {place}"}
                steps.append(ToolUseBlock(f"{turn}{place}", each, {} if each == "outside" else who))
        yield steps
    yield ["done"]


def _answer(call: ToolUseBlock, reject: bool) -> Any:
    if call.name == "outside":
        return Msg.tool(ToolResultBlock(call.id, call.name, (TextBlock("from outside"),)))
    return Reject(call) if reject else Approve(call)


@pytest.mark.spec("R5", "R27")
@given(trees_of(["quick", "risky", "outside"]), st.data())
def test_every_tree_ends_whole(root: Node, data: st.DataObject):
    """R5, R27, field P7."""
    tree = Tree(root)
    note(repr(root))

    async def main() -> None:
        session = InMemorySession()
        top = tree.build()
        await top.bind(session, "s")
        given: Any = "go"
        for _ in range(200):
            before = list(remembered(top))
            events = await events_of(top, given)
            assert_one_truth(events, before, remembered(top))
            reply = events[-1].message
            pending = await top.pending_calls()
            if not pending:
                assert reply.text == "done"
                break
            assert {call.id for call in reply.pending_calls} == {call.id for call in pending}
            assert len({call.id for call in reply.tool_calls}) == len(reply.tool_calls)
            if data.draw(st.booleans(), "restart"):
                top = tree.build()
                assert await top.bind(session, "s")
                assert await top.pending_calls() == pending
            if data.draw(st.sampled_from([True, True, True, False]), "answer"):
                chosen = data.draw(st.lists(
                    st.sampled_from(pending), min_size=1, max_size=3, unique_by=lambda call: call.id
                ), "which")  # fmt: skip
                rejects = {call.id: data.draw(st.booleans(), "reject") for call in chosen}
                given = [_answer(call, rejects[call.id]) for call in chosen if _answerable(call, top)]
                given = given or None
            else:
                given = None
        else:
            raise AssertionError(f"still waiting for {[call.id for call in await top.pending_calls()]}")
        assert set(tree.ran.values()) <= {1}
        await thaw(top)
        await assert_all_whole(top.conversation(), remembered(top))
        for model in tree.models.values():
            model.assert_complete()
            assert_prompts_are_whole(model)

    run_virtual(main())


def _answerable(call: ToolUseBlock, top: ReActAgent) -> bool:
    """A sub-agent that has not begun waits for its turn alone, as a quick tool does."""
    return call.name in ("risky", "outside")


async def thaw(top: ReActAgent) -> None:
    """Conversations not used since a restart are read when they are asked for."""
    from agentscope_rx.agent.restoring import thaw_child
    from agentscope_rx.agent.sub_agent.child_tool import child_tool

    async def all_of(agent: ReActAgent, conversation: Any) -> None:
        for child in conversation.children.all if conversation.children is not None else ():
            sub = child_tool(agent.toolkit, child.tool)
            assert sub is not None
            await thaw_child(child, sub.agent, sub.options.memory)  # pyright: ignore
            await all_of(sub.agent, child.conversation)  # pyright: ignore

    await all_of(top, top.conversation())
