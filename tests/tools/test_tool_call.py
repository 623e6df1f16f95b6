"""One call: its order of treatment, deadlines, retries, and what each failure becomes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace

import pytest
from calling import events, result, text_of, use
from tenacity.stop import stop_after_attempt
from tenacity.wait import wait_none

from agentscope_rx.errors import DeadlineError, ToolError
from agentscope_rx.messages import ToolResultBlock, ToolResultKind, ToolUseBlock
from agentscope_rx.models.options import TOOL_DEFAULTS, ExecutionConfig
from agentscope_rx.reactive import Flow, SourceCancelledError, never, throw
from agentscope_rx.tools import Tool, ToolChunk, Toolkit, ToolRetry, tool
from agentscope_rx.tools.calls.execute import Plan

SHORT = 0.01
AGAIN = ExecutionConfig(max_attempts=3, initial_backoff=0, retry_on=lambda error: True)


# --- what a model is told ---------------------------------------------------------------------------------------


def weather(city: str) -> str:
    return city


def whether(yes: bool) -> str:
    return str(yes)


def add(x: int, y: int) -> int:
    return x + y


def test_an_unknown_tool_lists_similar_ones_first():
    toolkit = Toolkit([add, whether, weather])
    block = toolkit.call(use("wether")).run()
    assert isinstance(block, ToolResultBlock)
    assert block.kind is ToolResultKind.NOT_FOUND
    assert block.text == "Error: There is no tool 'wether'. Available tools: whether, weather, add."


def test_an_unknown_tool_of_an_empty_toolkit():
    block = Toolkit().call(use("x")).run()
    assert isinstance(block, ToolResultBlock)
    assert block.text == "Error: There is no tool 'x'. No tools are available."


@pytest.mark.spec("case 105")
def test_malformed_json_is_told_and_nothing_runs():
    """No input is read as no arguments, text that is no JSON is told."""
    ran: list[str] = []

    def note(city: str = "") -> None:
        ran.append(city)

    call = ToolUseBlock("1", "note", raw='{"city": "Par' + "x" * 300, input_error="Unterminated string at column 10")
    block = Toolkit([note]).call(call).run()
    assert isinstance(block, ToolResultBlock)
    assert block.kind is ToolResultKind.INVALID_ARGUMENTS
    first, given, last = block.text.splitlines()
    assert first == "Error: The arguments for tool 'note' are not valid JSON: Unterminated string at column 10"
    assert given.startswith('Given: {"city": "Par')
    assert len(given) < 230
    assert last == "Call the tool again with one JSON object as its arguments."
    assert ran == []


def test_an_unknown_tool_comes_before_malformed_json():
    block = Toolkit().call(ToolUseBlock("1", "x", raw="{", input_error="eof")).run()
    assert isinstance(block, ToolResultBlock)
    assert block.kind is ToolResultKind.NOT_FOUND


class UnspeakableError(Exception):
    def __str__(self) -> str:
        raise ValueError("cannot say")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("no such city"), "ValueError: no such city"),
        (KeyError("x"), "KeyError: 'x'"),
        (ValueError(), "ValueError"),
        (ToolError("The station is closed."), "The station is closed."),
        (ToolError(""), "ToolError"),
        (TimeoutError("inner"), "TimeoutError: inner"),
        (DeadlineError("total", 3, "model"), "DeadlineError: model did not finish within 3 s"),
        (StopIteration(1), "StopIteration: 1"),
        (UnspeakableError(), "UnspeakableError"),
    ],
)
def test_an_exception_is_a_failed_result(error: Exception, text: str):
    def blocking() -> None:
        raise error

    block = result(blocking)
    assert (block.kind, block.text) == (ToolResultKind.FAILED, f"Error: {text}")
    assert (block.id, block.name) == ("1", "blocking")
    assert block.metadata == {"error_type": type(error).__name__}


def test_an_exception_after_progress_keeps_the_progress():
    async def half() -> AsyncIterator[str]:
        yield "half"
        raise ValueError("broke")

    chunk, last = events(half)
    assert isinstance(chunk, ToolChunk)
    assert isinstance(last, ToolResultBlock)
    assert last.text == "Error: ValueError: broke"


def test_a_value_that_is_no_output_ends_the_tool():
    closed = threading.Event()

    async def bad() -> AsyncIterator[object]:
        try:
            yield "fine"
            yield b"not fine"
            yield "never asked for"
        finally:
            closed.set()

    chunk, last = events(bad)
    assert isinstance(chunk, ToolChunk)
    assert isinstance(last, ToolResultBlock)
    assert last.kind is ToolResultKind.FAILED
    assert closed.wait(10)


def test_system_exit_on_a_worker_comes_out_as_it_is():
    def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        result(leave)


def test_a_cancellation_from_outside_is_not_retried():
    calls: list[int] = []

    async def cancelled() -> None:
        calls.append(1)
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    with pytest.raises(SourceCancelledError):
        events(cancelled, AGAIN)
    assert calls == [1]


def test_each_subscription_is_a_call():
    calls: list[int] = []

    def count() -> int:
        calls.append(1)
        return len(calls)

    flow = Toolkit([count]).call(use("count"))
    assert calls == []
    texts = [block.text for block in (flow.run(), flow.run()) if isinstance(block, ToolResultBlock)]
    assert texts == ["1", "2"]


def test_a_tool_is_looked_up_at_subscription():
    toolkit = Toolkit()
    flow = toolkit.call(use("add", x=1, y=2))
    toolkit.register(add)
    block = flow.run()
    assert isinstance(block, ToolResultBlock)
    assert block.text == "3"


# --- deadlines --------------------------------------------------------------------------------------------------


def test_an_async_tool_past_its_deadline_is_cancelled():
    ended = threading.Event()

    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    block = result(hang, ExecutionConfig(timeout=SHORT))
    assert block.kind is ToolResultKind.TIMEOUT
    assert block.text == "Error: Tool 'hang' did not finish within 0.01 s"
    assert ended.wait(10)


def test_a_blocking_tool_past_its_deadline_is_abandoned():
    release = threading.Event()

    def block() -> str:
        assert release.wait(10)
        return "late"

    found = events(block, ExecutionConfig(timeout=SHORT))
    release.set()
    (last,) = found
    assert isinstance(last, ToolResultBlock)
    assert last.kind is ToolResultKind.TIMEOUT


async def stalls(after: int) -> AsyncIterator[int]:
    for i in range(after):
        yield i
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("after", "config", "text"),
    [
        (0, ExecutionConfig(first_chunk_timeout=SHORT), "gave no first item within 0.01 s"),
        (2, ExecutionConfig(first_chunk_timeout=60, idle_timeout=SHORT), "was silent within 0.01 s"),
        (2, ExecutionConfig(timeout=SHORT), "did not finish within 0.01 s"),
    ],
)
def test_each_deadline(after: int, config: ExecutionConfig, text: str):
    *chunks, last = events(stalls, config, after=after)
    assert isinstance(last, ToolResultBlock)
    assert (last.kind, last.text) == (ToolResultKind.TIMEOUT, f"Error: Tool 'stalls' {text}")
    assert len(chunks) == after


def test_a_custom_tool_that_never_answers_has_a_deadline_too():
    def silent() -> Flow[str]:
        return never()

    assert result(silent, ExecutionConfig(timeout=SHORT)).kind is ToolResultKind.TIMEOUT


# --- retries ----------------------------------------------------------------------------------------------------


class Flaky:
    """Fails so many times, then works."""

    def __init__(self, failures: int, error: Exception | None = None) -> None:
        self.failures = failures
        self.error = error or ConnectionError("down")
        self.calls = 0

    async def fetch(self) -> str:
        self.calls += 1
        if self.calls <= self.failures:
            raise self.error
        return f"call {self.calls}"

    def stream(self) -> Iterator[str]:
        self.calls += 1
        yield f"progress {self.calls}"
        if self.calls <= self.failures:
            raise self.error
        yield "done"


def test_a_retry_calls_again_and_is_announced():
    flaky = Flaky(2)
    *notices, last = events(flaky.fetch, AGAIN)
    assert [(each.number, each.delay, each.discarded) for each in notices if isinstance(each, ToolRetry)] == [
        (1, 0, False),
        (2, 0, False),
    ]
    assert all(isinstance(each, ToolRetry) and each.error is flaky.error for each in notices)
    assert isinstance(last, ToolResultBlock)
    assert last.text == "call 3"


def test_a_retry_discards_progress():
    first, notice, second, third, last = events(Flaky(1).stream, AGAIN)
    assert isinstance(notice, ToolRetry)
    assert notice.discarded
    chunks = [text_of(each) for each in (first, second, third) if isinstance(each, ToolChunk)]
    assert chunks == ["progress 1", "progress 2", "done"]
    assert isinstance(last, ToolResultBlock)
    assert last.text == "done"


def test_every_attempt_gets_arguments_of_its_own():
    seen: list[list[int]] = []

    async def spoil(items: list[int]) -> None:
        seen.append(list(items))
        items.clear()
        raise ConnectionError

    events(spoil, AGAIN, items=[1, 2])
    assert seen == [[1, 2]] * 3


def test_each_attempt_of_an_unchecked_tool_gets_plain_arguments():
    kinds: list[type] = []

    class Spoils(Tool):
        name = "spoils"

        def call(self, arguments: Mapping[str, object]) -> Flow[object]:
            kinds.append(type(arguments))
            return throw(ConnectionError())

    Toolkit([Spoils()], execution_config=AGAIN).call(use("spoils", n=1)).run()
    assert kinds == [dict] * 3


def test_the_last_error_is_the_result_of_all_attempts():
    flaky = Flaky(9)
    found = events(flaky.fetch, AGAIN)
    assert flaky.calls == 3
    assert isinstance(found[-1], ToolResultBlock)
    assert found[-1].text == "Error: ConnectionError: down"


@pytest.mark.parametrize(
    ("error", "calls"),
    [
        (ConnectionError("down"), 3),
        (ToolError("busy", retryable=True), 3),
        (ToolError("no"), 1),
        (ValueError("no"), 1),
    ],
)
def test_by_default_only_retryable_errors_are_retried(error: Exception, calls: int):
    flaky = Flaky(9, error)
    events(flaky.fetch, ExecutionConfig(max_attempts=3, initial_backoff=0))
    assert flaky.calls == calls


def test_a_tool_gets_one_attempt_unless_declared_otherwise():
    flaky = Flaky(9)
    assert len(events(flaky.fetch)) == 1
    assert flaky.calls == 1


def test_tenacity_objects_decide_if_given():
    flaky = Flaky(9)
    events(flaky.fetch, ExecutionConfig(stop=stop_after_attempt(5), wait=wait_none(), retry_on=lambda error: True))
    assert flaky.calls == 5


def test_the_deadline_is_per_attempt():
    attempts: list[int] = []

    async def third() -> str:
        attempts.append(1)
        if len(attempts) < 3:
            await asyncio.Event().wait()
        return "at last"

    *notices, last = events(third, replace(AGAIN, timeout=SHORT))
    assert [type(each) for each in notices] == [ToolRetry, ToolRetry]
    assert isinstance(last, ToolResultBlock)
    assert last.text == "at last"


def test_arguments_that_do_not_fit_are_not_retried():
    assert len(events(add, AGAIN, x="one", y=2)) == 1


def test_disposal_during_the_wait_stops_the_retries():
    flaky = Flaky(9)

    async def main() -> None:
        toolkit = Toolkit([flaky.fetch])
        config = ExecutionConfig(max_attempts=3, initial_backoff=60)
        async with toolkit.call(use("fetch"), config=config) as found:
            async for event in found:
                assert isinstance(event, ToolRetry)
                break

    asyncio.run(main())
    assert flaky.calls == 1


# --- precedence -------------------------------------------------------------------------------------------------


def test_config_precedence_is_tool_given_toolkit_by_field():
    async def late() -> None:
        await asyncio.Event().wait()

    own = tool(name="own", execution_config=ExecutionConfig(timeout=0.02))(late)
    toolkit = Toolkit([late, own], execution_config=ExecutionConfig(timeout=0.03))

    def said(name: str, config: ExecutionConfig | None) -> str:
        block = toolkit.call(use(name), config=config).run()
        assert isinstance(block, ToolResultBlock)
        return block.text.partition("within ")[2]

    given = ExecutionConfig(timeout=0.01)
    assert said("own", given) == "0.02 s"
    assert said("late", given) == "0.01 s"
    assert said("late", None) == "0.03 s"
    assert said("late", ExecutionConfig(max_attempts=1)) == "0.03 s"
    assert said("late", given) == "0.01 s"


def test_a_plan_has_only_the_operators_of_its_config():
    bare = Plan(ExecutionConfig(timeout=None).over(TOOL_DEFAULTS), "x")
    assert (bare.deadlines, bare.policy) == (None, None)
    usual = Plan(TOOL_DEFAULTS, "x")
    assert usual.deadlines is not None
    assert usual.policy is None
    assert Plan(AGAIN, "x").policy is not None
    assert Plan(ExecutionConfig(stop=stop_after_attempt(2)), "x").policy is not None
