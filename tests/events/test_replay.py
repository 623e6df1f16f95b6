"""`replay`: the events of a log, as recorded, read with demand, at once or at their pace."""

from __future__ import annotations

import asyncio
import gzip
import io
import os
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from reactivex import operators as ops

from agentscope_rx.errors import ConfigurationError, EventLineError, EventLogError
from agentscope_rx.events import Event, EventStream, PostCallEvent, PreCallEvent, fold, record, replay
from agentscope_rx.events._log_file import BATCH, read_log
from agentscope_rx.events.base import encode_event
from agentscope_rx.messages import FileBlock, FileSource, Msg
from agentscope_rx.reactive import from_iterable, just
from agentscope_rx.testing import HANG, ScriptedModel, run_virtual, verify
from tests.agent.parts import agent
from tests.events.runs import Scenario, friday_of, run_of, scenarios, stream_of

VERSION_0 = Path(__file__).parent / "logs" / "version_0.jsonl"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.jsonl"


def replayed(path: Path, **options) -> list[Event]:
    return run_virtual(replay(path, **options).pipe(ops.to_list()))


def at(seconds: float, number: int = 0) -> Event:
    return PostCallEvent(seq=number, timestamp=1_000_000_000 + seconds, message=Msg.assistant("x" * 100))


def write(path: Path, *events: Event) -> None:
    run_virtual(record(from_iterable(events), path))


@settings(max_examples=40, deadline=None)
@given(scenarios)
def test_what_was_recorded_is_replayed(scenario: Scenario):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run.jsonl")
        friday, seen = friday_of(scenario), list[Event]()
        run_virtual(run_of(friday, scenario, record(stream_of(friday, scenario), path), seen.append))
        assert replayed(path) == seen == list(read_log(path)), "a log of a failed run completes, too"
        assert fold(replayed(path)).history == fold(seen).history
        # and recorded again it is the same file
        run_virtual(record(replay(path), Path(folder, "again.jsonl")))
        assert Path(folder, "again.jsonl").read_bytes() == path.read_bytes()


def test_a_log_of_version_0_is_replayed(path: Path):
    events = replayed(VERSION_0)
    assert len(events) == 24 and fold(events).run_id == "run1"
    assert {event.depth for event in events} == {0, 1}


def test_a_replay_is_a_stream_of_events(path: Path):
    run_virtual(record(agent(ScriptedModel(["It is ", "sunny."])).stream("hi"), path))
    assert isinstance(replay(path), EventStream)
    assert run_virtual(replay(path).text().pipe(ops.to_list())) == ["It is ", "sunny."]


def test_files_of_bytes_and_text_are_read_where_they_stand(path: Path):
    write(path, at(0), at(1, 1))
    for file in (io.BytesIO(path.read_bytes()), io.StringIO(path.read_text())):
        file.readline()
        assert [event.seq for event in run_virtual(replay(file).pipe(ops.to_list()))] == [1]
        assert not file.closed


def test_an_empty_log_has_no_events(path: Path):
    path.touch()
    assert replayed(path) == []


def test_local_files_stay_locked_unless_a_folder_is_given(path: Path, tmp_path: Path):
    (tmp_path / "a.pdf").touch()
    write(path, PostCallEvent(message=Msg.user(FileBlock(FileSource(tmp_path / "a.pdf")))))
    for root, locked in ((None, True), (tmp_path, False)):
        (event,) = replayed(path, file_root=root)
        assert event.message.content[0].source.locked is locked


# --- the pace -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("pace", "times"), [(None, [0, 0, 0, 0, 0]), (1.0, [0, 0, 2, 2, 10]), (2, [0, 0, 1, 1, 5])])
def test_the_pace_is_as_recorded_or_a_multiple(path: Path, pace: float | None, times: list[float]):
    # the third event is late, the fourth has an earlier time: clocks may be set back
    write(path, at(0), at(0, 1), at(2, 2), at(1.5, 3), at(10, 4))
    script = verify(replay(path, pace=pace)).expect_count(5).expect_completed().run()
    assert [signal.at for signal in script.signals[:5]] == pytest.approx(times)


def test_a_run_in_real_time_is_replayed_at_its_pace(path: Path):
    run_virtual(record(agent(ScriptedModel(["a", "b"])).stream("hi"), path))
    took = replayed(path)[-1].timestamp - replayed(path)[0].timestamp
    record_of = verify(replay(path, pace=0.001)).expect_count(len(replayed(path))).expect_completed().run()
    assert record_of.signals[-1].at == pytest.approx(took * 1000, abs=0.001)


@pytest.mark.parametrize("pace", [0, -1, float("nan"), float("inf"), "fast"])
def test_a_pace_is_a_positive_number(path: Path, pace):
    with pytest.raises(ConfigurationError, match="pace must be a number greater than 0"):
        replay(path, pace=pace)


def test_a_wait_is_left_by_disposal(path: Path):
    write(path, at(0), at(3600, 1))
    before = len(os.listdir("/proc/self/fd"))
    verify(replay(path, pace=1)).expect_count(1).expect_no_event(for_=60).then_dispose().run()
    assert len(os.listdir("/proc/self/fd")) == before


# --- broken logs --------------------------------------------------------------------------------------------------


def broken(path: Path) -> tuple[list[int], EventLineError]:
    """The numbers of the events before the fault, and the fault."""
    seen: list[int] = []
    with pytest.raises(EventLineError) as caught:
        run_virtual(replay(path).pipe(ops.do_action(lambda event: seen.append(event.seq))))
    assert caught.value.file == str(path) and str(path) in str(caught.value)
    assert f"Line {caught.value.line} " in str(caught.value)
    return seen, caught.value


def test_a_log_that_was_cut_off_gives_all_whole_events(path: Path):
    write(path, *(at(n, n) for n in range(5)))
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    for end in range(len(whole) - len(lines[-1]) + 1, len(whole) - 1, 7):
        path.write_bytes(whole[:end])
        seen, error = broken(path)
        assert seen == [0, 1, 2, 3] and error.line == 5 and "is cut off" in str(error)
    # only the line break is missing: the event is whole
    path.write_bytes(whole[:-1])
    assert len(replayed(path)) == 5


@pytest.mark.parametrize(
    ("line", "reason"),
    [(b"nonsense", "not a line of JSON"), (b"", "not a line of JSON"), (b"[1]", "must be a JSON object"),
     (b'{"type":"dance"}', "not a type of event"), (b'{"v":99,"type":"pre_call"}', "newer release"),
     (b'{"type":"pre_call","seq":"x"}', "not a pre_call event"), (b"\xff\xfe", "not a line of JSON")],
)  # fmt: skip
def test_a_corrupt_line_is_named(path: Path, line: bytes, reason: str):
    write(path, at(0), at(1, 1))
    first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + line + b"\n" + second)
    seen, error = broken(path)
    assert seen == [0] and error.line == 2 and reason in str(error) and error.__cause__ is not None


def test_a_corrupt_line_far_down_has_its_number(path: Path):
    events = [at(n, n) for n in range(2000)]
    write(path, *events)
    assert path.stat().st_size > 3 * BATCH
    with path.open("a") as file:
        file.write("nonsense\n")
    seen, error = broken(path)
    assert seen == list(range(2000)) and error.line == 2001


def test_a_missing_file_is_an_error_of_ours(tmp_path: Path):
    closed = io.BytesIO()
    closed.close()
    for wrong in (tmp_path / "absent.jsonl", tmp_path, "null\0byte", closed):
        with pytest.raises(EventLogError, match="cannot be read") as caught:
            run_virtual(replay(wrong))  # pyright: ignore
        assert caught.value.__cause__ is not None


def test_a_line_without_end_is_not_held_in_memory(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("agentscope_rx.events._log_file.MAX_LINE", 1000)
    write(path, at(0))
    with path.open("a") as file:
        file.write("x" * 5000)
    seen, error = broken(path)
    assert seen == [0] and "has more than 1,000 bytes" in str(error)


# --- demand -------------------------------------------------------------------------------------------------------


def test_a_log_is_read_with_demand(path: Path):
    """64 MB of log: a reader that takes ten events holds some batches of it, and closes the file when it leaves."""
    event = PostCallEvent(message=Msg.assistant("x" * 1000))
    line = event.to_json().encode() + b"\n"
    path.write_bytes(line * (64 * 1024 * 1024 // len(line)))
    before = len(os.listdir("/proc/self/fd"))

    async def main() -> None:
        async with replay(path) as events:
            for _ in range(10):
                assert await anext(events) == event

    tracemalloc.start()
    try:
        run_virtual(main())
        assert tracemalloc.get_traced_memory()[1] < 16 * BATCH + 2_000_000
    finally:
        tracemalloc.stop()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_slow_reader_is_waited_for(path: Path):
    write(path, *(at(n / 10, n) for n in range(50)))

    async def main() -> None:
        seen: list[int] = []
        async with replay(path, pace=1).buffered(2) as events:
            async for event in events:
                seen.append(event.seq)
                await asyncio.sleep(1)
        assert seen == list(range(50))

    run_virtual(main())


def test_two_subscriptions_read_the_log_twice(path: Path):
    write(path, at(0), at(1, 1))
    stream = replay(path)
    for _ in range(2):
        assert [event.seq for event in run_virtual(stream.pipe(ops.to_list()))] == [0, 1]


def test_a_live_run_is_folded_like_its_log(path: Path):
    async def main() -> None:
        friday = agent(ScriptedModel(["a", HANG]))
        seen: list[Event] = []
        subscription = record(friday.stream("hi"), path).subscribe(seen.append)
        await asyncio.sleep(1)
        # while it is being written
        logged = await replay(path).pipe(ops.to_list())
        assert fold(logged) == fold(seen) and fold(logged).partial.text == "a"
        subscription.dispose()
        await friday.idle()

    run_virtual(main())


def test_just_an_event_round_trips(path: Path):
    run_virtual(record(just(at(0)), path))
    assert [event.seq for event in replayed(path)] == [0]


@pytest.mark.parametrize("file", [None, 3, b"run.jsonl", object()])
def test_what_is_no_file_is_refused_at_once(file: Any):
    with pytest.raises(ConfigurationError, match="replay takes a path, or an open file with a method readline"):
        replay(file)


def test_a_compressed_log_that_was_cut_off_is_an_error_of_ours(path: Path):
    line = encode_event(PreCallEvent()) + b"\n"
    path.write_bytes(gzip.compress(line * 2000)[:-10])
    with gzip.open(path) as file, pytest.raises(EventLogError, match=r"run\.jsonl.* cannot be read: Compressed file"):
        run_virtual(replay(file))
