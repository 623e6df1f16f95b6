"""What a server asks in the middle of a call: a suspension, a function's answer, a model's; also after a restart."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from agentscope_rx import GenerateReason, Msg, ReActAgent, Toolkit
from agentscope_rx.errors import InvalidInputError
from agentscope_rx.events import PostActingEvent
from agentscope_rx.messages import ToolResultBlock, ToolResultKind
from agentscope_rx.reactive.kernel.runtime import library_loop
from agentscope_rx.testing import ScriptedModel
from agentscope_rx.testing.scripted_model import call as called
from agentscope_rx.tools.mcp import Elicitation, McpClient, McpInMemory
from tests.mcp.parts import begun, call, far, near, use
from tests.support import mcp_server

BOTH = pytest.mark.parametrize("mode", ["auto", "legacy"])


@contextmanager
def asking(mode: str, tools: mcp_server.Tools | None = None, **options: Any) -> Iterator[tuple[Toolkit, McpClient]]:
    with near(tools, mode=mode, **options) as toolkit:
        yield toolkit, toolkit.mcp["demo"]


def messages(agent: ReActAgent) -> Sequence[Msg]:
    return agent.memory.get().run()


def test_a_server_that_has_forgotten_the_question() -> None:
    """The call is made from its beginning then, with the answer at hand."""

    class Forgetful(mcp_server.Tools):
        async def do_ask(self, context: Any, params: Any) -> Any:
            if params.request_state is not None and not self.asked:
                raise MCPError(types.INVALID_PARAMS, "no such state")
            return await super().do_ask(context, params)

    with asking("auto") as (toolkit, _):
        waiting = call(toolkit, "ask")
    with asking("auto", Forgetful()) as (toolkit, client):
        client.answer(waiting, {"yes": True})
        assert call(toolkit, "ask").text == "accept {'yes': True}"


@BOTH
class TestSuspension:
    def test_the_call_goes_on_with_the_answer(self, mode: str) -> None:
        tools = mcp_server.Tools()
        with asking(mode, tools) as (toolkit, client):
            waiting = call(toolkit, "ask")
            assert waiting.kind is ToolResultKind.SUSPENDED and waiting.text == "Sure?"
            assert waiting.metadata["mcp"]["schema"] == mcp_server.YES  # type: ignore[index]
            # asked again without an answer it waits on, and the server is not asked twice
            assert call(toolkit, "ask").kind is ToolResultKind.SUSPENDED
            assert tools.asked == 1
            client.answer(waiting, {"yes": True})
            assert call(toolkit, "ask").text == "accept {'yes': True}"
            assert tools.asked == (1 if mode == "legacy" else 2)
            # answered is answered: another call is another question
            assert call(toolkit, "ask").kind is ToolResultKind.SUSPENDED

    def test_through_an_agent(self, mode: str) -> None:
        with asking(mode) as (toolkit, client):
            agent = ReActAgent("Friday", ScriptedModel(called("ask"), "They are."), toolkit=toolkit)
            reply = agent.call("Ask whether they are sure.").run()
            assert reply.generate_reason is GenerateReason.TOOL_SUSPENDED
            (waiting,) = reply.tool_results
            client.answer(waiting, {"yes": True})
            reply = agent.call().run()
            assert reply.text == "They are."
            (result,) = messages(agent)[-2].tool_results
            assert result.text == "accept {'yes': True}"

    def test_declined(self, mode: str) -> None:
        with asking(mode) as (toolkit, client):
            client.answer(call(toolkit, "ask"), action="decline")
            assert call(toolkit, "ask").text == "decline None"

    def test_after_a_restart(self, mode: str) -> None:
        """The reply is all that is left of the question: the call is made again, with the answer at hand."""
        with asking(mode) as (toolkit, _):
            waiting = call(toolkit, "ask")
        kept = Msg.from_json(Msg.tool(waiting).to_json()).tool_results[0]
        with asking(mode) as (toolkit, client):
            client.answer(kept, {"yes": False})
            assert call(toolkit, "ask").text == "accept {'yes': False}"

    def test_a_question_is_not_open_for_ever(self, mode: str) -> None:
        with asking(mode, question_timeout=0.05) as (toolkit, client):
            waiting = call(toolkit, "ask")
            open_call = next(iter(client._suspended.values()))
            over = threading.Event()
            library_loop().call_soon_threadsafe(open_call.done.listen, over.set)
            assert over.wait(10)
            # too late for that one: the call is made again
            client.answer(waiting, {"yes": True})
            assert call(toolkit, "ask").text == "accept {'yes': True}"

    def test_a_suspended_call_is_left(self, mode: str) -> None:
        """Closing ends what waits; nothing of it is left (the fixture looks)."""
        with asking(mode) as (toolkit, _):
            assert call(toolkit, "ask", "1").kind is ToolResultKind.SUSPENDED
            assert call(toolkit, "ask", "2").kind is ToolResultKind.SUSPENDED

    def test_a_function_answers(self, mode: str) -> None:
        asked: list[Elicitation] = []

        async def answer(question: Elicitation) -> dict[str, object] | None:
            asked.append(question)
            return {"yes": True} if len(asked) == 1 else None

        with asking(mode, on_elicitation=answer) as (toolkit, _):
            assert call(toolkit, "ask").text == "accept {'yes': True}"
            assert call(toolkit, "ask").text == "decline None"
        assert asked[0] == Elicitation("demo", "Sure?", mcp_server.YES)

    def test_answers_that_do_not_fit(self, mode: str) -> None:
        with asking(mode) as (toolkit, client):
            waiting = call(toolkit, "ask")
            for content in ({}, {"yes": "maybe"}, None):
                with pytest.raises(InvalidInputError, match="does not fit"):
                    client.answer(waiting, content)
            with pytest.raises(InvalidInputError, match="has content"):
                client.answer(waiting, {"yes": True}, action="decline")
            with pytest.raises(InvalidInputError, match="'accept'"):
                client.answer(waiting, action="perhaps")  # type: ignore[arg-type]
            with pytest.raises(InvalidInputError, match="suspended"):
                client.answer(ToolResultBlock("1", "ask"), {"yes": True})
            with pytest.raises(InvalidInputError, match="'other'"):
                McpClient(McpInMemory(mcp_server.make()), name="other").answer(waiting, {"yes": True})


class TestWhose:
    """On stdio a question of the older protocol does not say which call it belongs to."""

    def test_of_one_run_all_wait(self) -> None:
        with far(mode="legacy") as toolkit:
            agent = ReActAgent("Friday", ScriptedModel([called("ask"), called("slow")], "Both."), toolkit=toolkit)
            reply = agent.call("Ask, and be slow.").run()
            assert [each.kind for each in reply.tool_results] == [ToolResultKind.SUSPENDED] * 2
            toolkit.mcp["demo"].answer(reply.tool_results[0], {"yes": True})

            async def go_on() -> None:
                async with agent.stream() as events:
                    async for event in events:
                        if isinstance(event, PostActingEvent):
                            agent.interrupt()

            asyncio.run(go_on())
            results = {result.name: result for message in messages(agent) for result in message.tool_results}
            assert results["ask"].text == "accept {'yes': True}"
            assert results["slow"].kind is ToolResultKind.INTERRUPTED
            assert call(toolkit, "was_cancelled").text == "yes"

    def test_a_question_during_several_calls_is_a_failure(self) -> None:
        async def both() -> ToolResultBlock:
            async with toolkit.call(use("slow")) as events:
                await begun(events)
                result = await toolkit.call(use("ask", "2"))
                assert isinstance(result, ToolResultBlock)
                return result

        with far(mode="legacy") as toolkit:
            result = asyncio.run(both())
        assert result.kind is ToolResultKind.FAILED and "Several calls are in progress" in result.text


class TestSampling:
    @BOTH
    def test_a_model_and_folders(self, mode: str) -> None:
        class Curious(mcp_server.Tools):
            async def do_nothing(self, context: Any, params: Any) -> Any:
                request = types.CreateMessageRequest(
                    params=types.CreateMessageRequestParams(
                        messages=[types.SamplingMessage(role="user", content=mcp_server.text("Who?"))],
                        max_tokens=10,
                        system_prompt="Be brief.",
                    )
                )
                if context.protocol_version > "2026":
                    answers = params.input_responses
                    if not answers:
                        wanted: Any = {"model": request, "roots": types.ListRootsRequest()}
                        return types.InputRequiredResult(input_requests=wanted)
                    said, roots = answers["model"], answers["roots"]
                else:
                    said = await context.session.send_request(request, types.CreateMessageResult)
                    roots = await context.session.send_request(types.ListRootsRequest(), types.ListRootsResult)
                words = f"{said.content.text} {roots.roots[0].uri}"
                return types.CallToolResult(content=[mcp_server.text(words)])

        model = ScriptedModel("Me.")
        with asking(mode, Curious(), sampling=model, roots=["/tmp"]) as (toolkit, _):
            assert call(toolkit, "nothing").text == "Me. file:///tmp"
        assert [m.text for m in model.requests[0].messages] == ["Be brief.", "Who?"]
        assert model.requests[0].options.max_tokens == 10
