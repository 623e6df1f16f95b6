"""`TerminalInput`: shows a person what they are asked, and takes the line that they type for the answer.

    ann: Shall we go?           the messages, as `name: text`
    User Input: _               a line: the answer. Ctrl-D: `EndOfInputError`

With `output` the terminal asks field by field, and again for what does not fit. Lines are read by the stream's own
`readline` on a thread of its own (see `Lines`): the loop goes on, a call that is interrupted or disposed stops waiting
at once, and Ctrl-C is the main thread's as ever. (Hence no line editing by GNU readline: a read of that kind, once
abandoned, would leave the terminal in readline's mode.)
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable

from agentscope_rx.agent.structured_output import StructuredOutput
from agentscope_rx.agent.user.answer import UnfitError
from agentscope_rx.agent.user.form import Form, Values
from agentscope_rx.agent.user.lines import Lines, Readable
from agentscope_rx.agent.user.question import Question
from agentscope_rx.agent.user.showing import cleaned, shown
from agentscope_rx.errors import ConfigurationError, UserInputError
from agentscope_rx.errors.text import encodable_in
from agentscope_rx.reactive import Flow, defer, from_callable

PROMPT = "User Input: "

Write = Callable[[str], object]


class TerminalInput:
    """Asks at a terminal: reads `stream` (stdin), shows by `write` (to stdout, flushed); both looked up when asking."""

    def __init__(self, prompt: str = PROMPT, *, stream: Readable | None = None, write: Write | None = None) -> None:
        if not isinstance(prompt, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"TerminalInput: prompt must be a str, not {prompt!r:.60}.")
        if stream is not None and not callable(getattr(stream, "readline", None)):
            raise ConfigurationError(f"TerminalInput: stream must have readline(), unlike {stream!r:.60}.")
        if write is not None and not callable(write):
            raise ConfigurationError(f"TerminalInput: write must be a function of a str, not {write!r:.60}.")
        self._prompt = prompt
        self._stream = stream
        self._write = write or _to_stdout

    def __call__(self, question: Question) -> Flow[object]:
        """The answer typed.

        Signals: the line, or the value that was asked for; `EndOfInputError`, `UserInputError`.
        Cancels: the waiting; a line that is typed later is for who asks next.
        """
        told = shown(question.messages) + _told(question.problems)
        output = question.output
        if output is None:
            return self._line(told + self._prompt, question)
        return from_callable(lambda: self._filled(told, output, question))

    def _line(self, text: str, question: Question) -> Flow[object]:
        def ask() -> Flow[object]:
            stream = self._stream if self._stream is not None else sys.stdin
            if stream is None:  # pyright: ignore[reportUnnecessaryComparison]
                raise UserInputError("This program has no standard input: give UserAgent an input of its own.")
            self._show(text)
            return Lines.of(stream).next(lambda: not question.run.interrupted, self._given_up)

        return defer(ask)

    async def _filled(self, told: str, output: StructuredOutput, question: Question) -> object:
        """The form, until it is right."""
        form = Form(output.shape)
        values: Values = {}
        while True:
            for field in form.fields:
                values, told = await self._field(form, field.name, values, told, question)
            try:
                return form.value(values)
            except UnfitError as error:
                told = _told(error.problems)

    async def _field(self, form: Form, name: str, values: Values, told: str, question: Question) -> tuple[Values, str]:
        """The values with this field, asked until it fits; and that nothing is left to tell."""
        field = next(each for each in form.fields if each.name == name)
        while True:
            line = await self._line(told + cleaned(field.prompt(values)), question)
            try:
                return form.read(field, str(line), values), ""
            except UnfitError as error:
                told = _told(error.problems)

    def _show(self, text: str) -> None:
        try:
            self._write(text)
        except (OSError, ValueError) as error:
            raise UserInputError(f"The question cannot be shown: {error}") from error

    def _given_up(self) -> None:
        # what comes next begins a line of its own
        with contextlib.suppress(Exception):
            self._write("\n")


def _told(problems: tuple[str, ...]) -> str:
    return "".join(f"  {cleaned(problem)}\n" for problem in problems)


def _to_stdout(text: str) -> None:
    file = sys.stdout
    if file is None:  # pyright: ignore[reportUnnecessaryComparison]
        return
    file.write(encodable_in(text, file))
    file.flush()
