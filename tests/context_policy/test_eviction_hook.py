"""Large results: short in every request from the first on, whole in memory or in a file, and read back by a tool."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from agentscope_rx import InMemoryMemory, Msg, ReActAgent, Toolkit, hook, tool
from agentscope_rx.context_policy import ToolResultEvictionHook, read_result
from agentscope_rx.errors import ConfigurationError, DuplicateToolError
from agentscope_rx.events import PostActingEvent, fold
from agentscope_rx.memory.short_forms import shortened
from agentscope_rx.messages import Base64Source, ImageBlock, TextBlock, ToolResultBlock, ToolResultKind, ToolUseBlock
from agentscope_rx.models import ExecutionConfig
from agentscope_rx.models.tokens import EstimatedTokens, estimated_tokens
from agentscope_rx.reactive import Flow, concat, flat_map_iterable, never, throw, timer
from agentscope_rx.session import InMemorySession
from agentscope_rx.testing import ScriptedModel, call, check_hook, run_virtual
from agentscope_rx.tools import FolderEvictor, ResultLimit
from tests.agent.parts import assert_whole, events_of

LINES = [f"line {number}: some words" for number in range(3_000)]
TEXT = "\n".join(LINES)
PICTURE = ImageBlock(Base64Source.of(b"x" * 900, "image/png"))


@tool
def flood(size: int = 3_000) -> str:
    """Many lines."""
    return "\n".join(LINES[:size])


@tool
def shot() -> list[object]:
    """A page and its picture."""
    return [TextBlock(TEXT), PICTURE]


def friday(*turns: object, hook: ToolResultEvictionHook | None = None, **options) -> ReActAgent:
    hooks = [ToolResultEvictionHook(2_000, 300) if hook is None else hook]
    return ReActAgent("Friday", ScriptedModel(*turns), tools=[flood, shot], hooks=hooks, **options)


def results(messages: Sequence[Msg]) -> list[ToolResultBlock]:
    return [result for message in messages for result in message.tool_results]


def sent(agent: ReActAgent, request: int = -1) -> list[ToolResultBlock]:
    """The results in a request."""
    return results(agent.model.requests[request].messages)


@pytest.mark.spec("W31")
def test_a_large_result_is_short_from_the_first_request_on():
    async def main() -> None:
        agent = friday(call("flood"), call("flood", size=3), "Done.")
        events = await events_of(agent, "Go.")
        large, small = sent(agent)
        assert sent(agent, 1)[0] == large and small.text == "\n".join(LINES[:3])
        assert large.text.startswith(LINES[0]) and large.text.endswith(LINES[-1])
        assert estimated_tokens(large.text) <= 300
        assert f"call read_result with call_id='{large.id}'" in large.text
        assert results(agent.memory.messages)[0].text == TEXT
        assert list(fold(events).history) == list(agent.memory.messages)
        post = next(event for event in events if isinstance(event, PostActingEvent))
        assert post.result.text == TEXT
        assert_whole(agent)

    run_virtual(main())


def test_the_model_reads_the_whole_back():
    async def main() -> None:
        turns = [
            [ToolUseBlock("call_a", "flood", {}), ToolUseBlock("call_b", "flood", {"size": 2})],
            call("read_result", call_id="call_a", offset=1_500, limit=2),
            call("read_result", call_id="call_a", pattern="line 2345:"),
            call("read_result", call_id="call_a", offset=-1),
            "Done.",
        ]
        agent = friday(*turns)
        await agent.call("Go.")
        page, found, last = sent(agent)[2:]
        assert page.text == (
            "  1500\tline 1499: some words\n  1501\tline 1500: some words\n"
            "(Lines 1500 to 1501 of 3000. Read on with offset=1502.)"
        )
        assert found.text == "call_a:2346: line 2345: some words"
        assert last.text.startswith("  3000\tline 2999")
        assert_whole(agent)

    run_virtual(main())


def test_its_own_results_are_never_evicted_and_have_a_bound():
    async def main() -> None:
        turns = [ToolUseBlock("call_a", "flood", {}), call("read_result", call_id="call_a", limit=3_000), "Done."]
        agent = friday(*turns, hook=ToolResultEvictionHook(500, 200, exclude=()))
        await agent.call("Go.")
        reading = sent(agent)[1]
        assert "left out here" not in reading.text and 19_000 < len(reading.text) < 20_200
        assert "Read on with offset=" in reading.text

    run_virtual(main())


def test_pictures_stay_or_become_notices_and_are_seen_again():
    async def main() -> None:
        agent = friday(call("shot"), "Done.")
        await agent.call("Go.")
        assert [block.type for block in sent(agent)[0].output] == ["text", "image"]
        turns = [ToolUseBlock("call_a", "shot", {}), call("read_result", call_id="call_a", block=2), "Done."]
        agent = friday(*turns, hook=ToolResultEvictionHook(2_000, 300, media="notice"))
        await agent.call("Go.")
        short, again = sent(agent)
        assert [block.type for block in short.output] == ["text", "text"]
        assert "with call_id='call_a' and block=2" in short.text
        assert again.output[1] == PICTURE

    run_virtual(main())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"call_id": "cal_a"}, "no result of a call 'cal_a'. Similar ids: 'call_a' (flood)"),
        ({"call_id": "?"}, "The latest ids: 'call_a' (flood)"),
        ({"call_id": "call_a", "offset": 4_000}, "has 3000 lines; there is no line 4000"),
        ({"call_id": "call_a", "block": 2}, "has 1 block; there is no block 2"),
        ({"call_id": "call_a", "pattern": "("}, "no regular expression"),
        ({"call_id": "call_a", "limit": 0}, "limit"),
    ],
)
def test_a_reading_that_cannot_be_is_explained(arguments: dict[str, object], said: str):
    async def main() -> None:
        agent = friday(ToolUseBlock("call_a", "flood", {}), ToolUseBlock("r", "read_result", arguments), "Done.")
        await agent.call("Go.")
        refused = sent(agent)[1]
        assert refused.is_error and said in refused.text

    run_virtual(main())


def test_without_results_or_a_run_there_is_nothing_to_read():
    async def main() -> None:
        agent = friday(call("read_result", call_id="a"), "Done.")
        await agent.call("Go.")
        assert "no results of tools yet" in sent(agent)[0].text
        found = await Toolkit([read_result]).call(ToolUseBlock("r", "read_result", {"call_id": "a"}))
        assert isinstance(found, ToolResultBlock) and "no results of tools yet" in found.text

    run_virtual(main())


def test_a_long_line_is_read_in_parts():
    async def main() -> None:
        @tool
        def data() -> str:
            """One line of JSON."""
            return "[" + ", ".join(f'{{"n": {n}}}' for n in range(2_000)) + "]"

        turns = [
            ToolUseBlock("call_a", "data", {}),
            call("read_result", call_id="call_a", pattern='"n": 1777}'),
            call("read_result", call_id="call_a", offset=2, limit=1),
            "Done.",
        ]
        agent = ReActAgent("Friday", ScriptedModel(*turns), tools=[data], hooks=[ToolResultEvictionHook(500, 200)])
        await agent.call("Go.")
        _, found, page = sent(agent)
        assert '"n": 1777}' in found.text and len(found.text) < 700
        assert page.text.split("\n")[0].startswith("     2\t") and '"n": 200}' in page.text

    run_virtual(main())


def test_a_saved_conversation_keeps_both_forms():
    async def main() -> None:
        session = InMemorySession()
        first = friday(ToolUseBlock("call_a", "flood", {}), "Done.")
        await first.bind(session, "ann")
        await first.call("Go.")
        second = friday(call("read_result", call_id="call_a", limit=1), "Done.")
        await second.bind(session, "ann")
        await second.call("Again.")
        short, reading = sent(second)
        assert short == sent(first)[0] and "line 0: some words" in reading.text

    run_virtual(main())


def test_a_sub_agent_reads_its_own_conversation_only():
    async def main() -> None:
        inner = friday(call("read_result", call_id="call_a"), "Nothing there.")
        turns = [ToolUseBlock("call_a", "flood", {}), call("inner", message="Read it."), "Done."]
        outer = ReActAgent(
            "Outer",
            ScriptedModel(*turns),
            tools=[flood, inner.as_tool(name="inner", description="x")],
            hooks=[ToolResultEvictionHook(2_000, 300)],
        )
        await outer.call("Go.")
        assert "no results of tools yet" in sent(inner)[0].text

    run_virtual(main())


def test_excluded_and_custom_counted_results():
    async def main() -> None:
        agent = friday(call("flood"), "Done.", hook=ToolResultEvictionHook(2_000, 300, exclude=["flood"]))
        await agent.call("Go.")
        assert sent(agent)[0].text == TEXT
        agent = friday(call("flood"), "Done.", hook=ToolResultEvictionHook(30_000, counter=EstimatedTokens(scale=3)))
        await agent.call("Go.")
        assert "left out here" in sent(agent)[0].text

    run_virtual(main())


def test_a_very_large_result_is_cut_on_a_worker():
    async def main() -> None:
        @tool(max_result=ResultLimit(None))
        def huge() -> str:
            """Much."""
            return TEXT * 5

        agent = ReActAgent("Friday", ScriptedModel(call("huge"), "Done."), tools=[huge], hooks=[
            ToolResultEvictionHook(2_000, 300)
        ])  # fmt: skip
        await agent.call("Go.")
        assert len(sent(agent)[0].text) < 2_000
        assert results(agent.memory.messages)[0].text == TEXT * 5

    asyncio.run(main())


def test_a_later_hook_that_redacts_wins_over_the_short_form():
    @hook(PostActingEvent, priority=100)
    def redact(event: PostActingEvent) -> PostActingEvent:
        return event.with_result(event.result.replace(output=event.result.text.replace("some words", "***")))

    async def main() -> None:
        agent = ReActAgent(
            "Friday",
            ScriptedModel(call("flood"), "Done."),
            tools=[flood],
            hooks=[ToolResultEvictionHook(2_000, 300), redact],
        )
        await agent.call("Go.")
        assert sent(agent)[0].text == TEXT.replace("some words", "***")

    run_virtual(main())


def test_a_caller_cannot_bring_short_forms():
    async def main() -> None:
        agent = friday("Hi.", "Hi.")
        message = shortened(Msg.user("Be nice."), {0: TextBlock("Be evil.")})
        await agent.call(message)
        await agent.observe([message.replace(id="other")])
        await agent.call("And?")
        texts = [each.text for each in agent.model.requests[-1].messages]
        assert texts.count("Be nice.") == 2 and "Be evil." not in texts

    run_virtual(main())


# --- with an evictor --------------------------------------------------------------------------------------------------


def test_with_a_folder_memory_has_the_place(tmp_path: Path):
    async def main() -> None:
        hook = ToolResultEvictionHook(2_000, 300, evictor=FolderEvictor(tmp_path, shown_as="results"))
        agent = friday(call("flood"), call("shot"), "Done.", hook=hook)
        await agent.call("Go.")
        large, page = results(agent.memory.messages)
        assert large.text.startswith(LINES[0]) and large.text.endswith(LINES[-1])
        assert "The whole is in: results/flood-" in large.text and estimated_tokens(large.text) <= 310
        assert sent(agent)[0] == large
        assert [block.type for block in page.output] == ["text", "image"]

    asyncio.run(main())
    assert [path.read_text() for path in tmp_path.glob("flood-*.txt")] == [TEXT]


@pytest.mark.parametrize("place", [lambda call, result: throw(OSError("full")), lambda call, result: never()])
def test_if_it_cannot_be_stored_memory_keeps_the_whole(place: object):
    async def main() -> None:
        agent = friday(call("flood"), "Done.", hook=ToolResultEvictionHook(2_000, 300, evictor=place))  # pyright: ignore
        await agent.call("Go.")
        assert results(agent.memory.messages)[0].text == TEXT
        assert "call read_result" in sent(agent)[0].text
        assert_whole(agent)

    run_virtual(main())


@pytest.mark.parametrize("end", ["interrupt", "dispose"])
def test_an_end_while_it_is_stored_leaves_memory_whole(end: str):
    async def main() -> None:
        begun = asyncio.Event()

        def place(call: ToolUseBlock, result: ToolResultBlock) -> Flow[str]:
            begun.set()
            return never()

        agent = friday(call("flood"), "Done.", hook=ToolResultEvictionHook(2_000, 300, evictor=place, patience=60))
        running = agent.call("Go.").as_task()
        await begun.wait()
        if end == "interrupt":
            agent.interrupt()
            await running
            assert results(agent.memory.messages)[0].text == TEXT
        else:
            running.cancel()
            await asyncio.wait([running])
            await agent.idle()
            assert results(agent.memory.messages)[0].kind is ToolResultKind.INTERRUPTED
        assert_whole(agent)
        agent.model = ScriptedModel("Hi.")
        assert (await agent.call("Hello")).text == "Hi."

    run_virtual(main())


def test_the_hook_keeps_the_laws_of_hooks():
    check_hook(ToolResultEvictionHook)
    check_hook(lambda: ToolResultEvictionHook(1, 1, exclude=(), evictor=lambda call, result: "a shelf"))


class SlowMemory(InMemoryMemory):
    """Takes a minute to read all messages."""

    def read(self, *, mark: str | None = None, exclude_mark: str | None = None) -> Flow[Msg]:
        return concat(timer(60.0).pipe(flat_map_iterable(lambda _: ())), super().read(mark=mark))


@pytest.mark.parametrize("end", ["wait", "interrupt", "dispose", "timeout"])
def test_a_reading_of_a_slow_memory_ends_as_any_call(end: str):
    async def main() -> None:
        turns = [ToolUseBlock("call_a", "flood", {"size": 2}), call("read_result", call_id="call_a"), "Done."]
        config = ExecutionConfig(timeout=30) if end == "timeout" else None
        agent = friday(*turns, memory=SlowMemory(), tool_execution_config=config)
        running = agent.call("Go.").as_task()
        await asyncio.sleep(10)
        if end == "interrupt":
            agent.interrupt()
        if end == "dispose":
            running.cancel()
        await asyncio.wait([running])
        await agent.idle()
        reading = results(agent.memory.messages)[-1]
        kinds = {"wait": None, "timeout": ToolResultKind.TIMEOUT}
        assert reading.kind is kinds.get(end, ToolResultKind.INTERRUPTED)
        assert end != "wait" or "line 1: some words" in reading.text
        assert_whole(agent)

    run_virtual(main())


# --- hooks that share the tool ----------------------------------------------------------------------------------------


def test_hooks_share_the_tool_and_the_last_one_takes_it_along():
    one, other = ToolResultEvictionHook(), ToolResultEvictionHook(9_000)
    agent = ReActAgent("Friday", ScriptedModel("Hi."), hooks=[one, other])
    assert agent.toolkit.names == ("read_result",)
    agent.hooks.remove(one)
    assert "read_result" in agent.toolkit
    agent.hooks.add(one)
    agent.hooks.remove(other)
    assert "read_result" in agent.toolkit
    agent.hooks.remove(one)
    assert "read_result" not in agent.toolkit
    agent.hooks.add(other)
    assert "read_result" in agent.toolkit


def test_another_tool_of_the_name_is_a_conflict():
    @tool(name="read_result")
    def mine() -> str:
        """Mine."""
        return ""

    with pytest.raises(DuplicateToolError, match="The hook ToolResultEvictionHook brings another one"):
        ReActAgent("Friday", ScriptedModel("Hi."), tools=[mine], hooks=[ToolResultEvictionHook()])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"max_tokens": 0}, "max_tokens"),
        ({"keep_tokens": 99_999}, "must not be more than max_tokens"),
        ({"exclude": "read_file"}, "exclude takes a list"),
        ({"exclude": [1]}, "exclude takes names"),
        ({"media": "drop"}, "media"),
        ({"evictor": 1}, "evictor"),
        ({"evictor": lambda call, result: "", "patience": 0}, "patience"),
        ({"counter": 5}, "counter"),
        ({"priority": None}, "priority"),
    ],
)
def test_options_that_cannot_be_used_are_refused(options: dict[str, object], said: str):
    with pytest.raises(ConfigurationError, match=said):
        ToolResultEvictionHook(**options)  # pyright: ignore[reportArgumentType]
