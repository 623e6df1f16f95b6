"""A tool is a stream: what its pieces become, in every form, and how fast they may come."""

from __future__ import annotations

import asyncio
import threading
import tracemalloc
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path

import pytest
from calling import answer, events, result, text_of, use
from hypothesis import given
from hypothesis import strategies as st
from reactivex import operators as ops

from agentscope_rx import ReActAgent, Tool, ToolContext, ToolError, Toolkit, hook, tool
from agentscope_rx.events import ActingChunkEvent, PostActingEvent, PostCallEvent
from agentscope_rx.messages import (
    Base64Source,
    GenerateReason,
    ImageBlock,
    TextBlock,
    ToolResultBlock,
    ToolResultKind,
    ToolUseBlock,
)
from agentscope_rx.models.options import ExecutionConfig
from agentscope_rx.reactive import Flow, FlowIterator, concat, defer, from_iterable, just
from agentscope_rx.testing import ScriptedModel, call, run_virtual
from agentscope_rx.tools import FolderEvictor, ResultLimit, ToolChunk, ToolEvent, ToolRetry
from agentscope_rx.tools.results.join import Joined
from agentscope_rx.tools.results.result_limit import cut

PICTURE = ImageBlock(Base64Source("image/png", "aGk="))
CALL = use("f")


# --- pieces that are the result -----------------------------------------------------------------------------------


@tool(result="joined")
def lines(count: int) -> Iterator[str]:
    for index in range(count):
        yield f"line {index}\n"


@tool(result="joined")
async def alines(count: int) -> AsyncIterator[str]:
    for index in range(count):
        await asyncio.sleep(0)
        yield f"line {index}\n"


@tool(result="joined")
def flowing(count: int) -> Flow[str]:
    return from_iterable(f"line {index}\n" for index in range(count))


@tool(result="joined")
async def lifted(count: int) -> object:
    """Announces nothing, and gives what it does step by step."""
    return alines(count)


@pytest.mark.parametrize("form", [lines, alines, flowing, lifted])
def test_joined_pieces_are_the_result_in_every_form(form: object):
    *chunks, last = events(form, count=3)
    assert [text_of(each) for each in chunks] == ["line 0\n", "line 1\n", "line 2\n"]
    assert text_of(last) == "line 0\nline 1\nline 2\n"
    assert result(form, count=0).text == "Done."


def test_what_is_no_text_keeps_its_place_among_the_pieces():
    @tool(result="joined")
    def report() -> Iterator[object]:
        yield "Before: "
        yield {"n": 1}
        yield PICTURE
        yield None
        yield "After."

    assert result(report).output == (TextBlock('Before: {"n":1}'), PICTURE, TextBlock("After."))


def test_the_last_piece_may_say_how_it_came_out():
    @tool(result="joined")
    def partial_report() -> Iterator[object]:
        yield "half "
        yield ToolResultBlock("", "", (TextBlock("of it"),), ToolResultKind.FAILED, {"rows": 1})

    block = result(partial_report)
    assert (block.text, block.kind, block.metadata) == ("half of it", ToolResultKind.FAILED, {"rows": 1})
    assert (block.id, block.name) == ("1", "partial_report")


def test_a_generators_return_value_is_its_last_piece():
    @tool(result="joined")
    def counted():
        yield "a"
        yield "b"
        return " (2)"

    assert result(counted).text == "ab (2)"


def test_a_retry_begins_anew():
    tries: list[int] = []

    @tool(result="joined", execution_config=ExecutionConfig(max_attempts=2, initial_backoff=0))
    def flaky() -> Iterator[str]:
        tries.append(1)
        yield f"try {len(tries)} "
        if len(tries) == 1:
            raise ConnectionError
        yield "done"

    found = events(flaky)
    assert [type(each) for each in found] == [ToolChunk, ToolRetry, ToolChunk, ToolChunk, ToolResultBlock]
    assert text_of(found[-1]) == "try 2 done"


def test_a_failure_in_the_middle_is_the_result():
    @tool(result="joined")
    def breaks() -> Iterator[str]:
        yield "half"
        raise ToolError("The line went dead.")

    *chunks, last = events(breaks)
    assert ([text_of(each) for each in chunks], text_of(last)) == (["half"], "Error: The line went dead.")


def test_a_deadline_ends_the_pieces():
    @tool(result="joined", execution_config=ExecutionConfig(idle_timeout=5))
    async def stalls() -> AsyncIterator[str]:
        yield "one"
        await asyncio.sleep(60)
        yield "two"

    async def main() -> ToolResultBlock:
        found = await Toolkit([stalls]).call(use("stalls"))
        assert isinstance(found, ToolResultBlock)
        return found

    assert run_virtual(main()).kind is ToolResultKind.TIMEOUT


pieces = st.lists(st.one_of(st.text(max_size=300), st.integers(0, 40)), max_size=40)


@given(pieces, st.integers(500, 1500))
def test_law_joining_piece_by_piece_is_joining_and_cutting(parts: list[str | int], chars: int):
    """A number stands for a picture of that size. What is held meanwhile is bounded, what comes out is the same."""
    limit = ResultLimit(chars, media=100)
    joined, whole = Joined(limit), Joined(None)
    for part in parts:
        block = TextBlock(part) if isinstance(part, str) else ImageBlock(Base64Source("image/png", "a" * (part + 1)))
        joined.add((block,))
        whole.add((block,))
    found, wanted = joined.result(CALL, None), whole.result(CALL, None)
    assert limit.holds(found)
    if limit.holds(wanted):
        assert found == wanted
    elif all(isinstance(part, str) for part in parts):
        assert found == cut(wanted, limit)
    else:
        assert found.metadata["limited"]


def test_a_long_stream_is_not_held():
    @tool(result="joined", max_result=10_000)
    async def endless() -> AsyncIterator[str]:
        for _ in range(2_000):
            yield "x" * 10_000

    async def main() -> ToolResultBlock:
        last: object = None
        async for each in Toolkit([endless]).call(use("endless")):
            last = each
        assert isinstance(last, ToolResultBlock)
        return last

    tracemalloc.start()
    try:
        block = run_virtual(main())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(block.text) <= 10_000
    assert block.metadata["limited"] == {"chars": 20_000_000, "left_out": 20_000_000 - block.text.count("x")}
    assert peak < 4_000_000


def test_joined_pieces_are_handed_over_whole(tmp_path: Path):
    limit = ResultLimit(600, evictor=FolderEvictor(tmp_path))
    block = answer(Toolkit([lines], max_result=limit), use("lines", count=500))
    (file,) = tmp_path.iterdir()
    assert file.read_text() == "".join(f"line {index}\n" for index in range(500))
    assert len(block.text) <= 600 and file.name in block.text


# --- in an agent's run --------------------------------------------------------------------------------------------


def _later(context: ToolContext, text: str) -> None:
    thread = threading.Thread(target=context.emit, args=(text,))
    thread.start()
    thread.join()


def emits(context: ToolContext) -> str:
    """Emits from its own thread, and from another."""
    context.emit("a")
    _later(context, "b")
    return "end"


async def aemits(context: ToolContext) -> str:
    """Emits, and sends."""
    context.emit("a")
    await context.send("b")
    return "end"


def yields(context: ToolContext) -> Iterator[str]:
    """Yields, and emits between."""
    yield "a"
    _later(context, "b")
    yield "end"


async def ayields(context: ToolContext) -> AsyncIterator[str]:
    """Yields, and emits between."""
    yield "a"
    context.emit("b")
    yield "end"


def flows(context: ToolContext) -> Flow[str]:
    """Emits while it flows."""

    def second() -> Flow[str]:
        context.emit("b")
        return just("end")

    return concat(just("a"), defer(second))


class Own(Tool):
    """The port itself, around another tool."""

    name = "own"
    streams = True

    def call(self, arguments: Mapping[str, object]) -> Flow[object]:
        raise NotImplementedError

    def call_with(self, arguments: Mapping[str, object], context: ToolContext) -> Flow[object]:
        return tool(ayields).call_with(arguments, context)


EVERY = [emits, aemits, yields, ayields, flows, Own()]


@pytest.mark.spec("case 94", "case 96", "case 118")
@pytest.mark.parametrize("form", EVERY, ids=lambda form: getattr(form, "__name__", "own"))
def test_progress_of_every_form_is_chunks_in_order(form: object):
    """A hook and the stream get every chunk, with the call's id, name and path, in order."""
    toolkit = Toolkit([form])
    (name,) = toolkit.names
    heard: list[ActingChunkEvent] = []

    @hook(ActingChunkEvent)
    def hears(event: ActingChunkEvent) -> None:
        heard.append(event)

    model = ScriptedModel(ToolUseBlock("call-7", name), "done")
    # (the agent copies the toolkit, and each run has a view of that)
    friday = ReActAgent("Friday", model, toolkit=toolkit, hooks=[hears])
    found = friday.stream("hi").pipe(ops.to_list()).run()
    chunks = [each for each in found if isinstance(each, ActingChunkEvent)]
    said = ["a", "b", "end"] if form in (emits, aemits) else ["a", "b", "end", ""]
    assert [each.chunk.text for each in chunks] == [each.chunk.text for each in heard] == said
    assert [each.is_last for each in chunks] == [False] * (len(said) - 1) + [True]
    assert {(each.chunk.id, each.chunk.name, each.tool_use.id) for each in chunks} == {("call-7", name, "call-7")}
    (run_id,) = {each.source.run_id for each in chunks}
    assert {each.source.path for each in chunks} == {(run_id,)}
    kinds = [type(each) for each in found]
    assert kinds.index(PostActingEvent) > max(index for index, kind in enumerate(kinds) if kind is ActingChunkEvent)


@pytest.mark.spec("case 96")
def test_agents_that_share_a_toolkit_hear_each_their_own():
    """Nothing is kept on the toolkit, so there is no callback to be overwritten or copied."""
    toolkit = Toolkit([aemits])

    async def main() -> list[list[str]]:
        async def texts(name: str) -> list[str]:
            friday = ReActAgent(name, ScriptedModel(ToolUseBlock(name, "aemits"), "done"), toolkit=toolkit)
            events = [each async for each in friday.stream("hi")]
            return [each.chunk.id for each in events if isinstance(each, ActingChunkEvent)]

        return list(await asyncio.gather(texts("A"), texts("B")))

    assert run_virtual(main()) == [["A"] * 3, ["B"] * 3]


@pytest.mark.spec("case 95")
def test_a_hook_that_fails_at_a_chunk_stops_the_tool():
    """Case 95, in our form: no failure is swallowed, and no tool runs on after it."""
    ended: list[str] = []

    @hook(ActingChunkEvent)
    def fails(event: ActingChunkEvent) -> None:
        raise ValueError("no ink")

    @tool
    async def slow(context: ToolContext) -> str:
        try:
            await context.send("one")
            await asyncio.sleep(60)
        finally:
            ended.append("ended")
        return "never"

    async def main() -> None:
        friday = ReActAgent("Friday", ScriptedModel(call("slow"), "done"), tools=[slow], hooks=[fails])
        await friday.call("hi")

    with pytest.raises(ValueError, match="no ink"):
        run_virtual(main())
    assert ended == ["ended"]


# --- not faster than it is read -----------------------------------------------------------------------------------

AHEAD = 64 + 64 + 2
"""What may wait: in the reader's channel, in the call's own queue, and in the hands of both."""


class Ahead:
    """How many more have been emitted than were read, at most."""

    def __init__(self) -> None:
        self.emitted = 0
        self.read = 0
        self.most = 0

    def emits(self) -> int:
        self.emitted += 1
        return self.emitted

    def reads(self) -> None:
        self.read += 1
        self.most = max(self.most, self.emitted - self.read)


def test_a_thread_waits_for_its_reader():
    ahead = Ahead()

    def chatty(context: ToolContext) -> str:
        for _ in range(2000):
            context.emit(ahead.emits())
        return "end"

    async def main() -> list[str]:
        texts: list[str] = []
        async for each in Toolkit([chatty]).call(use("chatty")):
            ahead.reads()
            texts.append(text_of(each))
            await asyncio.sleep(0)
        return texts

    assert asyncio.run(main()) == [*map(str, range(1, 2001)), "end"]
    assert ahead.most <= AHEAD


def test_a_thread_waits_for_a_loop_that_is_busy():
    """Also without back-pressure: a slow subscriber holds the loop."""
    ahead = Ahead()

    def chatty(context: ToolContext) -> str:
        for _ in range(1000):
            context.emit(ahead.emits())
        return "end"

    flow = Toolkit([chatty]).call(use("chatty")).pipe(ops.do_action(lambda each: ahead.reads()), ops.to_list())
    assert len(flow.run()) == 1001
    assert ahead.most <= AHEAD


@given(st.integers(1, 3), st.integers(0, 300))
def test_law_what_threads_emit_comes_once_and_in_order(threads: int, count: int):
    def chatty(context: ToolContext) -> str:
        def work(number: int) -> None:
            for index in range(count):
                context.emit(f"{number}.{index}")

        workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
        for each in workers:
            each.start()
        for each in workers:
            each.join()
        return "end"

    async def main() -> list[str]:
        texts: list[str] = []
        async for each in Toolkit([chatty]).call(use("chatty")):
            texts.append(text_of(each))
            if len(texts) % 7 == 0:
                await asyncio.sleep(0)
        return texts

    *chunks, last = asyncio.run(main())
    assert last == "end"
    for number in range(threads):
        assert [each for each in chunks if each.startswith(f"{number}.")] == [f"{number}.{i}" for i in range(count)]


def test_a_coroutine_that_sends_waits_for_its_reader():
    ahead = Ahead()

    async def chatty(context: ToolContext) -> str:
        for _ in range(500):
            await context.send(ahead.emits())
        return "end"

    async def main() -> int:
        count = 0
        async for _ in Toolkit([chatty]).call(use("chatty")):
            ahead.reads()
            count += 1
            await asyncio.sleep(0.1)
        return count

    assert run_virtual(main()) == 501
    assert ahead.most <= AHEAD


def test_a_coroutine_that_emits_does_not_wait():
    async def chatty(context: ToolContext) -> float:
        for index in range(500):
            context.emit(index)
        return asyncio.get_running_loop().time()

    async def main() -> list[str]:
        texts: list[str] = []
        async for each in Toolkit([chatty]).call(use("chatty")):
            texts.append(text_of(each))
            await asyncio.sleep(1)
        return texts

    assert run_virtual(main()) == [*map(str, range(500)), "0.0"]


def test_a_loop_of_its_own_is_not_held_up():
    """A blocking tool that runs a loop on its thread: `emit` does not block there."""

    def nested(context: ToolContext) -> int:
        async def inner() -> int:
            for index in range(300):
                context.emit(index)
            return 1

        return asyncio.run(inner())

    assert len(events(nested)) == 301


def stuck(context: ToolContext, left: threading.Event) -> str:
    """Emits until its subscriber is gone."""
    try:
        while not context.stopping:
            context.emit("more")
    finally:
        left.set()
    return "left"


def _stuck() -> tuple[Toolkit, threading.Event]:
    left = threading.Event()

    @tool
    def endless(context: ToolContext) -> str:
        """Emits until its subscriber is gone."""
        return stuck(context, left)

    return Toolkit([endless]), left


async def _until_withheld(iterator: FlowIterator[ToolEvent]) -> None:
    await anext(iterator)
    while not iterator.statistics().withheld:  # noqa: ASYNC110 - nothing tells when a buffer is full
        await asyncio.sleep(0)


def test_disposal_frees_a_thread_that_waits_for_its_reader():
    toolkit, left = _stuck()

    async def main() -> None:
        async with toolkit.call(use("endless")) as iterator:
            await _until_withheld(iterator)

    asyncio.run(main())
    assert left.wait(10)


def test_a_deadline_frees_a_thread_that_waits_for_its_reader():
    toolkit, left = _stuck()

    async def main() -> ToolEvent | None:
        flow = toolkit.call(use("endless"), config=ExecutionConfig(timeout=0.05))
        last: ToolEvent | None = None
        async with flow as iterator:
            await _until_withheld(iterator)
            # reads nothing until the deadline has passed
            assert await asyncio.to_thread(left.wait, 10)
            async for each in iterator:
                last = each
        return last

    last = asyncio.run(main())
    assert isinstance(last, ToolResultBlock) and last.kind is ToolResultKind.TIMEOUT


def test_an_interruption_frees_a_thread_awaiting_its_reader():
    toolkit, left = _stuck()

    async def main() -> GenerateReason | None:
        friday = ReActAgent("Friday", ScriptedModel(call("endless"), "done"), toolkit=toolkit)
        reason: GenerateReason | None = None
        async with friday.stream("hi") as iterator:
            async for each in iterator:
                if isinstance(each, ActingChunkEvent) and iterator.statistics().withheld:
                    friday.interrupt()
                if isinstance(each, PostCallEvent):
                    reason = each.message.generate_reason
                await asyncio.sleep(0)
        return reason

    assert asyncio.run(main()) is GenerateReason.INTERRUPTED
    assert left.wait(10)


def test_a_loop_that_is_closed_under_a_thread_frees_it():
    toolkit, left = _stuck()
    begun = threading.Event()

    async def main() -> None:
        iterator = aiter(toolkit.call(use("endless")))
        kept.append(iterator)
        await _until_withheld(iterator)
        begun.set()

    kept: list[FlowIterator[ToolEvent]] = []
    loop = asyncio.new_event_loop()
    loop.run_until_complete(main())
    loop.close()
    assert begun.is_set()
    kept.clear()
    assert left.wait(10)


def test_sending_by_hand_goes_nowhere():
    async def main() -> None:
        context = ToolContext(use("f"))
        await context.send("into nothing")
        context.heartbeat()

    asyncio.run(main())


# --- signs of life ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("joined", [False, True])
def test_a_heartbeat_keeps_a_silent_tool_alive_unshown(joined: bool):
    """P5 of the field study: it begins idle deadlines anew, and no others."""

    @tool(result="joined" if joined else "last")
    async def quiet(context: ToolContext, beats: int) -> str:
        for _ in range(beats):
            await asyncio.sleep(4)
            context.heartbeat()
            context.heartbeat()
        await asyncio.sleep(4 if beats > 2 else 60)
        return "done"

    async def main(beats: int, total: float) -> list[ToolEvent]:
        config = ExecutionConfig(first_chunk_timeout=5, idle_timeout=5, timeout=total)
        flow = Toolkit([quiet]).call(use("quiet", beats=beats), config=config)
        return [each async for each in flow]

    found = run_virtual(main(3, 100))
    assert [text_of(each) for each in found] == (["done", "done"] if joined else ["done"])
    for beats, total in ((2, 100), (30, 50)):
        (late,) = run_virtual(main(beats, total))
        assert isinstance(late, ToolResultBlock) and late.kind is ToolResultKind.TIMEOUT


def test_a_heartbeat_from_a_thread():
    def quiet(context: ToolContext) -> str:
        for _ in range(100):
            context.heartbeat()
        return "done"

    assert [text_of(each) for each in events(quiet)] == ["done"]
