"""Questions of the model at a terminal: options by number, own words, and what is asked again."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest

from agentscope_rx.cli.questions import ask_questions
from agentscope_rx.cli.terminal import Terminal
from agentscope_rx.tools import UserQuestion

from .processes import Start
from .scripted_server import Server, calls, says

FLAGS = ("--tools", "agentscope_rx.tools:ask_user", "--no-builtin-tools")
ASKS = calls("ask_user", question="Which city?", options=["Berlin", "Paris"], allow_free_text=False)
CITIES = ("Berlin", "Paris", "Rome, Italy")


def results(server: Server) -> list[str]:
    messages = server.requests[-1]["messages"]
    assert isinstance(messages, list)
    return [message["content"] for message in messages if message["role"] == "tool"]


def asked(question: UserQuestion, *lines: str) -> tuple[object, str]:
    """The answer after these lines, and what was shown."""
    sink = io.StringIO()
    terminal = Terminal(io.StringIO("".join(f"{line}\n" for line in lines)), sink)
    (message,) = ask_questions(terminal, [question])
    return message.tool_results[0].metadata["answer"], sink.getvalue()


def test_a_number_chooses_an_option(terminal: Start, server: Server) -> None:
    server.answers += [ASKS, says("Paris it is.")]
    chat = terminal("chat", *FLAGS)
    chat.until("> ")
    chat.type("book\n")
    shown = chat.until("Number: ")
    assert "Which city?" in shown and "1. Berlin" in shown and "2. Paris" in shown
    chat.type("3\n")
    chat.until("from 1 to 2")
    chat.type("Rome\n")
    chat.until("does not answer")
    chat.until("Number: ")
    chat.type("2\n")
    chat.until("Paris it is.")
    assert results(server) == ["Paris"]


def test_without_a_terminal_the_question_is_named(cli: Callable[..., object], server: Server) -> None:
    server.answers.append(ASKS)
    ended = cli("ask", "Book.", *FLAGS, "--model", "openai:m", "--base-url", server.url)
    assert "The question 'Which city?' needs an answer." in ended.stderr  # pyright: ignore[reportAttributeAccessIssue]
    assert ended.returncode != 0  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    ("question", "lines", "answer"),
    [
        (UserQuestion("c", "When?"), ["", "2"], "2"),
        (UserQuestion("c", "Which?", CITIES), ["rome, italy"], "Rome, Italy"),
        (UserQuestion("c", "Which?", CITIES), ["3"], "Rome, Italy"),
        (UserQuestion("c", "Which?", CITIES), ["Oslo, maybe"], "Oslo, maybe"),
        (UserQuestion("c", "Which?", CITIES, multiple=True), ["1, 3"], ["Berlin", "Rome, Italy"]),
        (UserQuestion("c", "Which?", CITIES, multiple=True), ["paris,berlin"], ["Paris", "Berlin"]),
        (UserQuestion("c", "Which?", CITIES, multiple=True), ["none, really"], ["none, really"]),
        (UserQuestion("c", "Which?", CITIES, allow_free_text=False, multiple=True), ["1, 9", "x", "2"], ["Paris"]),
        (UserQuestion("c", "How many?", ("10", "2")), ["2"], "2"),
    ],
)
def test_what_is_typed_is_read(question: UserQuestion, lines: list[str], answer: object) -> None:
    found, shown = asked(question, *lines)
    assert found == answer and question.text in shown


def test_control_characters_are_not_written() -> None:
    _, shown = asked(UserQuestion("c", "Which\x1b[2J?", ("a\x1b]0;b\x07",)), "1")
    assert "\x1b" not in shown and "\x07" not in shown


def test_the_end_of_input_leaves_the_question() -> None:
    with pytest.raises(EOFError):
        asked(UserQuestion("c", "When?"))
