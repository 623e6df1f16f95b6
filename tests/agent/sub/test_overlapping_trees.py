"""Trees of agents whose top is called by several at once: sub-agents' conversations belong to calls, not to runs."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, note
from hypothesis import strategies as st

from agentscope_rx import InMemoryMemory, ReActAgent
from agentscope_rx.errors import EmptyResponseError, InvalidInputError
from agentscope_rx.events import Event
from agentscope_rx.testing import run_virtual
from tests.agent.parts import remembered
from tests.agent.sub.test_cut_trees import SLOW, given_to, whole
from tests.agent.sub.test_trees import Node, Tree, thaw, trees_of
from tests.support.scripts.parts import Remote

EIGHTHS = st.integers(0, 24)
THEN = st.sampled_from(["answers", "nothing", "text", "text"])
CALLS = st.lists(
    st.tuples(EIGHTHS, THEN, st.sampled_from(["", "", "cancel", "interrupt"]), EIGHTHS), min_size=2, max_size=5
)


@given(trees_of(SLOW), CALLS, st.sampled_from([InMemoryMemory, Remote]))
def test_every_tree_that_is_called_by_several_is_whole(root: Node, calls: list[tuple[Any, ...]], memory: Any):
    tree = Tree(root, memory=memory, pace=0.25)
    top = tree.build(check_running=False)
    note(f"{root} {calls}")

    async def main() -> None:
        await asyncio.gather(*(called(top, *each) for each in calls))
        await top.idle()
        await whole(top.conversation(), list(remembered(top)), torn=False)
        assert set(tree.ran.values()) <= {1}
        for model in tree.models.values():
            model.turns = (("done",),) * 200
        await top.call("And now?")
        await thaw(top)
        await whole(top.conversation(), list(remembered(top)), torn=False)
        assert not top.conversation().pending

    run_virtual(main())


async def called(top: ReActAgent, at: int, then: str, way: str, end: int) -> None:
    """One of the calls, begun and ended at its time."""
    await asyncio.sleep(at / 8 + 0.003)
    given = await given_to(top, then)
    seen: list[Event] = []

    async def hear() -> None:
        async for event in top.stream(given):
            seen.append(event)

    task = asyncio.create_task(hear())
    if way:
        await asyncio.wait([task], timeout=end / 8 + 0.013)
        if way == "cancel":
            task.cancel()
        elif seen:
            top.interrupt(run_id=seen[0].run_id)
    await asyncio.wait_for(asyncio.wait([task]), 1000)
    if not task.cancelled() and (error := task.exception()) is not None:
        # (what was pending when it was asked for may have been answered since)
        assert isinstance(error, (EmptyResponseError, InvalidInputError)), repr(error)
