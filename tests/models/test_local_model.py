"""What the embedded model makes of its server's stream, and what it says without asking it."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from reactivex import operators as ops

from agentscope_rx import ReActAgent
from agentscope_rx.messages import Msg, TextBlock
from agentscope_rx.models import ChatResponse, FinishReason, GenerateOptions, ToolSchema, ToolUseDelta
from agentscope_rx.models.local import LocalChatModel
from agentscope_rx.models.local import model as local_model
from agentscope_rx.models.local.prompt import CANNOT
from agentscope_rx.tools import tool

Serve = Callable[..., Any]


@tool
def read_file(path: str) -> str:
    """Read a file."""
    return "A ticket costs 58 euros."


READ = ToolSchema("read_file", "Read a file.", {"type": "object", "properties": {"path": {}}, "required": ["path"]})


class Scripted:
    """A server that says what it is told to, three characters at a time."""

    def __init__(self, serve: Serve, *answers: str, finish: str = "stop") -> None:
        self.asked = 0
        left = list(answers)

        async def script(reply: Any) -> None:
            said = left.pop(0)
            reply.start()
            for start in range(0, len(said), 3):
                reply.send({"choices": [{"index": 0, "delta": {"content": said[start : start + 3]}}]})
            reply.send({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}, "[DONE]")
            reply.end()

        self._served = SimpleNamespace(base_url=serve(script).url, key="k")

    def address(self) -> Any:
        self.asked += 1
        return self._served


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_model, "check_installed", lambda: None)


def made(server: Scripted, **given: Any) -> LocalChatModel:
    return LocalChatModel(server=server, **given)  # pyright: ignore[reportArgumentType]


def called(server: Scripted) -> list[ChatResponse]:
    return made(server).stream([Msg.user("Read a.txt")], [READ]).pipe(ops.to_list()).run()


def test_a_calls_first_delta_names_it_and_arguments_stream(serve: Serve) -> None:
    seen = called(Scripted(serve, '{"path": "a.txt"}'))
    first, *rest = [block for response in seen for block in response.content if isinstance(block, ToolUseDelta)]
    assert (first.name, bool(first.id)) == ("read_file", True)
    assert [each.arguments for each in rest] == ['{"p', "ath", '": ', '"a.', "txt", '"}']
    assert seen[-1].finish_reason is FinishReason.TOOL_CALLS


def test_a_call_that_is_cut_off_says_so(serve: Serve) -> None:
    assert called(Scripted(serve, '{"path": "a', finish="length"))[-1].finish_reason is FinishReason.LENGTH


def test_each_call_of_a_run_has_an_id_of_its_own(serve: Serve) -> None:
    one, two = (called(Scripted(serve, "{}"))[0].content[0] for _ in range(2))
    assert isinstance(one, ToolUseDelta) and isinstance(two, ToolUseDelta)
    assert one.id != two.id


def test_a_call_and_its_answer(serve: Serve) -> None:
    server = Scripted(serve, json.dumps({"path": "a.txt"}), "A ticket costs 58 euros.")
    friday = ReActAgent("Friday", made(server), tools=[read_file])
    assert friday.call("Read a.txt: what does a ticket cost?").run().text == "A ticket costs 58 euros."
    assert server.asked == 2


@pytest.mark.parametrize("question", ["Hello!", "What is the capital of Peru?"])
def test_what_no_tool_speaks_of_is_not_asked_of_the_model(serve: Serve, question: str) -> None:
    server = Scripted(serve)
    reply = ReActAgent("Friday", made(server), tools=[read_file]).call(question).run()
    assert reply.text.startswith(CANNOT)
    assert server.asked == 0


def test_what_the_result_does_not_hold_is_not_made_up(serve: Serve) -> None:
    server = Scripted(serve, json.dumps({"path": "a.txt"}))
    reply = ReActAgent("Friday", made(server), tools=[read_file]).call("Read a.txt: who is the captain?").run()
    assert reply.text == f"{CANNOT}: I found no line about it in what read_file gave."
    assert server.asked == 1


def test_plain_talk_is_passed_on(serve: Serve) -> None:
    seen = made(Scripted(serve, "Hello, Ada.")).stream([Msg.user("Hi")]).pipe(ops.to_list()).run()
    texts = [block.text for each in seen for block in each.content if isinstance(block, TextBlock)]
    assert texts == ["Hel", "lo,", " Ad", "a."]


def test_a_form_of_the_callers_own_is_theirs(serve: Serve) -> None:
    options = GenerateOptions(response_format={"type": "json_object"})
    friday = ReActAgent("Friday", made(Scripted(serve, '{"price": 58}'), options=options))
    assert friday.call("As JSON!").run().text == '{"price": 58}'
