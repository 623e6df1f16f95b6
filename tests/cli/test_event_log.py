"""Logs that are read in pieces, and files that grow, are cut short or replaced: in virtual time."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentscope_rx.cli.event_log import CutOffError, EventFeed, follow
from agentscope_rx.errors import EventLineError, InvalidInputError
from agentscope_rx.events import Event
from agentscope_rx.messages import Msg
from agentscope_rx.testing import run_virtual
from tests.console.logs import busy_log

SEEN = busy_log()
DATA = "".join(f"{event.to_json()}\n" for event in SEEN).encode()


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, len(DATA)), max_size=6), st.booleans())
def test_pieces_of_any_size_are_the_same_events(cuts: list[int], whole: bool):
    data = DATA if whole else DATA[:-1]
    feed, found, last = EventFeed("log"), list[Event](), 0
    for cut in [*sorted(cuts), len(data)]:
        found += feed.feed(data[last:cut])
        last = max(last, cut)
    assert [*found, *feed.end()] == SEEN


def test_a_line_that_is_cut_off_is_named():
    feed = EventFeed("log")
    assert len(list(feed.feed(DATA[:-20]))) == len(SEEN) - 1
    with pytest.raises(CutOffError, match=f"The last line of log, {len(SEEN)}, is cut off") as caught:
        list(feed.end())
    assert caught.value.line == len(SEEN)


def test_a_wrong_line_is_named_behind_the_events_before_it():
    found = EventFeed("log").feed(b"\n".join([*DATA.split(b"\n")[:2], b"{}", b""]))
    assert [next(found), next(found)] == SEEN[:2]
    with pytest.raises(EventLineError, match=r"^Line 3 of the log of events log"):
        next(found)


async def followed(path: Path, *changes: object, poll: float = 1.0) -> tuple[bytes, list[str], float]:
    """What is read while these changes are made, one every 10 s, and when it ended."""
    data, notes, over = bytearray(), list[str](), asyncio.Event()

    async def change() -> None:
        for each in changes:
            await asyncio.sleep(10)
            each()  # type: ignore[operator]
        await asyncio.sleep(10)
        over.set()

    task = asyncio.create_task(change())
    async for grown in follow(str(path), over.is_set, poll=poll):
        data += grown.data
        notes += [grown.note] if grown.note else []
    await task
    return bytes(data), notes, asyncio.get_running_loop().time()


def appended(path: Path, text: str) -> None:
    with open(path, "a") as file:
        file.write(text)


def test_what_is_appended_is_read(tmp_path: Path):
    path = tmp_path / "log"
    path.write_text("one")
    data, notes, ended = run_virtual(followed(path, lambda: appended(path, " two"), lambda: appended(path, " three")))
    assert (data, notes) == (b"one two three", []) and 30 <= ended <= 32


def test_a_file_that_is_cut_short_is_read_again(tmp_path: Path):
    path = tmp_path / "log"
    path.write_text("one two")
    data, notes, _ = run_virtual(followed(path, lambda: path.write_text("three")))
    assert data == b"one twothree" and notes == [f"{path} was cut short: reading it from the beginning"]


def test_a_file_that_is_replaced_is_read_to_its_end(tmp_path: Path):
    path, old = tmp_path / "log", tmp_path / "log.1"
    path.write_text("one")
    changes = (
        lambda: (path.rename(old), appended(old, " two")),
        lambda: appended(old, " three"),
        lambda: path.write_text("four"),
    )
    data, notes, _ = run_virtual(followed(path, *changes))
    assert data == b"one two threefour" and notes == [f"{path} was replaced: reading the new file"]


def test_a_file_that_is_missing_is_refused(tmp_path: Path):
    with pytest.raises(InvalidInputError, match="There is no file"):
        run_virtual(follow(str(tmp_path / "none"), lambda: False))


@pytest.mark.parametrize("after", [0.0, 0.5, 3.0])
def test_leaving_closes_the_file(tmp_path: Path, after: float):
    path = tmp_path / "log"
    path.write_text("one")

    async def leave() -> None:
        subscription = follow(str(path), lambda: False).subscribe(lambda grown: None)
        await asyncio.sleep(after)
        subscription.dispose()

    # warns of an open file if it is not closed
    run_virtual(leave())


@pytest.mark.parametrize("text", ["Grüße", "日本", "🙂"])
def test_a_log_may_grow_within_a_character(tmp_path: Path, text: str):
    """A look at the file may end in a line and in a character: no event is lost, none comes twice."""
    path, seen = tmp_path / "log", [SEEN[0].replace(input=(Msg.user(text),)), *SEEN[1:3]]
    lines = [event.to_json() for event in seen]
    # (written as it is, not escaped)
    data = "".join(f"{json.dumps(json.loads(line), ensure_ascii=False)}\n" for line in lines).encode()
    at = next(place for place, byte in enumerate(data) if byte >= 0x80) + 1
    cuts = [0, at, at + 1, data.index(b"\n") + 1, len(data) - 5, len(data)]
    path.touch()

    def append(piece: bytes) -> None:
        with open(path, "ab") as file:
            file.write(piece)

    feed, found = EventFeed("log"), list[Event]()
    over = asyncio.Event()

    async def write() -> None:
        for begin, end in pairwise(cuts):
            await asyncio.sleep(10)
            append(data[begin:end])
        await asyncio.sleep(10)
        over.set()

    async def main() -> None:
        task = asyncio.ensure_future(write())
        async for grown in follow(str(path), over.is_set, poll=1.0):
            found.extend(feed.feed(grown.data))
        await task

    run_virtual(main())
    assert [*found, *feed.end()] == seen
