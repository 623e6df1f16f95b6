"""`record`: an event is on its way to the file before it is passed on; the file ends with whole lines, however."""

from __future__ import annotations

import asyncio
import io
import os
import resource
import signal
import stat
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from reactivex import operators as ops

from agentscope_rx import InMemoryMemory, StreamOptions
from agentscope_rx.errors import AgentBusyError, ConfigurationError, EventLogError, InvalidInputError
from agentscope_rx.events import (
    ErrorEvent,
    Event,
    EventStream,
    PostCallEvent,
    ReasoningChunkEvent,
    event_from_json,
    fold,
    record,
)
from agentscope_rx.events.base import encode_event
from agentscope_rx.messages import Msg
from agentscope_rx.reactive import Flow, from_iterable, just, throw
from agentscope_rx.testing import HANG, Delay, ScriptedModel, call, collect_dropped, run_virtual, verify
from tests.agent.parts import agent, remembered
from tests.events.runs import Scenario, friday_of, run_of, scenarios, stream_of


def read(path: Path) -> list[Event]:
    text = path.read_bytes()
    assert not text or text.endswith(b"\n"), "a part of a line"
    return [event_from_json(line) for line in text.splitlines()]


class OddFile:
    """A file object with an error of its own, as compressed and remote files have."""

    def write(self, line: bytes) -> int | None:
        raise LookupError("no connection")


class StuckFile(io.RawIOBase):
    """Takes no bytes."""

    def __init__(self, taken: int | None) -> None:
        self.taken = taken

    def write(self, line: object, /) -> int | None:
        return self.taken


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.jsonl"


# --- what is written ----------------------------------------------------------------------------------------------


@pytest.mark.spec("case 49")
@settings(max_examples=40, deadline=None)
@given(scenarios)
def test_the_file_is_the_run_at_every_event(scenario: Scenario):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run.jsonl")
        friday = friday_of(scenario)
        seen: list[Event] = []

        def check(event: Event) -> None:
            seen.append(event)
            assert path.read_bytes() == b"".join(encode_event(each) + b"\n" for each in seen)

        result = run_virtual(run_of(friday, scenario, record(stream_of(friday, scenario), path), check))
        state = fold(read(path))
        assert read(path) == seen and state.history == tuple(remembered(friday))
        assert state.message == (None if isinstance(result, Exception) else result)


def test_it_is_a_stream_of_events(path: Path):
    stream = record(agent(ScriptedModel(["It is ", "sunny."])).stream("hi"), path)
    assert isinstance(stream, EventStream)
    assert run_virtual(stream.text().pipe(ops.to_list())) == ["It is ", "sunny."]
    assert [event.type for event in read(path)][-1] == "post_call"


def test_a_new_file_is_private(path: Path):
    run_virtual(record(agent(ScriptedModel("a")).stream("hi"), path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_existing_file_is_kept_unless_a_mode_says_so(path: Path):
    friday = agent(ScriptedModel("a", repeat=True))
    path.write_text("precious")
    with pytest.raises(EventLogError, match=r"exists\. Record into a new file") as caught:
        run_virtual(record(friday.stream("hi"), path))
    assert path.read_text() == "precious" and caught.value.file == str(path) and not remembered(friday)
    run_virtual(record(friday.stream("hi"), path, mode="w"))
    once = len(read(path))
    run_virtual(record(friday.stream("again"), path, mode="a"))
    assert [event.type for event in read(path)].count("post_call") == 2 and len(read(path)) == 2 * once
    with pytest.raises(ConfigurationError, match="mode of record must be"):
        record(just(PostCallEvent()), path, mode="r")  # pyright: ignore


def test_swapped_or_wrong_arguments_are_refused_at_the_call(path: Path):
    with pytest.raises(ConfigurationError, match=r"The stream comes first: record\(stream, file\)"):
        record(path, just(PostCallEvent()))  # pyright: ignore
    with pytest.raises(ConfigurationError, match="takes a path, or an open file"):
        record(agent(ScriptedModel()).stream("hi"), 3)  # pyright: ignore
    with pytest.raises(ConfigurationError, match=r"Give it agent\.stream"):
        record(3, path)  # pyright: ignore
    assert not path.exists()


def test_a_handle_is_recorded_by_its_events(path: Path):
    async def main() -> None:
        handle = agent(ScriptedModel("fine")).start("hi")
        with pytest.raises(ConfigurationError, match=r"record\(handle\.events\(\), file\)"):
            record(handle, path)  # pyright: ignore
        await record(handle.events(), path)

    run_virtual(main())
    assert fold(read(path)).message is not None


def test_nothing_is_appended_to_half_a_line(path: Path):
    path.write_text('{"v":1,"type":"pre')
    with pytest.raises(EventLogError, match="in the middle of a line"):
        run_virtual(record(just(PostCallEvent()), path, mode="a"))
    assert path.read_text() == '{"v":1,"type":"pre'


def test_a_file_that_cannot_be_opened_begins_no_run(tmp_path: Path):
    friday = agent(ScriptedModel("a"))
    for wrong in (tmp_path, tmp_path / "absent" / "run.jsonl", "null\0byte"):
        with pytest.raises(EventLogError, match=r"exists|cannot be opened"):
            run_virtual(record(friday.stream("hi"), wrong))
    assert not friday.running and not remembered(friday)


# --- file objects -------------------------------------------------------------------------------------------------


class Dribble(io.RawIOBase):
    """Takes three bytes at a time, as a raw file may."""

    def __init__(self) -> None:
        self.taken = b""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.taken += bytes(data[:3])
        return len(bytes(data[:3]))


def test_open_files_of_bytes_and_text_stay_open(tmp_path: Path):
    event = PostCallEvent(message=Msg.assistant("süß ☀"))
    line = event.to_json()
    binary, text, dribble = io.BytesIO(), io.StringIO(), Dribble()
    for file in (binary, text, dribble):
        run_virtual(record(just(event, event), file))  # pyright: ignore
        assert not file.closed
    assert binary.getvalue().decode() == text.getvalue() == dribble.taken.decode() == f"{line}\n{line}\n"
    with tempfile.NamedTemporaryFile("w+", encoding="utf-8", dir=tmp_path) as wrapped:
        run_virtual(record(just(event), wrapped))
        # flushed, not closed
        assert Path(wrapped.name).read_text(encoding="utf-8") == f"{line}\n"


def test_a_file_that_takes_no_events_is_an_error(tmp_path: Path):
    events = just(PostCallEvent(message=Msg.assistant("☀")))
    closed = io.BytesIO()
    closed.close()
    (tmp_path / "read").touch()
    with (tmp_path / "ascii").open("w", encoding="ascii") as ascii, (tmp_path / "read").open("rb") as reader:
        for file in (closed, ascii, reader):
            with pytest.raises(EventLogError, match="cannot be written to"):
                run_virtual(record(events, file))


# --- ends ---------------------------------------------------------------------------------------------------------


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.spec("case 52")
@pytest.mark.parametrize("way", ["completed", "failed", "disposed", "cancelled", "left"])
def test_the_file_is_whole_and_closed_at_every_end(way: str, path: Path):
    before = descriptors()

    async def main() -> None:
        last = {"completed": "b", "failed": ValueError("no")}.get(way, HANG)
        friday = agent(ScriptedModel(["a", Delay(1), last]))
        stream = record(friday.stream("hi"), path)
        if way == "disposed":
            subscription = stream.subscribe(lambda event: None)
            await asyncio.sleep(2)
            subscription.dispose()
            subscription.dispose()
        elif way == "cancelled":
            task = stream.as_task()
            await asyncio.sleep(2)
            task.cancel()
        elif way == "left":
            async with stream as events:
                async for event in events:
                    if isinstance(event, ReasoningChunkEvent):
                        break
        elif way == "failed":
            with pytest.raises(ValueError, match="no"):
                await stream
        else:
            await stream
        await friday.idle()

    run_virtual(main())
    assert descriptors() == before
    kinds = [event.type for event in read(path)]
    last = {"completed": "post_call", "failed": "error"}.get(way, "reasoning_chunk")
    assert kinds[-1] == last and kinds[0] == "pre_call"


def test_an_error_that_the_stream_does_not_show_is_in_the_file(path: Path, tmp_path: Path):
    friday = agent(ScriptedModel(["a", ValueError("no")]))
    with pytest.raises(ValueError, match="no"):
        run_virtual(record(friday.stream("hi", StreamOptions(kinds=ReasoningChunkEvent)), path))
    chunk, error = read(path)
    assert isinstance(error, ErrorEvent) and (error.error_type, error.error_text) == ("ValueError", "no")
    assert error.source == chunk.source and error.seq == chunk.seq + 1 and error.timestamp > 0
    # also one before the first event
    with pytest.raises(AgentBusyError):
        run_virtual(record(throw(AgentBusyError("Friday", "run")), tmp_path / "second.jsonl"))
    (only,) = read(tmp_path / "second.jsonl")
    assert isinstance(only, ErrorEvent) and only.error_type == "AgentBusyError" and only.seq == 0


def test_an_event_without_json_ends_the_run_with_whole_lines(path: Path):
    live = PostCallEvent(message=Msg("a", "x", metadata={"live": object()}))
    with pytest.raises(InvalidInputError, match="cannot be written as JSON"):
        run_virtual(record(just(PostCallEvent(), live, PostCallEvent()), path))
    assert len(read(path)) == 1


def test_what_is_no_event_is_an_error(path: Path):
    with pytest.raises(ConfigurationError, match=r"stream of events.* and got 'text'"):
        run_virtual(record(just("text"), path))  # pyright: ignore
    assert read(path) == []


def test_a_full_disk_ends_the_run_with_whole_lines(path: Path):
    """The limit on the size of files of this process: the kernel writes a part of a line, then refuses."""
    events = [PostCallEvent(message=Msg.assistant("x" * 300), seq=n) for n in range(20)]
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    passed: list[Event] = []
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4000, limits[1]))
        with pytest.raises(EventLogError, match="cannot be written to"):
            run_virtual(record(from_iterable(events), path).pipe(ops.do_action(passed.append)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert 0 < len(passed) < 20 and [event.seq for event in read(path)] == [event.seq for event in passed]


def test_a_failing_write_disposes_the_run(path: Path):
    class Full(io.BytesIO):
        def write(self, data: Any) -> int:
            if self.tell() > 1000:
                raise OSError(28, "No space left on device")
            return super().write(data)

    async def main() -> None:
        friday = agent(ScriptedModel([call("weather", city="Rome")], [HANG]))
        with pytest.raises(EventLogError, match="No space left"):
            await record(friday.stream("hi"), Full())
        await friday.idle()
        assert not friday.running
        friday.model = ScriptedModel("and on")
        assert (await friday.call("next")).text == "and on"

    run_virtual(main())


def test_a_disposal_from_inside_an_event_closes_the_file(path: Path):
    before = descriptors()
    run_virtual(record(agent(ScriptedModel("a")).stream("hi"), path).pipe(ops.take(2)))
    assert len(read(path)) == 2 and descriptors() == before


def test_a_throwing_subscriber_leaves_a_whole_file(path: Path):
    async def main() -> None:
        def fail(event: Event) -> None:
            raise RuntimeError("a subscriber's own")

        friday = agent(ScriptedModel("a"))
        with collect_dropped() as dropped:
            record(friday.stream("hi"), path).subscribe(fail)
            await asyncio.sleep(1)
            await friday.idle()
            assert [str(error) for error in dropped] == ["a subscriber's own"]
            dropped.clear()

    before = descriptors()
    run_virtual(main())
    assert len(read(path)) == 1 and descriptors() == before


# --- back-pressure and subscriptions ------------------------------------------------------------------------------


def test_it_has_the_back_pressure_of_its_source(path: Path):
    made: list[int] = []

    def events():
        for number in range(100):
            made.append(number)
            yield PostCallEvent(seq=number)

    flow: Flow[Event] = record(from_iterable(events()), path)
    verify(flow, demand=3).expect_count(3).expect_no_event(for_=5).then(lambda: made.append(-1)).then_dispose().run()
    assert made.index(-1) <= 4 and len(read(path)) <= 4


@pytest.mark.spec("case 50")
def test_each_subscription_is_a_run_with_the_file_opened_anew(path: Path):
    friday = agent(ScriptedModel("a", repeat=True))
    stream = record(friday.stream("hi"), path, mode="a")
    run_virtual(stream)
    run_virtual(stream)
    events = read(path)
    assert [event.type for event in events].count("pre_call") == 2
    half = len(events) // 2
    for run in (events[:half], events[half:]):
        assert [event.seq for event in run] == list(range(half)) and len({event.run_id for event in run}) == 1
    assert events[0].run_id != events[half].run_id


@pytest.mark.spec("case 51")
def test_runs_at_the_same_time_are_numbered_each_on_its_own(path: Path, tmp_path: Path):
    # one agent, two conversations: into one file, and into a file each
    async def both(files: list[Path], mode: Any) -> None:
        friday = agent(ScriptedModel(["a", Delay(1), "b", Delay(1), "c"], repeat=True))
        streams = [friday.stream("hi", memory=InMemoryMemory()) for _ in files]
        await asyncio.gather(*(record(stream, file, mode=mode) for stream, file in zip(streams, files, strict=True)))

    run_virtual(both([path, path], "a"))
    run_virtual(both(files := [tmp_path / "one.jsonl", tmp_path / "two.jsonl"], "x"))
    events = read(path)
    ids = {event.run_id for event in events}
    assert len(ids) == 2
    for run in (*([event for event in events if event.run_id == id] for id in ids), *map(read, files)):
        assert [event.seq for event in run] == list(range(len(run))) and run[-1].type == "post_call"


@pytest.mark.parametrize("file", [None, 3, b"run.jsonl", object()])
def test_what_is_no_file_is_refused_at_once(file: Any):
    with pytest.raises(ConfigurationError, match="record takes a path, or an open file with a method write"):
        record(just(Event()), file)


@pytest.mark.parametrize("file", [OddFile(), StuckFile(0), StuckFile(None)])
def test_a_file_with_errors_of_its_own_ends_the_run(file: Any):
    friday = agent(ScriptedModel("Hi."))
    with collect_dropped(), pytest.raises(EventLogError, match=r"no connection|takes no more bytes"):
        run_virtual(record(friday.stream("hi"), file))
    assert not friday.running
