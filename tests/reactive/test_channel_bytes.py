"""A bound in bytes holds by each policy, is never a deadlock, and every byte received is accounted for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reactivex import operators as ops
from reactivex.subject import Subject

from agentscope_rx import TextBlock
from agentscope_rx.errors import ChannelFullError, ConfigurationError
from agentscope_rx.events import ReasoningChunkEvent, coalesce_chunks, event_size
from agentscope_rx.reactive import (
    ChannelStatistics,
    Flow,
    FlowIterator,
    Overflow,
    Overshoot,
    flat_map_iterable,
    flow,
    from_async_iterable,
    just,
)
from agentscope_rx.testing import Delay, ScriptedModel, collect_dropped, run_virtual
from tests.agent.parts import agent
from tests.reactive.recorder import turns


def join(waiting: str, item: str) -> str | None:
    return waiting + item if len(waiting) + len(item) <= 12 and waiting[0] == item[0] else None


def check_accounts(counts: ChannelStatistics) -> None:
    assert counts.received == counts.waiting + counts.delivered + counts.dropped + counts.merged
    assert counts.bytes_received == counts.bytes + counts.bytes_delivered + counts.bytes_dropped + counts.bytes_merged
    assert counts.max_bytes is not None
    assert counts.bytes <= counts.max_bytes + counts.overshoot.bytes
    assert counts.waiting <= counts.capacity + counts.overshoot.items
    if counts.waiting == 0:
        assert counts.bytes == 0


POLICIES = st.sampled_from(Overflow)
TEXTS = st.text("ab", min_size=1, max_size=9)
PAUSES = st.sampled_from([0, 0, 1, 5])


@given(
    policy=POLICIES,
    script=st.lists(st.tuples(PAUSES, st.lists(TEXTS, min_size=1, max_size=3)), max_size=30),
    paces=st.lists(PAUSES, min_size=1, max_size=10),
    capacity=st.integers(1, 6),
    max_bytes=st.integers(1, 20),
    leave_at=st.none() | st.integers(0, 10),
)
def test_every_byte_is_accounted_for(
    policy: Overflow, script: Any, paces: list[int], capacity: int, max_bytes: int, leave_at: int | None
) -> None:
    """Each read of the source expands to up to three items of up to nine bytes."""

    async def main() -> None:
        sent: list[str] = []
        seen: list[str] = []

        async def read() -> AsyncIterator[list[str]]:
            for pause, items in script:
                await asyncio.sleep(pause)
                if policy in (Overflow.WAIT, Overflow.COALESCE):
                    counts = stream.statistics()
                    assert counts.bytes < max_bytes, "read on at the bound"
                    assert counts.waiting <= capacity, "read on at the bound"
                sent.extend(items)
                yield items

        source: Flow[str] = from_async_iterable(read).pipe(flat_map_iterable(lambda items: items))
        coalesce = join if policy is Overflow.COALESCE else None
        stream = source.buffered(capacity, policy, coalesce=coalesce, max_bytes=max_bytes, size_of=len)
        failure: ChannelFullError | None = None
        try:
            async for item in stream:
                seen.append(item)
                check_accounts(stream.statistics())
                if len(seen) == leave_at:
                    break
                await asyncio.sleep(paces[len(seen) % len(paces)])
        except ChannelFullError as error:
            failure = error
        await stream.aclose()
        counts = stream.statistics()
        check_accounts(counts)
        assert (counts.bytes, counts.waiting) == (0, 0)
        assert counts.bytes_delivered == sum(map(len, seen))
        assert counts.bytes_received == sum(map(len, sent[: counts.received]))
        if policy in (Overflow.DROP_OLDEST, Overflow.DROP_NEWEST, Overflow.FAIL):
            # only one item that is larger than the bound may exceed it
            assert counts.overshoot.bytes <= max(0, 9 - max_bytes)
            assert counts.overshoot.items == 0
        else:
            assert counts.overshoot.bytes <= 27 and counts.overshoot.items <= 3
            if leave_at is None:
                assert "".join(seen) == "".join(sent) and not counts.dropped
        if failure is not None:
            assert policy is Overflow.FAIL
            assert (failure.capacity, failure.max_bytes) == (capacity, max_bytes)

    with collect_dropped() as dropped:
        run_virtual(main())
    # a reader that leaves does not see that the buffer was full
    assert all(isinstance(error, ChannelFullError) for error in dropped)


def waiting(stream: FlowIterator[str]) -> tuple[int, int, bool]:
    counts = stream.statistics()
    return counts.waiting, counts.bytes, counts.withheld


async def begun(policy: Overflow, max_bytes: int) -> tuple[Subject[str], FlowIterator[str]]:
    """A subject and a reader that has taken its first item."""
    subject: Subject[str] = Subject()
    coalesce = join if policy is Overflow.COALESCE else None
    stream: FlowIterator[str] = flow(subject).buffered(100, policy, coalesce=coalesce, max_bytes=max_bytes, size_of=len)
    first = asyncio.ensure_future(anext(stream))
    await turns()
    subject.on_next("0")
    await first
    return subject, stream


def test_wait_withholds_at_the_bytes_and_resumes_at_half() -> None:
    async def main() -> None:
        subject, stream = await begun(Overflow.WAIT, 10)
        for expected in ((1, 3, False), (2, 6, False), (3, 9, False), (4, 12, True)):
            subject.on_next("abc")
            assert waiting(stream) == expected
        assert stream.statistics().overshoot == Overshoot(0, 2)
        await anext(stream)
        assert waiting(stream) == (3, 9, True)
        await anext(stream)
        assert waiting(stream) == (2, 6, True), "more than half"
        await anext(stream)
        assert waiting(stream) == (1, 3, False)
        await stream.aclose()

    run_virtual(main())


def test_coalesce_counts_what_merged_items_weigh() -> None:
    async def main() -> None:
        subject, stream = await begun(Overflow.COALESCE, 10)
        for expected in ((1, 4, False), (1, 8, False), (1, 12, True), (2, 13, True)):
            subject.on_next("a" if expected[0] == 2 else "aaaa")
            assert waiting(stream) == expected
        assert stream.statistics().merged == 2
        assert await anext(stream) == "a" * 12
        assert waiting(stream) == (1, 1, False)
        await stream.aclose()

    run_virtual(main())


@pytest.mark.parametrize(
    ("policy", "kept", "dropped"),
    [
        (Overflow.DROP_OLDEST, ["ccccccc"], 8),
        (Overflow.DROP_NEWEST, ["aaaa", "bbbb"], 7),
    ],
)
def test_dropping_makes_room_in_bytes(policy: Overflow, kept: list[str], dropped: int) -> None:
    async def main() -> None:
        subject, stream = await begun(policy, 10)
        for item in ("aaaa", "bbbb", "ccccccc"):
            subject.on_next(item)
        counts = stream.statistics()
        assert (counts.waiting, counts.bytes_dropped, counts.overshoot.bytes) == (len(kept), dropped, 0)
        subject.on_completed()
        assert [item async for item in stream] == kept

    run_virtual(main())


@pytest.mark.parametrize("policy", Overflow)
def test_an_item_larger_than_the_bound_passes_alone(policy: Overflow) -> None:
    async def main() -> None:
        items = from_async_iterable(lambda: slowly("x" * 50, "y", "z" * 50))
        coalesce = join if policy is Overflow.COALESCE else None
        stream = items.buffered(8, policy, coalesce=coalesce, max_bytes=10, size_of=len)
        assert [item async for item in stream] == ["x" * 50, "y", "z" * 50]
        counts = stream.statistics()
        assert (counts.dropped, counts.overshoot.bytes, counts.bytes_delivered) == (0, 40, 101)

    run_virtual(main())


async def slowly(*items: str) -> AsyncIterator[str]:
    for item in items:
        await asyncio.sleep(1)
        yield item


def test_fail_ends_the_run_at_the_byte_bound() -> None:
    async def main() -> None:
        subject, stream = await begun(Overflow.FAIL, 10)
        subject.on_next("aaaa")
        subject.on_next("bbbbbbb")
        check_accounts(stream.statistics())
        assert await anext(stream) == "aaaa"
        with pytest.raises(ChannelFullError, match="100 items or 10 bytes") as caught:
            await anext(stream)
        assert caught.value.max_bytes == 10

    run_virtual(main())


@pytest.mark.parametrize("broken", [lambda item: 1 // 0, lambda item: -1, lambda item: "4", lambda item: None])
@pytest.mark.parametrize("policy", Overflow)
def test_a_broken_size_ends_the_run(policy: Overflow, broken: Any) -> None:
    closed: list[bool] = []

    async def items() -> AsyncIterator[str]:
        try:
            for _ in range(9):
                yield "x"
        finally:
            closed.append(True)

    async def main() -> None:
        coalesce = join if policy is Overflow.COALESCE else None
        stream = from_async_iterable(items).buffered(3, policy, coalesce=coalesce, max_bytes=9, size_of=broken)
        with pytest.raises((ZeroDivisionError, ConfigurationError)):
            await anext(stream)
        await turns()
        assert closed == [True]

    run_virtual(main())


@pytest.mark.parametrize(
    "options",
    [
        {"max_bytes": 0, "size_of": len},
        {"max_bytes": 1.5, "size_of": len},
        {"max_bytes": True, "size_of": len},
        {"max_bytes": 10},
        {"size_of": len},
    ],
)
def test_bounds_that_make_no_sense_are_refused(options: Any) -> None:
    with pytest.raises(ConfigurationError):
        just("x").buffered(**options)


def test_statistics_before_the_first_pull() -> None:
    stream = just("x").buffered(4, max_bytes=10, size_of=len)
    assert stream.statistics() == ChannelStatistics(0, 4, 0, 0, 0, 0, False, max_bytes=10)


# --- the events of an agent -----------------------------------------------------------------------------------------


def chunk_bytes(text: str) -> int:
    return event_size(ReasoningChunkEvent(message_id="m" * 22, delta=TextBlock(text)))


@pytest.mark.parametrize("merging", [False, True])
def test_events_have_a_size_of_their_own(merging: bool) -> None:
    async def main() -> None:
        read: list[int] = []

        class Counted(ScriptedModel):
            def do_stream(self, messages: Any, tools: Any, options: Any) -> Any:
                def note(response: Any) -> Any:
                    read.append(1)
                    return response

                return super().do_stream(messages, tools, options).pipe(ops.map(note))

        friday = agent(Counted([step for _ in range(200) for step in (Delay(0.01), "x" * 1000)]))
        stream = friday.stream("hi").buffered(
            10_000, coalesce=coalesce_chunks if merging else None, max_bytes=20 * chunk_bytes("x" * 1000)
        )
        await anext(stream)
        await asyncio.sleep(100)
        counts = stream.statistics()
        assert counts.withheld and counts.overshoot.bytes <= chunk_bytes("x" * 1000)
        assert 18 <= len(read) <= (40 if merging else 22)
        text = "".join([event.text async for event in stream if isinstance(event, ReasoningChunkEvent)])
        assert text == "x" * 200_000
        check_accounts(stream.statistics())

    run_virtual(main())


def test_pulling_no_more_pauses_a_run_and_pulling_resumes_it() -> None:
    async def main() -> None:
        friday = agent(ScriptedModel([step for n in range(100) for step in (Delay(1), f"{n} ")]))
        time = asyncio.get_running_loop().time
        async with friday.stream("hi").buffered(1) as events:
            said = 0
            while said < 10:
                said += isinstance(await anext(events), ReasoningChunkEvent)
            await asyncio.sleep(200)
            assert events.statistics().withheld
            # a moment after it is resumed, not all at once: nothing went on meanwhile
            before = time()
            while said < 20:
                said += isinstance(await anext(events), ReasoningChunkEvent)
            assert 7 <= time() - before <= 10
        assert not friday.running

    run_virtual(main())
