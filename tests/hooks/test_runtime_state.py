"""The runtime state: added when it has changed, kept in its place for prompt caches, and in no memory."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentscope_rx import InMemoryMemory, ReActAgent, tool
from agentscope_rx.errors import ConfigurationError, InvalidInputError
from agentscope_rx.hooks import RuntimeStateHook
from agentscope_rx.messages import ChatUsage
from agentscope_rx.models import ChatResponse
from agentscope_rx.parts import PartState
from agentscope_rx.planning import TodoList
from agentscope_rx.reactive import empty, just, never, throw
from agentscope_rx.session import InMemorySession
from agentscope_rx.testing import ScriptedModel, call, check_hook, collect_dropped, run_virtual
from tests.agent.parts import assert_whole

START = datetime(2026, 11, 23, 9, 58, tzinfo=UTC)
Z = timezone(timedelta(hours=1))


class Clock:
    """A clock that follows the virtual time of the loop."""

    def __init__(self) -> None:
        self.began: float | None = None

    def __call__(self) -> datetime:
        now = asyncio.get_running_loop().time()
        if self.began is None:
            self.began = now
        return START + timedelta(seconds=now - self.began)


@tool
async def wait(seconds: float) -> str:
    """Wait."""
    await asyncio.sleep(seconds)
    return "waited"


def friday(*turns: object, hook: RuntimeStateHook, **options) -> ReActAgent:
    return ReActAgent("Friday", ScriptedModel(*turns), tools=[wait], hooks=[hook], max_iters=40, **options)


def requests(agent: ReActAgent) -> list[list[str]]:
    """The messages of each request as a model reads them, without their ids."""
    return [
        [f"{message.role}: {message.text or repr(message.content)}" for message in request.messages]
        for request in agent.model.requests
    ]


def states(agent: ReActAgent, request: int = -1) -> list[str]:
    texts = [message.text for message in agent.model.requests[request].messages]
    return [text for text in texts if "<system-hint>" in text]


def test_a_state_is_added_when_it_changes_and_stays():
    async def main() -> None:
        hook = RuntimeStateHook(minutes=10, zone=Z, folder="/work", clock=Clock())
        agent = friday(call("wait", seconds=30), call("wait", seconds=300), "Done.", "And done.", hook=hook)
        await agent.call("Go.")
        first, second, third = requests(agent)
        assert states(agent, 0) == [
            "<system-hint>\nThe state now:\n- Time: Monday, 2026-11-23 10:58 (UTC+01:00)\n"
            "- Working folder: /work\n</system-hint>"
        ]
        assert second[: len(first)] == first and third[: len(second)] == second
        assert len(states(agent, 1)) == 1 and len(states(agent, 2)) == 2
        assert "11:03" in third[-1]
        await agent.call("Again.")
        fourth = requests(agent)[-1]
        assert fourth[: len(third)] == third and len(states(agent)) == 2 and fourth[-1] == "user: Again."
        assert not any("system-hint" in message.text for message in agent.memory.messages)
        assert_whole(agent)

    run_virtual(main())


@settings(max_examples=25)
@given(st.lists(st.sampled_from([1, 200, 700]), min_size=1, max_size=30))
def test_each_request_begins_with_the_one_before(waits: list[int]):
    async def main() -> None:
        hook = RuntimeStateHook(minutes=10, zone=Z, clock=Clock())
        agent = friday(*[call("wait", seconds=each) for each in waits], "Done.", hook=hook)
        await agent.call("Go.")
        sent = requests(agent)
        breaks = sum(after[: len(before)] != before for before, after in pairwise(sent))
        assert breaks <= sum(each == 700 for each in waits) // 8
        assert all(len(states(agent, n)) <= 16 for n in range(len(sent)))

    run_virtual(main())


def test_the_room_in_the_window_is_told_in_steps():
    async def main() -> None:
        def turn(tokens: int, *content: object) -> list[object]:
            return [*content, ChatResponse(usage=ChatUsage(tokens, 10))]

        turns = [turn(tokens, call("wait", seconds=1)) for tokens in (100, 150, 400, 950, 2_000)]
        agent = friday(*turns, "Done.", hook=RuntimeStateHook(minutes=None, window=1_000))
        await agent.call("Go.")
        found = [states(agent, number)[-1].split("\n")[2] for number in range(6)]
        assert [line.removeprefix("- Room left in the context window: ") for line in found] == [
            "about 90% of 1,000 tokens",
            "about 80% of 1,000 tokens",
            "about 80% of 1,000 tokens",
            "about 50% of 1,000 tokens",
            "less than 10% of 1,000 tokens",
            "less than 10% of 1,000 tokens",
        ]
        assert [len(states(agent, number)) for number in range(6)] == [1, 2, 2, 3, 4, 4]

    run_virtual(main())


def test_open_tasks_are_those_of_the_conversation():
    async def main() -> None:
        todos = TodoList()

        def tasks(source: object) -> list[str]:
            return [each.content for each in todos.todos(source) if each.state != "done"]  # pyright: ignore

        write = call("write_todos", todos=[{"content": "read\nit", "state": "in_progress"}, {"content": "write"}])
        done = call("write_todos", todos=[{"content": "read", "state": "done"}, {"content": "write", "state": "done"}])
        hook = RuntimeStateHook(minutes=None, tasks=tasks)
        agent = ReActAgent("Friday", ScriptedModel(write, done, "Done.", "Hi."), hooks=[todos, hook])
        await agent.call("Go.")
        lines = [text.split("\n")[2] for text in states(agent) if "state now" in text]
        assert lines == ["- Open tasks: none", "- Open tasks: read it; write", "- Open tasks: none"]
        await agent.call("Hello", memory=InMemoryMemory())
        assert len([text for text in states(agent) if "state now" in text]) == 1

    run_virtual(main())


def test_facts_are_told_by_name_at_once_or_later():
    async def main() -> None:
        branch = ["main"]

        async def slowly() -> str:
            await asyncio.sleep(2)
            return "3 files </system-hint>"

        facts = {"branch": lambda: branch[0], "changed": slowly, "seen": lambda: just(7), "none": lambda: None}
        hook = RuntimeStateHook(minutes=None, facts={**facts, "nothing": empty})
        agent = friday(call("wait", seconds=1), "Done.", hook=hook)
        await agent.call("Go.")
        assert states(agent, 1) == [
            "<system-hint>\nThe state now:\n- branch: main\n- changed: 3 files &lt;/system-hint>\n- seen: 7\n"
            "</system-hint>"
        ]
        branch[0] = "next"
        agent.model = ScriptedModel("Done.")
        await agent.call("Again.")
        assert "- branch: next" in states(agent)[-1] and len(states(agent)) == 2

    run_virtual(main())


def test_a_fact_that_fails_is_not_known_and_reported():
    async def main() -> None:
        def broken() -> str:
            raise OSError("no disk")

        def listed(source: object) -> list[str]:
            raise ValueError("no list")

        facts = {"disk": broken, "late": never, "bad": lambda: throw(OSError("no net"))}
        hook = RuntimeStateHook(minutes=None, tasks=listed, facts=facts, fact_timeout=2)
        agent = friday("Done.", hook=hook)
        with collect_dropped() as dropped:
            assert (await agent.call("Go.")).text == "Done."
        assert states(agent)[0].count("not known") == 4
        texts = sorted(str(error) for error in dropped)
        assert len(texts) == 4 and any("within 2 s" in text for text in texts)

    run_virtual(main())


def test_the_hook_keeps_the_laws_of_hooks():
    check_hook(RuntimeStateHook)
    check_hook(lambda: RuntimeStateHook(facts={"one": lambda: just(1), "two": lambda: 2}))


@pytest.mark.parametrize("end", ["interrupt", "dispose"])
def test_an_end_while_a_fact_is_told(end: str):
    async def main() -> None:
        agent = friday("Done.", hook=RuntimeStateHook(minutes=None, facts={"late": never}, fact_timeout=60))
        running = agent.call("Go.").as_task()
        await asyncio.sleep(1)
        if end == "interrupt":
            agent.interrupt()
        else:
            running.cancel()
        with collect_dropped():
            await asyncio.wait([running])
        await agent.idle()
        assert_whole(agent)

    run_virtual(main())


def test_a_state_goes_with_the_message_before_it():
    async def main() -> None:
        hook = RuntimeStateHook(minutes=None, folder="/work")
        agent = friday("One.", "Two.", hook=hook)
        await agent.call("First.")
        await agent.memory.delete([agent.memory.messages[0].id])
        await agent.call("Second.")
        assert requests(agent)[-1][-1] == f"user: {states(agent)[0]}" and len(states(agent)) == 1

    run_virtual(main())


def test_places_are_saved_with_the_conversation():
    async def main() -> None:
        session, clock = InMemorySession(), Clock()
        first = friday("One.", hook=RuntimeStateHook(clock=clock, zone=Z))
        await first.bind(session, "ann")
        await first.call("First.")
        second = friday("Two.", hook=RuntimeStateHook(clock=clock, zone=Z))
        await second.bind(session, "ann")
        await second.call("Second.")
        before, after = requests(first)[0], requests(second)[0]
        assert after[: len(before)] == before and len(states(second)) == 1

    run_virtual(main())


def test_the_summary_request_has_the_states_in_their_places():
    async def main() -> None:
        hook = RuntimeStateHook(minutes=None, folder="/work")
        agent = ReActAgent(
            "Friday", ScriptedModel(call("wait", seconds=1), "That was all."), tools=[wait], hooks=[hook], max_iters=1
        )
        await agent.call("Go.")
        before, after = requests(agent)
        assert after[: len(before)] == before

    run_virtual(main())


def test_a_state_that_cannot_be_read_is_named():
    async def main() -> None:
        agent = friday("Hi.", hook=RuntimeStateHook())
        agent.conversation().parts.swap("runtime_state", None, PartState(1, ["?"]))
        with pytest.raises(InvalidInputError, match="runtime state"):
            await agent.call("Hello")

    run_virtual(main())


def test_a_clock_without_a_zone_is_refused():
    async def main() -> None:
        agent = friday("Hi.", hook=RuntimeStateHook(clock=lambda: START.replace(tzinfo=None)))
        with pytest.raises(ConfigurationError, match="datetime with a zone"):
            await agent.call("Hello")

    run_virtual(main())


def test_zones_and_windows_by_name():
    assert str(RuntimeStateHook(zone="Europe/Berlin").zone) == "Europe/Berlin"
    model = ScriptedModel("Hi.", model_name="gpt-5-mini")
    model.provider = "openai"
    assert RuntimeStateHook(window=model).window == 400_000


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"minutes": 0}, "minutes"),
        ({"zone": "Europe/Berlim"}, "Europe/Berlim"),
        ({"zone": 5}, "zone"),
        ({"window": 0}, "window"),
        ({"window": ScriptedModel("a")}, "unknown"),
        ({"tasks": ["a"]}, "tasks must be a function"),
        ({"facts": {"branch": "main"}}, "branch must be a function"),
        ({"fact_timeout": 0}, "fact_timeout"),
        ({"clock": START}, "clock must be a function"),
        ({"priority": "last"}, "priority"),
    ],
)
def test_options_that_cannot_be_used_are_refused(options: dict[str, object], said: str):
    with pytest.raises(ConfigurationError, match=said):
        RuntimeStateHook(**options)  # pyright: ignore[reportArgumentType]
