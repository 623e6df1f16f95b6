"""Random clients that come, read at their pace, leave and come back; the run ends, is stopped or interrupted meanwhile.

The law: what a client reads has no gap and nothing twice, the same number is the same event for everybody, and what is
left in the end is nothing.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from hypothesis import given, note
from hypothesis import strategies as st

from agentscope_rx import ReActAgent
from agentscope_rx.agent.handle.event_log import LoggedEvent
from agentscope_rx.errors import AgentScopeError
from agentscope_rx.service import EventsGoneError, LiveRun, Runs, RunStoppedError, ServiceStoppingError
from agentscope_rx.testing import HANG, Delay, ScriptedModel, call, collect_dropped, run_virtual
from tests.agent.parts import agent, assert_whole


@dataclass(frozen=True)
class Visit:
    """After a while: read so many events, with a pause behind each, and leave; times are eighths of a second."""

    after: int = 0
    events: int = 100
    pause: int = 0


VISITS = st.lists(
    st.builds(Visit, st.integers(0, 12), st.sampled_from([0, 1, 2, 5, 100]), st.sampled_from([0, 0, 1, 4])),
    min_size=1,
    max_size=4,
)
CLIENTS = st.lists(VISITS, min_size=1, max_size=4)
CAPACITY = st.sampled_from([None, 1, 2, 4, 8])
WAYS = st.sampled_from(["", "", "", "stop", "interrupt", "close"])


def talker(*, hangs: bool, fails: bool) -> ReActAgent:
    """Speaks in many pieces, with a tool between."""
    piece = [Delay(0.25), "and "]
    end: list[Any] = [HANG] if hangs else [AgentScopeError("down")] if fails else []
    return agent(ScriptedModel(["Well ", *piece * 3, call("count", upto=3)], ["So ", *piece * 4, "on", *end], "Fine."))


class Client:
    """A client that reads, leaves and comes back with the number of its last event."""

    def __init__(self, run: LiveRun, said: dict[int, LoggedEvent]) -> None:
        self.run, self.said = run, said
        self.last: int | None = None

    async def come(self, visits: list[Visit]) -> None:
        for visit in visits:
            await asyncio.sleep(visit.after / 8)
            try:
                reader = self.run.follow(self.last)
            except EventsGoneError as gone:
                # as a client does that is told so: it takes up what there is
                self.last = self._taken_up(gone)
                continue
            try:
                await self._read(reader, visit)
            finally:
                await self.run.leave(reader)

    def _taken_up(self, gone: EventsGoneError) -> int:
        assert gone.first is not None and (self.last is None or gone.first > self.last + 1)
        return gone.first - 1

    async def _read(self, reader: Any, visit: Visit) -> None:
        last: LoggedEvent | None = None
        for _ in range(visit.events):
            try:
                logged = await anext(reader)
            except StopAsyncIteration:
                assert last is None or last.event.type in ("post_call", "error"), "the end of a run that says no end"
                return
            except RunStoppedError:
                return
            assert self.last is None or logged.seq == self.last + 1, f"{logged.seq} after {self.last}"
            assert self.said.setdefault(logged.seq, logged) == logged
            self.last, last = logged.seq, logged
            await asyncio.sleep(visit.pause / 8)


@given(CLIENTS, st.booleans(), CAPACITY, WAYS, st.integers(0, 40), st.booleans(), st.booleans())
def test_clients_that_come_and_go_at_random(
    clients: list[list[Visit]], stays: bool, capacity: int | None, way: str, at: int, hangs: bool, fails: bool
):
    note(f"{clients}")

    async def main() -> None:
        friday = talker(hangs=hangs, fails=fails)
        runs = Runs(keep_seconds=5)
        run = runs.add(
            friday.stream("hi"), on_disconnect="continue" if stays else "stop", capacity=capacity, agent=friday
        )
        said: dict[int, LoggedEvent] = {}
        first = asyncio.gather(*(come(Client(run, said), visits) for visits in clients))
        await asyncio.wait([first], timeout=at / 8 + 0.01)
        if way == "stop":
            await run.stop()
            assert not friday.running
        elif way == "interrupt":
            run.interrupt()
        elif way == "close":
            await runs.aclose()
            assert not friday.running
        elif hangs:
            await asyncio.wait([first], timeout=20)
            await run.stop()
        await asyncio.wait_for(first, 1000)
        if not stays and run.id is not None:
            assert run.gone.fired and not friday.running
        await runs.aclose()
        assert runs.statistics() == (0, 0, 0) and not friday.running
        assert sorted(said) == list(range(min(said, default=0), max(said, default=-1) + 1)) or capacity is not None
        assert_whole(friday)
        friday.model = ScriptedModel("Fine.")
        assert (await friday.call("And now?")).text == "Fine."

    async def come(client: Client, visits: list[Visit]) -> None:
        try:
            await client.come(visits)
        except ServiceStoppingError:
            # the run had not begun when the service was closed
            assert way == "close" and client.last is None

    with collect_dropped() as dropped:
        run_virtual(main())
    assert [str(error) for error in dropped] in ([], ["down"])
    assert all("had no reader" in where for where in dropped.where)
