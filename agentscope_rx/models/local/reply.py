r"""`Reply`: the model's JSON as it is being written -> text and tool calls, each piece at once. Pure.

    {"ans wer": "He said \"h i\ud83d \ude00\""}       ->  text: He said "h / i / (emoji)
    {"tool": "calculate", "argum ents": {"exp ...     ->  call of calculate, arguments: {"exp / ...

Text that is no JSON object is passed on as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from enum import Enum, auto
from uuid import uuid4

from agentscope_rx.messages import TextBlock
from agentscope_rx.models.response import ChatResponse, ChunkBlock, FinishReason, ToolUseDelta
from agentscope_rx.models.wire.json_codec import Pieces

_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_HEX_DIGITS = 4


class Reply:
    """One turn's answer. Feed it the increments of the wire."""

    __slots__ = ("_called", "_characters", "_reader")

    def __init__(self) -> None:
        self._reader = _Reader()
        self._characters = Pieces()
        self._called = False

    def feed(self, response: ChatResponse) -> Iterator[ChatResponse]:
        """The increments that an increment of the wire stands for: one, or none while a name or key is incomplete."""
        content: list[ChunkBlock] = []
        for block in response.content:
            if isinstance(block, TextBlock):
                content += self._blocks(block.text)
            else:
                content.append(block)
        reason = response.finish_reason
        if reason and (rest := self._characters.rest()):
            content.append(TextBlock(rest))
        if self._called and reason is FinishReason.STOP:
            reason = FinishReason.TOOL_CALLS
        if content or response.usage or reason:
            yield replace(response, content=tuple(content), finish_reason=reason)

    def _blocks(self, text: str) -> Iterator[ChunkBlock]:
        for kind, piece in self._reader.feed(text):
            if kind is Kind.TEXT:
                whole = self._characters.take(piece)
                if whole:
                    yield TextBlock(whole)
            elif kind is Kind.NAME:
                self._called = True
                yield ToolUseDelta(0, f"call_{uuid4().hex}", piece)
            elif self._called:
                yield ToolUseDelta(0, arguments=piece)


class Kind(Enum):
    """What a piece of the answer is."""

    TEXT = auto()
    NAME = auto()
    ARGUMENTS = auto()


class _State(Enum):
    OPEN = auto()
    PLAIN = auto()
    KEY = auto()
    KEY_TEXT = auto()
    COLON = auto()
    VALUE = auto()
    ANSWER = auto()
    NAME = auto()
    RAW = auto()
    DONE = auto()


class _Reader:
    """Reads one JSON object, character by character; what belongs together in one feed comes as one piece."""

    __slots__ = ("_depth", "_escape", "_key", "_piece", "_quoted", "_state")

    def __init__(self) -> None:
        self._state = _State.OPEN
        self._key = ""
        self._piece: list[str] = []
        # the characters of an escape so far, with its backslash
        self._escape = ""
        self._depth = 0
        self._quoted = False

    def feed(self, text: str) -> Iterator[tuple[Kind, str]]:
        """The pieces that a piece of JSON text brings."""
        for character in text:
            yield from self._read(character)
        if self._state in (_State.ANSWER, _State.PLAIN):
            yield from self._give(Kind.TEXT)
        elif self._state is _State.RAW:
            yield from self._give(Kind.ARGUMENTS)

    def _read(self, character: str) -> Iterator[tuple[Kind, str]]:
        match self._state:
            case _State.PLAIN:
                self._piece.append(character)
            case _State.KEY_TEXT | _State.NAME | _State.ANSWER:
                if self._string(character):
                    yield from self._string_ended()
            case _State.RAW:
                if self._raw(character):
                    yield from self._give(Kind.ARGUMENTS)
                    self._state = _State.KEY
            case _ if not character.isspace():
                self._between(character)
            case _:
                pass

    def _between(self, character: str) -> None:
        """A character between strings."""
        state = self._state
        if state is _State.OPEN:
            self._state = _State.KEY if character == "{" else _State.PLAIN
            if self._state is _State.PLAIN:
                self._piece.append(character)
        elif state is _State.KEY and character == '"':
            self._state = _State.KEY_TEXT
        elif state is _State.KEY and character == "}":
            self._state = _State.DONE
        elif state is _State.COLON:
            self._state = _State.VALUE
        elif state is _State.VALUE:
            if character == '"' and self._key in ("answer", "tool"):
                self._state = _State.ANSWER if self._key == "answer" else _State.NAME
            else:
                self._state, self._depth, self._quoted = _State.RAW, 0, False
                self._raw(character)

    def _string(self, character: str) -> bool:
        """A character within a string; whether it ends the string."""
        if self._escape:
            self._escape += character
            self._unescape()
        elif character == "\\":
            self._escape = character
        elif character == '"':
            return True
        else:
            self._piece.append(character)
        return False

    def _unescape(self) -> None:
        escape = self._escape
        if escape[1] == "u":
            if len(escape) < 2 + _HEX_DIGITS:
                return
            # half a pair stays half: `Pieces` joins it with the other
            self._piece.append(chr(int(escape[2:], 16)))
        else:
            self._piece.append(_ESCAPES.get(escape[1], escape[1]))
        self._escape = ""

    def _string_ended(self) -> Iterator[tuple[Kind, str]]:
        if self._state is _State.KEY_TEXT:
            self._key = "".join(self._piece)
            self._piece.clear()
            self._state = _State.COLON
            return
        yield from self._give(Kind.TEXT if self._state is _State.ANSWER else Kind.NAME)
        self._state = _State.KEY

    def _raw(self, character: str) -> bool:
        """A character of a value that is handed on as it is; whether it ends the value."""
        self._piece.append(character)
        if self._escape:
            self._escape = ""
        elif self._quoted and character == "\\":
            self._escape = character
        elif character == '"':
            self._quoted = not self._quoted
        elif not self._quoted and character in "{[":
            self._depth += 1
        elif not self._quoted and character in "}]":
            self._depth -= 1
            return self._depth == 0
        return False

    def _give(self, kind: Kind) -> Iterator[tuple[Kind, str]]:
        piece = "".join(self._piece)
        self._piece.clear()
        if piece:
            yield kind, piece
