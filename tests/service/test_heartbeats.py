"""Heartbeats come by the loop's clock, between events, and ask nothing of the run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from agentscope_rx.agent.handle.event_log import LoggedEvent
from agentscope_rx.errors import DeadlineError
from agentscope_rx.events import Event
from agentscope_rx.reactive import concat, concat_map, from_async_iterable, just, throw, timer
from agentscope_rx.reactive.replay_log import ReplayLog
from agentscope_rx.service.protocols.sse_format import HEARTBEAT, body, frame
from agentscope_rx.testing import run_virtual


class Source:
    """Events at given moments; counts how many were read."""

    def __init__(self, *moments: float) -> None:
        self.moments = moments
        self.read = 0

    async def events(self):
        now = 0.0
        for moment in self.moments:
            await asyncio.sleep(moment - now)
            now = moment
            self.read += 1
            yield logged(moment)


def logged(moment: float) -> LoggedEvent:
    return LoggedEvent.of(Event(seq=round(moment * 10)))


def sent(moment: float) -> bytes:
    return frame(logged(moment))


async def written(source, *, capacity: int = 64, pauses: Sequence[float] = (), **options) -> list[tuple[float, bytes]]:
    """What is written and when, by a client that takes so long over each chunk."""
    log: ReplayLog[LoggedEvent] = ReplayLog(capacity)
    reader = log.read()
    log.open(source)
    seen: list[tuple[float, bytes]] = []
    waits = iter(pauses)
    async for chunk in body(reader, **options):
        seen.append((asyncio.get_running_loop().time(), chunk))
        await asyncio.sleep(next(waits, 0))
    await log.idle()
    return seen


def test_beats_come_every_so_often_in_silence_and_in_talk():
    source = Source(4, 14, 24, 59)
    seen = run_virtual(written(from_async_iterable(source.events), heartbeat=15))
    assert seen == [
        (4, sent(4)),
        (14, sent(14)),
        (15, HEARTBEAT),
        (24, sent(24)),
        (30, HEARTBEAT),
        (45, HEARTBEAT),
        (59, sent(59)),
    ]


def test_a_talkative_run_does_not_keep_the_beats_away():
    source = Source(*range(1, 10))
    seen = run_virtual(written(from_async_iterable(source.events), heartbeat=2.5))
    assert [moment for moment, chunk in seen if chunk == HEARTBEAT] == [2.5, 5, 7.5]


def test_without_a_heartbeat_there_is_none():
    source = Source(1000)
    seen = run_virtual(written(from_async_iterable(source.events), retry=3))
    assert seen == [(1000, b"retry: 3000\n" + sent(1000))]


def test_a_late_reader_gets_one_beat_and_whole_events():
    source = Source(1, 2, 3)
    seen = run_virtual(written(from_async_iterable(source.events), heartbeat=10, pauses=[100, 0, 0]))
    assert seen == [(1, sent(1)), (101, HEARTBEAT), (101, sent(2)), (101, sent(3))]


def test_beats_are_no_demand():
    async def main():
        source = Source(*(i / 10 for i in range(1, 100)))
        log: ReplayLog[LoggedEvent] = ReplayLog(2)
        reader = log.read()
        log.open(from_async_iterable(source.events))
        chunks = body(reader, heartbeat=1)
        assert await anext(chunks) == sent(0.1)
        await asyncio.sleep(50)
        # two wait in the log; the run's third was never asked for
        assert source.read == 3
        assert await anext(chunks) == HEARTBEAT
        await asyncio.sleep(50)
        assert source.read == 3
        assert await anext(chunks) == sent(0.2)
        await asyncio.sleep(50)
        assert source.read == 4 and log.statistics().withheld
        assert await anext(chunks) == HEARTBEAT
        assert source.read == 4
        await chunks.aclose()
        log.dispose()
        await log.idle()

    run_virtual(main())


@pytest.mark.parametrize("error", [DeadlineError("total", 3.0), ValueError("x")])
def test_a_failure_of_the_log_is_the_last_event(error):
    source = concat(just(logged(0)), timer(7).pipe(concat_map(lambda _: throw(error))))
    seen = run_virtual(written(source, heartbeat=5))
    assert [moment for moment, _ in seen] == [0, 5, 7]
    assert seen[-1][1].startswith(b"event: error\ndata: {") and type(error).__name__.encode() in seen[-1][1]


def test_it_stops_at_once_when_it_is_left():
    async def main():
        source = Source(1, 1000)
        log: ReplayLog[LoggedEvent] = ReplayLog(2)
        reader = log.read()
        log.open(from_async_iterable(source.events))
        chunks = body(reader, heartbeat=1)
        waiting = asyncio.ensure_future(anext(chunks))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        log.dispose()
        await log.idle()

    run_virtual(main())
