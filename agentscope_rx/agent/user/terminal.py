"""`TerminalInput`: asks a person at a terminal; the line that they type is the answer.

    ann: Shall we go?           the messages, as `name: text`
    User Input: _               a line: the answer. Ctrl-D: `EndOfInputError`

With `output` the terminal asks field by field, and repeats fields that do not fit. Lines are read by the stream's
`readline` on another thread (see `Lines`): so the loop is not blocked, an interrupted or disposed call stops waiting at
once, and Ctrl-C reaches the main thread. (There is no line editing by GNU readline, because an abandoned read would
leave the terminal in readline's mode.)

Messages are shown as `name: text`, without control characters that the terminal would obey.
"""

from __future__ import annotations

import contextlib
import sys
import unicodedata
from collections.abc import Callable, Sequence

from agentscope_rx.agent.structured_output import StructuredOutput
from agentscope_rx.agent.user.answer import Question, UnfitError
from agentscope_rx.agent.user.form import Form, Values
from agentscope_rx.agent.user.lines import Lines, Readable
from agentscope_rx.errors import ConfigurationError, UserInputError
from agentscope_rx.errors.text import encodable_in
from agentscope_rx.messages import Msg, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from agentscope_rx.reactive import Flow, defer, from_callable

PROMPT = "User Input: "

_DIRECTIONS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}

Write = Callable[[str], object]


class TerminalInput:
    """Asks at a terminal. By default it reads stdin and writes to stdout, as they are at each question.

    It shows the messages as `name: text`, with control characters escaped, then the `prompt`, and reads one line. It
    prints only through `write`.

    - One reader serves all questions on one `stream`, in order, and never reads ahead. A blocked read cannot be
      stopped: a cancelled call stops waiting at once, and the line goes to the next question.
    - The end of the input is an `EndOfInputError`, which is an `EOFError`. At Ctrl-C `run()` disposes of the call and
      raises `KeyboardInterrupt`.
    - With an `output` it asks field by field, and checks each. An empty line is the default or the previous answer,
      `yes` and `no` are booleans, `a, b` is a list, JSON is JSON, any other line is text.
    """

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
        """The typed answer.

        Signals: the line, or the requested value; `EndOfInputError`, `UserInputError`.
        Cancels: the waiting; a line that is typed later is for the next question.
        """
        text = show_messages(question.messages) + _list(question.problems)
        output = question.output
        if output is None:
            return self._line(text + self._prompt, question)
        return from_callable(lambda: self._fill(text, output, question))

    def _line(self, text: str, question: Question) -> Flow[object]:
        def ask() -> Flow[object]:
            stream = self._stream if self._stream is not None else sys.stdin
            if stream is None:  # pyright: ignore[reportUnnecessaryComparison]
                raise UserInputError("This program has no standard input: give UserAgent an input of its own.")
            self._show(text)
            return Lines.of(stream).next(lambda: not question.run.interrupted, self._end_line)

        return defer(ask)

    async def _fill(self, text: str, output: StructuredOutput, question: Question) -> object:
        """The value of the form, asked until it fits."""
        form = Form(output.shape)
        values: Values = {}
        while True:
            for field in form.fields:
                values, text = await self._field(form, field.name, values, text, question)
            try:
                return form.value(values)
            except UnfitError as error:
                text = _list(error.problems)

    async def _field(self, form: Form, name: str, values: Values, text: str, question: Question) -> tuple[Values, str]:
        """The values with this field, asked until it fits; and no text for the next question."""
        field = next(each for each in form.fields if each.name == name)
        while True:
            line = await self._line(text + escaped(field.prompt(values)), question)
            try:
                return form.read(field, str(line), values), ""
            except UnfitError as error:
                text = _list(error.problems)

    def _show(self, text: str) -> None:
        try:
            self._write(text)
        except (OSError, ValueError) as error:
            raise UserInputError(f"The question cannot be shown: {error}") from error

    def _end_line(self) -> None:
        # the next output begins on a new line
        with contextlib.suppress(Exception):
            self._write("\n")


def show_messages(messages: Sequence[Msg]) -> str:
    """The messages as `name: text`, without those that have no content for a person."""
    return "".join(f"{_lines_of(message.name, text)}\n" for message in messages if (text := _text_of(message)))


def _text_of(message: Msg) -> str:
    hidden = (ThinkingBlock, ToolUseBlock, ToolResultBlock)
    parts = [
        block.text if isinstance(block, TextBlock) else f"[{block.type}]"
        for block in message.content
        if not isinstance(block, hidden)
    ]
    return "\n".join(part for part in parts if part)


def _lines_of(name: str, text: str) -> str:
    # further lines are indented: none can look like a message of another speaker
    lines = escaped(f"{name}: {text}").split("\n")
    return "\n  ".join(lines)


def escaped(text: str) -> str:
    """The text with control characters, and marks of the writing direction, as visible escapes."""
    if text.isprintable():
        return text
    return "".join(f"\\u{ord(char):04x}" if _is_control(char) else char for char in text.replace("\r\n", "\n"))


def _is_control(char: str) -> bool:
    if char in "\n\t":
        return False
    return unicodedata.category(char) == "Cc" or unicodedata.bidirectional(char) in _DIRECTIONS


def _list(problems: tuple[str, ...]) -> str:
    return "".join(f"  {escaped(problem)}\n" for problem in problems)


def _to_stdout(text: str) -> None:
    file = sys.stdout
    if file is None:  # pyright: ignore[reportUnnecessaryComparison]
        return
    file.write(encodable_in(text, file))
    file.flush()
