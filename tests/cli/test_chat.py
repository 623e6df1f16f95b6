"""A chat at a terminal: pastes, half-typed lines and commands."""

from __future__ import annotations

import contextlib
import io
import subprocess
from collections.abc import Sequence

import pytest

from agentscope_rx import ReActAgent
from agentscope_rx.cli.chat import NextStep, run_command
from agentscope_rx.cli.exit_codes import line_of
from agentscope_rx.cli.render import view_of
from agentscope_rx.cli.session import ChatSession
from agentscope_rx.errors import AuthenticationError, PermissionDeniedError
from agentscope_rx.messages import ChatUsage
from agentscope_rx.models import ChatResponse
from agentscope_rx.testing import ScriptedModel
from tests.agent.compacting import Compacts, summarized

from .processes import Start
from .scripted_server import Server, says


def questions(server: Server) -> Sequence[str]:
    """What the user has said in the last request."""
    messages = server.requests[-1]["messages"]
    assert isinstance(messages, list)
    return [message["content"] for message in messages if message["role"] == "user"]


@pytest.mark.parametrize(
    "typed",
    [
        "\x1b[200~def f():\n    return 1\n\nWhy?\x1b[201~\n",
        # a terminal that does not mark pastes
        "def f():\n    return 1\n\nWhy?\n",
    ],
)
def test_a_paste_of_several_lines_is_one_turn(typed: str, terminal: Start, server: Server) -> None:
    server.answers.append(says("Because."))
    chat = terminal("chat")
    chat.until("> ")
    chat.type(typed)
    chat.until("Because.")
    assert questions(server) == ["def f():\n    return 1\n\nWhy?"]


def test_ctrl_c_clears_a_half_typed_line(terminal: Start, server: Server) -> None:
    server.answers.append(says("Yes."))
    chat = terminal("chat")
    chat.until("> ")
    chat.type("rm -rf")
    chat.until("rm -rf")
    chat.interrupt_until("> ")
    chat.type("safe?\n")
    chat.until("Yes.")
    assert questions(server) == ["safe?"]
    chat.until("> ")
    for _ in range(10):
        chat.interrupt()
        with contextlib.suppress(subprocess.TimeoutExpired):
            assert chat.popen.wait(3) == 130
            return
    pytest.fail("Ctrl-C on an empty line does not leave")


def test_commands_are_not_for_the_model(terminal: Start, server: Server) -> None:
    server.answers.append(says("Hi."))
    chat = terminal("chat")
    chat.until("> ")
    for command, shown in (
        ("/help", "Ctrl-C clears a half-typed line"),
        ("/tools", "read_file: "),
        ("/model", "openai:m"),
        ("/hlep", "there is no command /hlep"),
    ):
        chat.type(f"{command}\n")
        chat.until(shown)
        chat.until("> ")
    chat.type("hello\n")
    chat.until("Hi.")
    chat.until("> ")
    chat.type("/cost\n")
    chat.until("1,200 tokens in, 34 out")
    chat.until("> ")
    chat.type("/exit\n")
    assert chat.wait() == 0
    assert len(server.requests) == 1


def session(*turns: object) -> ChatSession:
    agent = ReActAgent("A", ScriptedModel(*turns), tools=[])
    return ChatSession(agent, view_of(io.StringIO(), json_lines=False, quiet=True))


def test_what_a_command_is() -> None:
    ours = session([ChatResponse(usage=ChatUsage(1000, 20, cached_tokens=300)), "Hi."])
    assert run_command("/etc/hosts says what?", ours) == (NextStep.ASK, "")
    assert run_command("/help me", ours) == (NextStep.ASK, "")
    assert run_command("/exit", ours)[0] is NextStep.LEAVE
    assert run_command("/tools", ours) == (NextStep.PROMPT, "no tools")
    assert run_command("/approve", ours) == (NextStep.PROMPT, "no call waits")
    ours.ask("Hello")
    assert run_command("/cost", ours)[1].startswith("1 run: 1,000 tokens in (300 of them cached), 20 out")


def test_the_conversation_is_made_smaller() -> None:
    ours = session("Hi.")
    assert run_command("/compact", ours) == (
        NextStep.PROMPT,
        "A has no hook that makes the conversation smaller",
    )
    ours.agent.hooks.add(Compacts(lambda request: summarized(request, 1), why=["manual"]))
    assert run_command("/compact", ours) == (NextStep.PROMPT, "the conversation is small enough")
    ours.ask("Hello")
    assert run_command("/compact", ours) == (NextStep.PROMPT, "context: summarize 200 -> 100 tokens")
    assert run_command("/compact now", ours) == (NextStep.ASK, "")


def test_another_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    ours = session()
    assert run_command("/model openai:gpt-5-mini", ours) == (NextStep.PROMPT, "openai:gpt-5-mini")
    assert isinstance(ours.agent, ReActAgent)
    assert ours.agent.model.model_name == "gpt-5-mini"


@pytest.mark.parametrize(
    ("provider", "variable"),
    [
        ("openai", "OPENAI_API_KEY"),
        ("anthropic", "ANTHROPIC_API_KEY"),
        ("gemini", "GEMINI_API_KEY"),
        ("dashscope", "DASHSCOPE_API_KEY"),
        ("ollama", "OLLAMA_API_KEY"),
        ("deepseek", "DEEPSEEK_API_KEY"),
        ("openrouter", "OPENROUTER_API_KEY"),
    ],
)
def test_errors_about_keys_name_the_providers_variable(provider: str, variable: str) -> None:
    wrong = AuthenticationError("HTTP 401: no.", status=401, model="m", provider=provider)
    assert line_of(wrong) == f"{provider}:m: HTTP 401: no. Check the API key in {variable}."
    forbidden = PermissionDeniedError("HTTP 403: no.", status=403, model="m", provider=provider)
    assert f"the API key in {variable} may do" in line_of(forbidden)


def test_a_provider_of_ones_own_has_no_variable_here() -> None:
    wrong = AuthenticationError("no.", status=401, model="m", provider="mine")
    assert line_of(wrong) == "mine:m: no. Check the API key."
