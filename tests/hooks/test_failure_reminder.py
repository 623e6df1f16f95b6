"""The reminder after equal failing calls: counted in the conversation, told once, forgotten after a success."""

from __future__ import annotations

import asyncio
from typing import Literal

import pytest

from agentscope_rx import GenerateReason, InMemoryMemory, ReActAgent, tool
from agentscope_rx.errors import ConfigurationError, InvalidInputError
from agentscope_rx.hooks import FailureReminderHook
from agentscope_rx.messages import ToolResultKind
from agentscope_rx.parts import PartState
from agentscope_rx.session import InMemorySession
from agentscope_rx.testing import ScriptedModel, call, check_hook, run_virtual
from tests.agent.parts import assert_whole


@tool
def fetch(url: str, tries: int = 1) -> str:
    """Fetch a page."""
    if url == "good":
        return "a page"
    raise ValueError(f"no answer from {url if url.startswith('http') else 'it'}")


def friday(*turns: object, reminder: FailureReminderHook | None = None, **options) -> ReActAgent:
    hooks = [FailureReminderHook() if reminder is None else reminder]
    return ReActAgent("Friday", ScriptedModel(*turns), tools=[fetch], hooks=hooks, max_iters=30, **options)


def hints(agent: ReActAgent) -> list[str | None]:
    """The hint of each request, None for one without."""
    last = [request.messages[-1].text for request in agent.model.requests]
    return [text if "<system-hint>" in text else None for text in last]


def bad():
    return call("fetch", url="http://a")


def test_the_third_equal_failure_gives_a_hint_in_one_request():
    async def main() -> None:
        agent = friday(bad(), bad(), bad(), call("fetch", url="good"), "Done.")
        await agent.call("Read it.")
        found = hints(agent)
        assert [hint is not None for hint in found] == [False, False, False, True, False]
        hint = found[3] or ""
        assert "'fetch'" in hint and '{"url": "http://a"}' in hint and "failed 3 times" in hint
        assert "ValueError: no answer from http://a" in hint and "another way" in hint
        assert not any("system-hint" in message.text for message in agent.memory.messages)
        assert_whole(agent)

    run_virtual(main())


def test_calls_between_do_not_matter_and_a_success_forgets():
    async def main() -> None:
        other = call("fetch", url="http://b")
        agent = friday(bad(), other, bad(), other, "Hm.", bad(), "Done.")
        await agent.call("Read it.")
        assert hints(agent) == [None] * 5
        await agent.call("Again.")
        assert "failed 3 times" in (hints(agent)[-1] or "")

        mended: list[bool] = []

        @tool
        def flaky() -> str:
            """Works at the third time."""
            mended.append(True)
            if len(mended) % 3:
                raise ValueError("not yet")
            return "ok"

        agent = ReActAgent("Friday", ScriptedModel(*[call("flaky")] * 8, "Done."), tools=[flaky], hooks=[
            FailureReminderHook()
        ])  # fmt: skip
        await agent.call("Go.")
        assert hints(agent) == [None] * 9

    run_virtual(main())


def test_arguments_in_another_order_are_the_same():
    async def main() -> None:
        one, other = call("fetch", url="http://a", tries=2), call("fetch", tries=2, url="http://a")
        agent = friday(one, other, one, "Done.")
        await agent.call("Read it.")
        assert hints(agent)[3] is not None

    run_virtual(main())


def test_the_same_error_counts_whatever_the_arguments():
    async def main() -> None:
        turns = [call("fetch", url=name) for name in ("a", "b", "c")]
        agent = friday(*turns, "Done.")
        await agent.call("Read it.")
        assert hints(agent) == [None] * 4
        agent = friday(*turns, "Done.", reminder=FailureReminderHook(same="error"))
        await agent.call("Read it.")
        assert "with the same error: Error: ValueError: no answer from it" in (hints(agent)[3] or "")

    run_virtual(main())


def test_unknown_tools_and_wrong_arguments_count_too():
    async def main() -> None:
        turns = [call("fetsch", url="a")] * 3 + [call("fetch", page="a")] * 3
        agent = friday(*turns, "Done.")
        await agent.call("Read it.")
        assert "'fetsch'" in (hints(agent)[3] or "") and "'fetch'" in (hints(agent)[6] or "")

    run_virtual(main())


def test_parallel_failures_count_in_call_order():
    async def main() -> None:
        agent = friday([bad(), bad(), bad()], "Done.")
        await agent.call("Read it.")
        assert "failed 3 times" in (hints(agent)[1] or "")

    run_virtual(main())


def test_enough_failures_end_the_run_and_the_count_begins_anew():
    async def main() -> None:
        agent = friday(*[bad() for _ in range(4)], bad(), "Done.", reminder=FailureReminderHook(2, stop_after=4))
        reply = await agent.call("Read it.")
        assert reply.generate_reason is GenerateReason.ACTING_STOP_REQUESTED
        assert len(agent.model.requests) == 4
        assert [hint is not None for hint in hints(agent)] == [False, False, True, True]
        assert_whole(agent)
        reply = await agent.call("Once more.")
        assert reply.text == "Done."

    run_virtual(main())


def test_counts_belong_to_the_conversation_and_are_saved():
    async def main() -> None:
        session, reminder = InMemorySession(), FailureReminderHook()
        first = friday(bad(), bad(), "Hm.", bad(), "Hm.", reminder=reminder)
        await first.bind(session, "ann")
        await first.call("Read it.")
        await first.call("Read it.", memory=InMemoryMemory())
        assert hints(first) == [None] * 5
        second = friday(bad(), "Done.", reminder=FailureReminderHook())
        await second.bind(session, "ann")
        await second.call("Go on.")
        assert hints(second)[0] is None and "failed 3 times" in (hints(second)[1] or "")

    run_virtual(main())


def test_interrupted_calls_are_not_counted():
    async def main() -> None:
        @tool
        async def slow() -> str:
            """Slow."""
            agent.interrupt()
            await asyncio.sleep(10)
            return "never"

        agent = ReActAgent("Friday", ScriptedModel(*[call("slow")] * 3, "Done."), tools=[slow], hooks=[
            FailureReminderHook(1)
        ])  # fmt: skip
        for _ in range(3):
            await agent.call("Go.")
        await agent.call("Go.")
        results = [result for message in agent.memory.messages for result in message.tool_results]
        assert [result.kind for result in results] == [ToolResultKind.INTERRUPTED] * 3
        assert all(hint is None for hint in hints(agent))
        assert_whole(agent)

    run_virtual(main())


def test_the_hook_keeps_the_laws_of_hooks():
    check_hook(FailureReminderHook)
    check_hook(lambda: FailureReminderHook(1, same="error", stop_after=1))


def test_the_number_of_calls_that_are_counted_is_bounded():
    async def main() -> None:
        turns = [call("fetch", url=f"http://{n}") for n in range(80)]
        agent = friday([bad(), bad()], turns, bad(), "Done.", reminder=FailureReminderHook())
        await agent.call("Read it.")
        assert hints(agent)[-1] is None
        rows = agent.conversation().parts.dump()["failing_calls"]["state"]
        assert isinstance(rows, list) and len(rows) == 64

    run_virtual(main())


@pytest.mark.parametrize("state", [{"a": 1}, [[1, 2]], "text"])
def test_a_state_that_cannot_be_read_is_named(state: object):
    async def main() -> None:
        agent = friday("Hi.")
        agent.conversation().parts.swap("failing_calls", None, PartState(1, state))
        with pytest.raises(InvalidInputError, match="state of failing calls"):
            await agent.call("Hello")

    run_virtual(main())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"after": 0}, "after must be"),
        ({"after": True}, "after must be"),
        ({"same": "tool"}, "same must be"),
        ({"stop_after": 2}, "before the reminder"),
        ({"stop_after": "5"}, "stop_after must be"),
        ({"priority": "high"}, "priority"),
        ({"name": ""}, "name"),
    ],
)
def test_options_that_cannot_be_used_are_refused(options: dict[str, Literal[0]], said: str):
    with pytest.raises(ConfigurationError, match=said):
        FailureReminderHook(**options)
