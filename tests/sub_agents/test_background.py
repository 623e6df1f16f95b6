"""Sub-agents in the background: at once, or after the seconds that the model gives; their ends come as messages."""

from __future__ import annotations

import asyncio

import pytest

from agentscope_rx import InMemorySession, ReActAgent
from agentscope_rx.agent.background.hook import BackgroundHook
from agentscope_rx.events import BackgroundEvent, Event
from agentscope_rx.sub_agents import SubAgentLimits, SubagentsHook
from agentscope_rx.testing import Delay, call, run_virtual
from tests.agent.parts import remembered
from tests.agent.sub.parts import assert_all_whole
from tests.sub_agents.parts import FAILED, Log, assert_free, boss, helper, listing, said, send, spawn


def ends(agent: ReActAgent) -> list[str]:
    """The texts of the messages with results that came later."""
    return [message.text for message in remembered(agent) if "<background_result" in message.text]


def test_with_0_seconds_it_is_in_the_background_at_once():
    async def main() -> None:
        agent = boss(
            helper([Delay(5), "Found."]),
            spawn("s", label="h", timeout_seconds=0),
            listing("l"),
            "I wait.",
            "It is found.",
        )
        assert (await agent.call("go")).text == "It is found."
        assert asyncio.get_running_loop().time() == pytest.approx(5, abs=0.1)
        assert "goes on in the background" in said(agent)["s"][1]
        assert "label: h" in said(agent)["l"][1] and "status: working" in said(agent)["l"][1]
        (end,) = ends(agent)
        assert "status: ok\nlabel: h\nconversation_id: " in end and "Found." in end
        assert_free(agent)
        await assert_all_whole(agent.conversation(), remembered(agent))

    run_virtual(main())


@pytest.mark.parametrize(("seconds", "promoted"), [({}, 30), ({"timeout_seconds": 2}, 2)])
def test_it_goes_on_in_the_background_after_its_time(seconds: dict[str, float], promoted: float):
    async def main() -> None:
        agent = boss(helper([Delay(60), "Found."]), spawn("s", **seconds), "I wait.", "It is found.")
        events: list[tuple[float, Event]] = []
        async for event in agent.stream("go"):
            events.append((asyncio.get_running_loop().time(), event))
        background = [(at, event.state) for at, event in events if isinstance(event, BackgroundEvent)]
        assert background[0] == (pytest.approx(promoted, abs=0.1), "promoted")
        assert background[-1] == (pytest.approx(60, abs=0.1), "completed")
        assert len(ends(agent)) == 1
        assert_free(agent)

    run_virtual(main())


def test_one_that_is_in_time_stays_in_the_foreground():
    agent = boss(helper([Delay(1), "Found."]), spawn("s", timeout_seconds=5), "Done.")

    async def main() -> None:
        assert (await agent.call("go")).text == "Done."
        assert said(agent)["s"][1].endswith("Found.") and ends(agent) == []

    run_virtual(main())


def test_one_that_works_takes_no_message_and_counts():
    async def main() -> None:
        hook = SubagentsHook(helper([Delay(5), "a"], "b"), limits=SubAgentLimits(at_once=1))
        calls = [send("t", "h"), spawn("u")]
        agent = boss(hook, spawn("s", label="h", timeout_seconds=0), calls, "I wait.", send("v", "h"), "Done.")
        assert (await agent.call("go")).text == "Done."
        assert said(agent)["t"][0] is FAILED and "has not ended what it does" in said(agent)["t"][1]
        assert "at most 1 may at once" in said(agent)["u"][1]
        assert said(agent)["v"][1].endswith("b")
        assert_free(agent)

    run_virtual(main())


def test_a_failure_in_the_background_is_a_message():
    async def main() -> None:
        agent = boss(helper([Delay(2), RuntimeError("no luck")]), spawn("s", timeout_seconds=0), "I wait.", "Well.")
        assert (await agent.call("go")).text == "Well."
        (end,) = ends(agent)
        assert "no luck" in end and 'state="failed"' in end
        assert_free(agent)

    run_virtual(main())


@pytest.mark.parametrize("at", [0.5, 1.5, 4.5])
def test_a_run_that_is_disposed_leaves_none_of_it(at: float):
    log = Log()

    async def main() -> None:
        agent = boss(
            SubagentsHook(helper([Delay(1), call("slow", seconds=3)], "x", tools=["slow"])),
            [spawn("s", timeout_seconds=0), spawn("u", timeout_seconds=2)],
            "I wait.",
            "Done.",
            tools=[log],
            hooks=[BackgroundHook(wait="stop")],
        )
        subscription = agent.stream("go").subscribe()
        await asyncio.sleep(at)
        subscription.dispose()
        await agent.idle()
        await asyncio.sleep(30)
        await assert_all_whole(agent.conversation(), remembered(agent))
        assert_free(agent)
        assert log.done.count("began") == log.done.count("ended")

    run_virtual(main())


def test_it_is_stopped_by_the_tool_of_background_work():
    log = Log()

    async def main() -> None:
        agent = boss(
            SubagentsHook(helper(call("slow", seconds=100), "late", "Back.", tools=["slow"])),
            spawn("s", label="h", timeout_seconds=0),
            [Delay(1), lambda request: call("background_stop", job=_job(request))],
            send("t", "h"),
            "Done.",
            tools=[log],
            hooks=[BackgroundHook()],
        )
        await agent.call("go")
        assert asyncio.get_running_loop().time() < 10
        assert log.done == ["began", "ended"]
        await assert_all_whole(agent.conversation(), remembered(agent))
        assert_free(agent)

    run_virtual(main())


def _job(request: object) -> str:
    texts = [m for m in request.messages if m.tool_results]  # pyright: ignore[reportAttributeAccessIssue]
    return texts[-1].tool_results[0].metadata["background"]["job"]


def test_one_that_another_process_has_lost_goes_on():
    """It is run again from its own conversation, and its label is still there."""
    session, log = InMemorySession(), Log()

    async def main() -> None:
        hooks = [BackgroundHook(wait="leave")]
        first = helper([call("look", "l", path="x")], [Delay(1000), "never"], tools=["look"])
        one = boss(first, spawn("s", label="h", timeout_seconds=0), "I go.", tools=[log], hooks=hooks)
        assert (await one.call("go")).text == "I go."
        await asyncio.sleep(5)
        await one.save(session, "k")
        second = helper("Found.", "More.", tools=["look"])
        other = boss(second, listing("l"), "I wait.", send("t", "h"), "Done.", tools=[log], hooks=[BackgroundHook()])
        await other.bind(session, "k", checkpoint="stage")
        reply = await other.call("and?")
        assert reply.text == "Done.", [message.text for message in remembered(other)]
        assert "label: h, agent: helper" in said(other)["l"][1]
        (end,) = ends(other)
        assert "status: ok\nlabel: h" in end and "Found." in end
        assert said(other)["t"][1].endswith("More.") and log.done == ["look x"]
        assert_free(other)
        one.background().stop()
        await one.idle()

    run_virtual(main())
