"""The question of `ask`: words, what is piped in, and both."""

from __future__ import annotations

import io
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from agentscope_rx.cli import arguments
from agentscope_rx.cli.main import main
from agentscope_rx.errors import InvalidInputError
from agentscope_rx.testing import ScriptedModel

from .scripted_server import Server, says


@pytest.mark.parametrize(
    ("words", "piped", "asked"),
    [
        ("Summarise this", "one\ntwo\n", "Summarise this\n\none\ntwo"),
        ("Summarise", "", "Summarise"),
        ("Summarise", " \n", "Summarise"),
        ("", "How\nmuch?\n", "How\nmuch?"),
        ("-", "How much?\n", "How much?"),
        ("Compare - with B", "A\nA", "Compare\nA\nA\nwith B"),
        ("", "", None),
        ("-", "\n", None),
    ],
)
def test_what_is_piped_joins_the_words(
    words: str, piped: str, asked: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(piped))
    assert arguments.question_of(words.split()) == asked


def test_more_than_any_model_reads_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arguments, "MAX_CHARACTERS", 10)
    monkeypatch.setattr(sys, "stdin", io.StringIO("x" * 11))
    with pytest.raises(InvalidInputError, match="more than 10 characters"):
        arguments.question_of(["Summarise"])


def test_a_silent_pipe_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(io.StringIO):
        def read(self, size: int | None = -1, /) -> str:
            # as long as the note takes
            told.wait(30)
            return ""

    told = threading.Event()
    lines: list[str] = []
    monkeypatch.setattr(arguments, "SLOW_INPUT_SECONDS", 0.001)
    monkeypatch.setattr(arguments, "note", lambda line: (lines.append(line), told.set()))
    monkeypatch.setattr(sys, "stdin", Silent())
    assert arguments.question_of(["Hello"]) == "Hello"
    assert "standard input" in lines[0]


def test_a_file_piped_into_ask(cli: Callable[..., subprocess.CompletedProcess[str]], server: Server) -> None:
    server.answers.append(says("Short."))
    done = cli("ask", "Summarise", "--model", "openai:m", "--base-url", server.url, "-q", input="A long text.\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, "Short.\n", "")
    messages = server.requests[0]["messages"]
    assert isinstance(messages, list)
    assert messages[-1]["content"] == "Summarise\n\nA long text."


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize("command", ["ask", "chat"])
def test_help_names_the_providers(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"], model=ScriptedModel())
    told = capsys.readouterr().out
    for name in ("anthropic", "dashscope", "gemini", "ollama", "openrouter", "llama.cpp", "auto", "--session"):
        assert name in told
