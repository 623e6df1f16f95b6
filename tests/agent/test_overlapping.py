"""Calls that overlap in one conversation (`check_running=False`): each run settles its own calls, and what one leaves
pending can be answered whatever the others have said since."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from reactivex import operators as ops

from agentscope_rx import (
    Approve,
    GenerateReason,
    InMemoryMemory,
    InMemorySession,
    Msg,
    ReActAgent,
    Reject,
    Toolkit,
    fold,
    tool,
)
from agentscope_rx.agent import Conversation
from agentscope_rx.errors import EmptyResponseError, InvalidInputError, PendingCallsError
from agentscope_rx.events import Event
from agentscope_rx.messages import ToolUseBlock
from agentscope_rx.models.openai.formatter import format_messages
from agentscope_rx.reactive import concat_map, just, then, timer
from agentscope_rx.testing import Delay, ScriptedModel, run_virtual
from tests.agent.parts import remembered
from tests.support.assertions import results_in
from tests.support.scripts.parts import Remote

ran = Counter[str]()


@pytest.fixture(autouse=True)
def nothing_ran():
    ran.clear()


@tool
async def quick(of: str) -> str:
    for _ in range(20):
        # (others get their turn)
        await asyncio.sleep(0)
    ran[of] += 1
    return f"{of} is done"


@tool
async def slow(of: str) -> str:
    await asyncio.sleep(1)
    ran[of] += 1
    return f"{of} is done"


@tool(requires_approval=True)
async def risky(of: str) -> str:
    await asyncio.sleep(0.5)
    ran[of] += 1
    return f"{of} is done"


def friday(*turns: Any, parallel: bool = True, same_ids: bool = False, **options: Any) -> ReActAgent:
    """One whose calls may overlap; the words of a turn are names of tools, or what is said."""
    model = ScriptedModel(*(_played(number, turn, same_ids) for number, turn in enumerate(turns)), *["The end."] * 30)
    return ReActAgent(
        "Friday", model, toolkit=Toolkit([quick, slow, risky], parallel=parallel), check_running=False, **options
    )


def _played(number: int, turn: tuple[str, ...], same_ids: bool) -> list[Any]:
    steps: list[Any] = []
    for letter, what in zip("abcdef", turn, strict=False):
        id = letter if same_ids else f"{number}{letter}"
        use = ToolUseBlock(id, what, {"of": f"{number}{letter}"})
        steps.append(Delay(0.5) if what == "wait" else use if what in TOOLS else f"{what} ")
    return steps


TOOLS = ("quick", "slow", "risky")


async def after(seconds: float, agent: ReActAgent, given: Any, seen: list[Event]) -> Msg:
    await asyncio.sleep(seconds)
    return await agent.stream(given).pipe(ops.do_action(seen.append), ops.last(), ops.map(lambda last: last.message))


def assert_settled(agent: ReActAgent, pending: frozenset[str], *, whole_run: bool = True) -> None:
    """Each call has one result behind it, but for those that are pending; and a provider takes it."""
    called: list[str] = []
    of: dict[str, str] = {}
    for message in remembered(agent):
        assert {result.id for result in message.tool_results} <= set(called)
        called += [call.id for call in message.tool_calls]
        of.update((call.id, str(call.input["of"])) for call in message.tool_calls)
    results = results_in(remembered(agent))
    assert len(called) == len(set(called))
    assert set(called) - set(results) == pending, f"calls {called}, results {list(results)}, pending {set(pending)}"
    for id, (kind, _) in results.items() if whole_run else ():
        assert ran[of[id]] == (1 if kind is None else 0) or (kind in ("interrupted", "failed") and ran[of[id]] <= 1)
    wire = format_messages(remembered(agent))
    for place, each in enumerate(wire):
        expected = [call["id"] for call in each.get("tool_calls", ())]
        following = wire[place + 1 : place + 1 + len(expected)]
        assert sorted(str(result.get("tool_call_id")) for result in following) == sorted(expected)


def test_a_call_can_be_approved_after_another_runs_reply():
    """Only the agent's last message was looked at: the approval was refused, and the call open for good."""

    async def main() -> None:
        agent = friday(("risky",), ("wait", "wait", "Hello."))
        first, second = (asyncio.create_task(after(0, agent, "go", [])) for _ in range(2))
        assert (await first).generate_reason is GenerateReason.APPROVAL_REQUIRED
        assert (await second).text == "Hello. "
        (call,) = await agent.pending_calls()
        assert (await agent.call(Approve(call))).text == "The end."
        assert ran[call.id] == 1
        assert_settled(agent, frozenset())

    run_virtual(main())


@dataclass(frozen=True)
class Begun:
    """One of the calls: when it begins (in quarter seconds), and when and how it is ended."""

    at: int
    given: str = "text"
    way: str = ""
    end: int = 0


WORDS = st.sampled_from(["quick", "slow", "slow", "risky", "wait", "well"])
TURNS = st.lists(st.lists(WORDS, min_size=1, max_size=3).map(tuple), max_size=8)
WAYS = st.sampled_from(["", "", "", "cancel", "interrupt"])
GIVEN = st.sampled_from(["text", "text", "nothing", "approve", "reject"])
CALLS = st.lists(st.builds(Begun, st.integers(0, 16), GIVEN, WAYS, st.integers(0, 12)), min_size=2, max_size=5)


OPTIONS = st.fixed_dictionaries(
    {
        "parallel": st.booleans(),
        "same_ids": st.booleans(),
        "pending": st.sampled_from(["recover", "error"]),
        "memory": st.sampled_from([InMemoryMemory, Remote]),
    }
)


@given(TURNS, CALLS, OPTIONS)
def test_whatever_overlaps(turns: list[tuple[str, ...]], calls: list[Begun], options: dict[str, Any]):
    ran.clear()

    async def play(agent: ReActAgent, begun: Begun, seen: list[Event]) -> None:
        await asyncio.sleep(begun.at * 0.25 + 0.01)
        waiting = await agent.pending_calls()
        given: Any = "go"
        if begun.given in ("approve", "reject") and waiting:
            given = [(Approve if begun.given == "approve" else Reject)(call) for call in waiting]
        elif begun.given == "nothing":
            given = None
        before = {run.id for run in agent.runs}
        task = asyncio.create_task(after(0, agent, given, seen))
        if begun.way:
            await asyncio.wait([task], timeout=begun.end * 0.25 + 0.013)
            if begun.way == "cancel":
                task.cancel()
            elif not task.done():
                own = {event.run_id for event in seen} - before
                for run_id in own:
                    agent.interrupt(run_id=run_id)
        await asyncio.wait([task])
        if not task.cancelled() and (error := task.exception()) is not None:
            # (what was pending when it was asked for may have been answered since)
            assert isinstance(error, (EmptyResponseError, PendingCallsError, InvalidInputError)), repr(error)

        if task.cancelled():
            return
        # another process that begins at this moment
        other = friday("Fine.")
        if await other.load(session, "s"):
            await other.call("And now?")
            assert_settled(other, frozenset(), whole_run=False)

    session = InMemorySession()

    async def main() -> None:
        agent = friday(*turns, **{**options, "memory": options["memory"]()})
        await agent.bind(session, "s")
        heard: list[list[Event]] = [[] for _ in calls]
        await asyncio.gather(*(play(agent, begun, seen) for begun, seen in zip(calls, heard, strict=True)))
        await agent.idle()
        left = frozenset(call.id for call in await agent.pending_calls())
        assert (agent.conversation().pending or frozenset()) == left
        assert_settled(agent, left)
        order = {message.id: place for place, message in enumerate(remembered(agent))}
        for seen in heard:
            if seen and seen[-1].type in ("post_call", "error"):
                places = [order[message.id] for message in fold(seen).history]
                assert places == sorted(places)
        agent.model = ScriptedModel("Fine.")
        if left:
            await agent.call([Reject(call) for call in await agent.pending_calls()])
        else:
            await agent.call("And now?")
        assert_settled(agent, frozenset())

    note(f"{turns} {calls} {options}")
    run_virtual(main())


class Restless(ScriptedModel):
    """Words or calls, at random; ids are never given twice."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.random, self.ids = Random(seed), count()

    def do_stream(self, messages, tools, options):
        turn = self.random.choice([("well",), ("quick", "risky"), ("risky",)])
        steps = [ToolUseBlock(id := f"c{next(self.ids)}", w, {"of": id}) if w in TOOLS else w for w in turn]
        return ScriptedModel(steps).do_stream(messages, tools, options)


class Watched:
    """A lock that knows what is pending when it is let go: nothing may change before it is taken again."""

    def __init__(self, conversation: Conversation) -> None:
        self.conversation, self.lock, self.seen = conversation, conversation.lock, conversation.pending
        self.taken = 0

    def __enter__(self) -> None:
        self.lock.__enter__()
        self.taken += 1
        assert self.conversation.pending == self.seen

    def __exit__(self, *error: Any) -> None:
        self.seen = self.conversation.pending
        self.lock.__exit__(*error)


def test_what_is_pending_changes_under_a_lock_alone():
    agent = friday(("risky",), ("risky",))
    conversation = agent.conversation()
    watched = conversation.lock = Watched(conversation)  # pyright: ignore
    agent.call("go").run()
    agent.call("go on").run()
    agent.call([Approve(call) for call in agent.pending_calls().run()]).run()
    assert watched.taken >= 6 and conversation.pending == watched.seen == frozenset()


class Late(InMemoryMemory):
    """What is read for the n-th time comes a second later, as it was when it was asked for."""

    def __init__(self, reads: int) -> None:
        super().__init__()
        self.reads = reads

    def get(self):
        self.reads -= 1
        return (
            super().get().pipe(concat_map(lambda read: timer(1.0).pipe(then(lambda: just(read)))))
            if (self.reads == 0)
            else super().get()
        )


def test_a_call_closed_by_another_run_since_the_read_is_kept():
    async def main() -> None:
        # the second run's last look at the history, while the first one's tool runs
        agent = friday(("slow",), memory=Late(5))
        first = asyncio.create_task(after(0, agent, "go", []))
        second = asyncio.create_task(after(0.5, agent, "me, too", []))
        assert (await first).text == (await second).text == "The end."
        assert_settled(agent, frozenset())

    run_virtual(main())


def test_a_call_another_run_left_pending_since_the_read_is_kept():
    async def main() -> None:
        agent = friday(("wait", "wait", "risky"), memory=Late(5))
        first = asyncio.create_task(after(0, agent, "go", []))
        second = asyncio.create_task(after(0.5, agent, "me, too", []))
        assert (await first).generate_reason is GenerateReason.APPROVAL_REQUIRED
        assert (await second).text == "The end."
        (call,) = await agent.pending_calls()
        await agent.call(Approve(call))
        assert ran[call.id] == 1
        assert_settled(agent, frozenset())

    run_virtual(main())


@pytest.mark.parametrize("seed", range(5))
def test_on_several_threads_no_call_is_lost_or_run_twice(seed: int):
    """A run's end forgot what another thread's run had just left, and two runs could take up the same call."""
    agent = ReActAgent("Friday", Restless(seed), tools=[quick, risky], max_iters=3, check_running=False)

    def calls(number: int) -> None:
        chosen = Random(100 * seed + number)
        for _ in range(6):
            given = chosen.choice(["text", "answers", "nothing"])
            waiting = agent.pending_calls().run() if given == "answers" else ()
            # (another run may have answered it, or the model say nothing at its last chance)
            with suppress(InvalidInputError, EmptyResponseError):
                agent.call([Approve(call) for call in waiting] or (None if given == "nothing" else "go")).run()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(4) as pool:
            for done in [pool.submit(calls, number) for number in range(4)]:
                done.result(60)
    finally:
        sys.setswitchinterval(interval)
    left = frozenset(call.id for call in agent.pending_calls().run())
    assert (agent.conversation().pending or frozenset()) == left
    assert_settled(agent, left)
    agent.model = ScriptedModel("Fine.")
    agent.call("And now?").run()
    assert_settled(agent, frozenset())
