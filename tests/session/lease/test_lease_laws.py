"""Whatever holders do, and whenever they stall, die and wake: no save of an older token follows one of a newer."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agentscope_rx.agent.saved_copy import Entries, SavedCopy
from agentscope_rx.agent.saved_items import SavedItems
from agentscope_rx.errors import ConversationLeasedError, LeaseLostError, SessionConflictError
from agentscope_rx.session import InMemorySession, LeasePolicy, SessionLease, Unchanging
from agentscope_rx.testing import run_virtual
from tests.session.lease.machines import FakeMachine

HOLDERS = 3


class Holder:
    """A process that continues the conversation: it reads it when it has the lease, and appends."""

    def __init__(self, session: InMemorySession, machine: FakeMachine) -> None:
        self.session, self.machine = session, machine
        self.copy = SavedCopy(session, "k", ("memory", "state"))
        self.lease = SessionLease(session, "k", LeasePolicy(machine=machine, ttl=30))
        self.copy.lease_by(self.lease)
        self.seen: list[Any] = []
        self.items = SavedItems()
        self.token = 0

    async def acquire(self) -> bool:
        try:
            self.token = await self.lease.acquire()
        except ConversationLeasedError:
            return False
        if not self.copy.is_current:
            saved = await self.session.load_all("k")
            self.copy.read(Entries.of(saved), saved.version, ["memory", "state"])
            self.seen = list(saved.lists.get("memory", []))
            self.items = self.copy.known.lists.get("memory", SavedItems())
        return True

    async def save(self, *, last: bool) -> bool:
        """Append a turn; False if another has taken over."""
        if last:
            self.lease.close_with_next_save()
        turns = [*self.seen, self.token]
        try:
            items = SavedItems([*self.items, Unchanging(self.token)])
            await self.copy.write(Entries({"state": {"n": self.token}}, {"memory": items}), None, overwrite=False)
            self.items = items
        except (LeaseLostError, SessionConflictError):
            self.lease.leave()
            return False
        self.seen = turns
        return True

    @property
    def beating(self) -> bool:
        return self.lease.held

    def stall(self) -> None:
        held = self.lease._held
        if held is not None and held.heartbeat is not None:
            held.heartbeat.stop()

    def wake(self) -> None:
        held = self.lease._held
        if held is not None and held.heartbeat is not None and held.heartbeat.disposed:
            held.heartbeat.disposed = False
            held.heartbeat.begin(0.0)


KINDS = ["acquire", "acquire", "save", "save", "last", "stall", "wake", "wait", "long", "jump", "title"]
steps = st.lists(
    st.tuples(
        st.sampled_from(
            ["acquire", "acquire", "save", "save", "last", "stall", "wake", "wait", "long", "jump", "title"]
        ),
        st.integers(0, HOLDERS - 1),
    ),
    max_size=40,
)


@given(steps, st.booleans())
@settings(max_examples=150)
def test_tokens_of_saves_never_go_back(done: list[tuple[str, int]], one_machine: bool):
    async def main() -> None:
        session = InMemorySession()
        hosts = ["one", "one", "one"] if one_machine else ["one", "two", "two"]
        machines = [FakeMachine(number, hosts[number]) for number in range(HOLDERS)]
        holders = [Holder(session, machine) for machine in machines]
        stalled: set[int] = set()
        saved: list[int] = []
        for step, who in done:
            one = holders[who]
            if step == "acquire" and not one.lease.held:
                newest = max((each.token for each in holders), default=0)
                if await one.acquire():
                    stalled.discard(who)
                    assert one.token > newest, "a token grows with every acquisition"
                    # no two that give signs of life, unless a clock was wrong
                    others = [each for n, each in enumerate(holders) if n not in stalled and each.lease.held]
                    assert one_machine is False or others == [one]
            elif step in ("save", "last") and one.lease.held and await one.save(last=step == "last"):
                saved.append(one.token)
            elif step == "stall":
                stalled.add(who)
                one.stall()
            elif step == "wake":
                stalled.discard(who)
                one.wake()
                await asyncio.sleep(0.01)
            elif step in ("wait", "long"):
                await asyncio.sleep(5 if step == "wait" else 31)
            elif step == "jump":
                machines[who].ahead += 1e6 if machines[who].ahead < 1 else -2e6
            elif step == "title":
                await session.save("k", "title", len(saved))
            assert await session.load_list("k", "memory") == saved, "a save that succeeded was lost or torn"
        assert saved == sorted(saved)
        for one in holders:
            one.wake()
            await one.lease.release()
        assert await holders[0].acquire()
        assert holders[0].seen == saved
        await holders[0].lease.release()

    run_virtual(main())
