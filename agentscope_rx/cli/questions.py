"""Questions of the model in the terminal: the options are numbered, and the person types a number or own words.

    Which city?
      1. Berlin
      2. Paris
    Number, or your own words: 2

An answer that does not fit is asked for again. Text that was typed before the question is discarded.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentscope_rx.cli.terminal import Terminal
from agentscope_rx.console.wording import clean
from agentscope_rx.errors import InvalidInputError
from agentscope_rx.messages import Msg
from agentscope_rx.tools.questions import UserQuestion


def ask_questions(terminal: Terminal, questions: Sequence[UserQuestion]) -> list[Msg]:
    """An answer to each question; `EOFError` or `KeyboardInterrupt` if there is none."""
    return [_ask(terminal, question) for question in questions]


def _ask(terminal: Terminal, question: UserQuestion) -> Msg:
    options = [f"  {number}. {clean(option)}" for number, option in enumerate(question.options, 1)]
    terminal.say("\n".join([clean(question.text), *options]) + "\n")
    terminal.discard_typed()
    while True:
        line = terminal.line(_prompt(question)).strip()
        try:
            return question.answer(_chosen(question, line))
        except InvalidInputError as error:
            terminal.say(f"  {clean(' '.join(str(error).split()))}\n")


def _prompt(question: UserQuestion) -> str:
    if not question.options:
        return "Your answer: "
    numbers = "Numbers, with commas between" if question.multiple else "Number"
    return f"{numbers}, or your own words: " if question.allow_free_text else f"{numbers}: "


def _chosen(question: UserQuestion, line: str) -> str | list[str]:
    """The answer that was typed: numbers stand for options."""
    if not question.options:
        return line
    if not question.multiple:
        return _option(question, line)
    parts = [part.strip() for part in line.split(",")]
    if all(part.isdecimal() for part in parts):
        return [_option(question, part) for part in parts]
    # own words may have commas in them
    return [line] if question.allow_free_text and not _all_options(question, parts) else parts


def _all_options(question: UserQuestion, parts: Sequence[str]) -> bool:
    known = {option.casefold() for option in question.options}
    return all(part.casefold() in known for part in parts)


def _option(question: UserQuestion, text: str) -> str:
    if not text.isdecimal() or text in question.options:
        return text
    number = int(text)
    if not 1 <= number <= len(question.options):
        raise InvalidInputError(f"There is no option {text:.20}: give a number from 1 to {len(question.options)}.")
    return question.options[number - 1]
