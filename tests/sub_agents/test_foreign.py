"""A sub-agent that is no more than an async generator of text: in this process, and behind real HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import httpx
import pytest
from httpx_sse import aconnect_sse

from agentscope_rx import GenerateReason, Msg, ReActAgent
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.events import ActingChunkEvent, ReasoningChunkEvent, event_from_json
from agentscope_rx.messages import ToolResultKind
from agentscope_rx.service import create_app
from agentscope_rx.sub_agents import SubAgent, SubagentsHook, text_agent
from agentscope_rx.testing import HANG, ScriptedModel, run_virtual
from tests.agent.parts import remembered
from tests.agent.sub.parts import assert_all_whole
from tests.service.serving import served
from tests.sub_agents.parts import INTERRUPTED, assert_free, boss, said, send, spawn


class Far:
    """An agent elsewhere: it yields words a second apart, and notes what becomes of it."""

    def __init__(self, *words: str, error: Exception | None = None, seconds: float = 1) -> None:
        self.words = words
        self.error = error
        self.seconds = seconds
        self.asked: list[list[str]] = []
        self.closed = 0

    async def __call__(self, messages: Sequence[Msg]) -> AsyncIterator[str]:
        self.asked.append([message.text for message in messages])
        try:
            for word in self.words:
                await asyncio.sleep(self.seconds)
                yield word
            if self.error is not None:
                raise self.error
        finally:
            self.closed += 1


def far_boss(far: Far, *turns: object) -> ReActAgent:
    return boss(SubagentsHook(SubAgent("far", "Is far.", agent=text_agent("Far", far))), *turns)


def test_its_text_comes_as_it_is_made():
    async def main() -> None:
        far = Far("It ", "is ", "far.")
        agent = far_boss(far, spawn("s", "far", "Where?"), send("t", "far-1"), "Done.")
        chunks: list[tuple[float, str]] = []
        async for event in agent.stream("go"):
            if isinstance(event, ActingChunkEvent) and event.tool_use.id == "s" and event.text:
                chunks.append((asyncio.get_running_loop().time(), event.text))
        assert [(round(at), text) for at, text in chunks[:3]] == [(1, "It "), (2, "is "), (3, "far.")]
        assert said(agent)["s"][1].endswith("It is far.")
        assert far.asked == [["Where?"], ["Where?", "It is far.", "more"]] and far.closed == 2

    run_virtual(main())


def test_an_interruption_closes_it_and_keeps_its_words():
    async def main() -> None:
        far = Far("It ", "is ", "far.")
        agent = far_boss(far, spawn("s", "far"))
        task = agent.call("go").as_task()
        await asyncio.sleep(1.5)
        agent.interrupt()
        assert (await task).generate_reason is GenerateReason.INTERRUPTED
        assert said(agent)["s"][0] is INTERRUPTED and far.closed == 1
        await assert_all_whole(agent.conversation(), remembered(agent))
        assert_free(agent)

    run_virtual(main())


@pytest.mark.parametrize("at", [0.5, 1.5, 2.5, 3.5])
def test_a_disposal_closes_it_wherever_it_is(at: float):
    async def main() -> None:
        far = Far("It ", "is ", "far.")
        agent = far_boss(far, spawn("s", "far"), "Done.")
        subscription = agent.stream("go").subscribe()
        await asyncio.sleep(at)
        subscription.dispose()
        await agent.idle()
        assert far.closed == 1
        await assert_all_whole(agent.conversation(), remembered(agent))
        assert_free(agent)

    run_virtual(main())


@pytest.mark.parametrize("words", [(), ("It ",)])
def test_its_error_is_the_result_and_is_made_once(words: tuple[str, ...]):
    async def main() -> None:
        far = Far(*words, error=OSError("the line is dead"))
        agent = far_boss(far, spawn("s", "far"), "Done.")
        assert (await agent.call("go")).text == "Done."
        kind, text = said(agent)["s"]
        assert kind is ToolResultKind.FAILED and "OSError: the line is dead" in text
        assert (len(far.asked), far.closed) == (1, 1)
        assert_free(agent)

    run_virtual(main())


def test_what_is_no_text_and_no_function():
    async def numbers(messages: Sequence[Msg]) -> AsyncIterator[str]:
        yield 7  # pyright: ignore[reportReturnType]

    agent = boss(
        SubagentsHook(SubAgent("odd", "Is odd.", agent=text_agent("Odd", numbers))), spawn("s", "odd"), "Done."
    )
    agent.call("go").run()
    assert "yields text, and this is none: 7" in said(agent)["s"][1]
    with pytest.raises(ConfigurationError, match="yields text"):
        text_agent("Odd", 7)  # pyright: ignore[reportArgumentType]


def over_http(url: str, ended: asyncio.Event | None = None):
    """A small client of the project's own service: the text of the agent behind it."""

    async def stream(messages: Sequence[Msg]) -> AsyncIterator[str]:
        body = {"text": messages[-1].text}
        try:
            async with (
                httpx.AsyncClient(base_url=url, trust_env=False, timeout=20) as client,
                aconnect_sse(client, "POST", "/run", json=body) as source,
            ):
                async for sent in source.aiter_sse():
                    event = event_from_json(sent.data) if sent.data.startswith("{") else None
                    if isinstance(event, ReasoningChunkEvent):
                        yield event.text
        finally:
            if ended is not None:
                ended.set()

    return stream


def test_an_agent_behind_http_is_a_sub_agent():
    async def main(url: str) -> None:
        agent = boss(
            SubagentsHook(SubAgent("far", "Is far.", agent=text_agent("Far", over_http(url)))),
            spawn("s", "far", "Where are you?"),
            "Done.",
        )
        assert (await agent.call("go")).text == "Done."
        assert said(agent)["s"][1].endswith("Far away, you said: Where are you?")
        assert_free(agent)

    def echo(request) -> list[str]:
        return ["Far away, ", f"you said: {request.messages[-1].text}"]

    with served(create_app(lambda request: ReActAgent("Remote", ScriptedModel(echo)))) as server:
        asyncio.run(main(server.url))


@pytest.mark.parametrize("dispose", [True, False], ids=["disposed", "interrupted"])
def test_a_request_that_hangs_is_closed_at_both_ends(dispose: bool):
    remote = ScriptedModel(["Well, ", HANG])

    async def main(url: str) -> None:
        ended = asyncio.Event()
        heard = asyncio.Event()
        agent = boss(
            SubagentsHook(SubAgent("far", "Is far.", agent=text_agent("Far", over_http(url, ended)))), spawn("s", "far")
        )

        def note(event: object) -> None:
            if isinstance(event, ActingChunkEvent):
                heard.set()

        subscription = agent.stream("go").subscribe(note)
        await asyncio.wait_for(heard.wait(), 20)
        if dispose:
            subscription.dispose()
        else:
            agent.interrupt()
        await asyncio.wait_for(ended.wait(), 20)
        await agent.idle()
        assert_free(agent)

    with served(create_app(lambda request: ReActAgent("Remote", remote))) as server:
        asyncio.run(main(server.url))
    assert len(remote.closed) == 1, "the agent behind the service has stopped, too"


def test_a_server_that_is_not_there_is_a_result():
    agent = boss(
        SubagentsHook(SubAgent("far", "Is far.", agent=text_agent("Far", over_http("http://127.0.0.1:9")))),
        spawn("s", "far"),
        "Done.",
    )
    assert agent.call("go").run().text == "Done."
    assert "ConnectError" in said(agent)["s"][1]
