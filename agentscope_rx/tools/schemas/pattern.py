r"""Regular expressions of foreign schemas, in time linear in the text: ECMA-262 on Rust's engine.

| in the schema                            | here                                                           |
|------------------------------------------|----------------------------------------------------------------|
| `\d`, `\w`                               | ASCII, as ECMA-262 says                                        |
| `^`, `$`                                 | the ends of the text; without `^` a match may be anywhere      |
| `\/`, `\uD83D\uDE00`, `[[]`, `{` as such | the same characters                                            |
| look-around, backreferences              | `PatternError`: no engine takes them in linear time            |
| `(a{1000}){1000}`                        | `PatternError`: it expands to more than `MAX_PATTERN_UNITS`    |

Python's own `re` backtracks: `^(a+)+$` takes it minutes on 40 letters.
"""

from __future__ import annotations

import re
from functools import lru_cache

from pydantic_core import SchemaError, SchemaValidator, core_schema

from agentscope_rx.messages.frozen import encodable

MAX_PATTERN_UNITS = 20_000
"""The limit of the expanded size of all patterns of one schema: about one unit for each character to match, counted as
often as it is repeated."""
BASE_UNITS = 150
"""The cost of compiling a pattern of any length."""
UNITS_A_STEP = 300
"""Characters of the text times units of the pattern that take as long as one step of validation."""

_DOT, _SPACE, _PROPERTY, _FOLDED = 4, 8, 200, 4
_CLASSES = {"d": "0-9", "w": "0-9A-Za-z_"}
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v"}
_COUNT = re.compile(r"\{([0-9]{1,9})(,([0-9]{0,9}))?\}")
_HEX = re.compile(r"x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|u\{([0-9A-Fa-f]{1,8})\}")
_LOW = re.compile(r"\\u([dD][c-fC-F][0-9A-Fa-f]{2})")
_PROPERTY_NAME = re.compile(r"[pP](?:\{[\w=^ -]{1,60}\}|[A-Z])", re.ASCII)
_GROUP = re.compile(r"\((?:\?(?::|P?<[A-Za-z_]\w*>|[ims]*(?:-[ims]+)?[:)]))?", re.ASCII)
_ANYTHING = re.compile(r"\[(?:\\s\\S|\\S\\s|\\d\\D|\\D\\d|\\w\\W|\\W\\w)\]")
_COUNTED = re.compile(r"\^(\[(?:\\.|[^\]\\])+\]|\\[dDwWsS]|\.)\{([0-9]{1,9})(,([0-9]{0,9}))?\}\$")
_ANY = 2**63
_LOOK = ("(?=", "(?!", "(?<=", "(?<!")


class PatternError(ValueError):
    """The engine does not support the pattern; the text says why."""


class Pattern:
    """A compiled pattern. `units` is its size with repetitions expanded, `price` the cost of compiling it."""

    __slots__ = ("_least", "_most", "_validator", "price", "units")

    def __init__(self, source: str) -> None:
        self._least, self._most = 0, _ANY
        if counted := _COUNTED.fullmatch(source):
            # the count of one character is the length of the text: no need to count with an automaton
            self._least = int(counted[2])
            self._most = self._least if counted[3] is None else int(counted[4] or _ANY)
            source = f"^{counted[1]}*$"
        translated = _Translation(source) if len(source) <= MAX_PATTERN_UNITS else None
        if translated is None or translated.units > MAX_PATTERN_UNITS:
            raise PatternError(f"it expands to more than {MAX_PATTERN_UNITS:,} characters")
        self.units: int = translated.units
        self.price: int = BASE_UNITS + max(self.units, len(source))
        try:
            self._validator = SchemaValidator(
                core_schema.str_schema(pattern=translated.text, regex_engine="rust-regex", strict=False)
            )
        except SchemaError as error:
            raise PatternError(f"{str(error).rpartition('error: ')[2].rstrip('.')[:120]}") from None

    def cost(self, text: str) -> int:
        """The steps of validation that a search in this text may take."""
        return 1 + len(text) * self.units // UNITS_A_STEP

    def matches(self, text: str) -> bool:
        """True if the pattern is found in the text."""
        text = encodable(text)
        return self._least <= len(text) <= self._most and self._validator.isinstance_python(text)


@lru_cache(maxsize=512)
def compiled(source: str) -> Pattern:
    """The pattern, compiled once; `PatternError`."""
    return Pattern(source)


class _Translation:
    """An ECMA-262 pattern in Rust's syntax: one pass, which also counts its expanded size."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._at: int = 0
        self._out: list[str] = []
        self._outer: list[int] = []
        """The units of the groups around this place, as far as they go."""
        self._sum: int = 0
        self._last: int = 0
        """The units that a repetition right after this place would repeat."""
        self._repeatable = False
        self._folded = False
        while self._at < len(source):
            self._token()
        self.text = "".join(self._out)
        self.units = max(1, self._sum + sum(self._outer)) * (_FOLDED if self._folded else 1)

    def _token(self) -> None:
        source, at = self._source, self._at
        sign = source[at]
        if sign == "\\":
            self._atom(*self._escape(in_class=False)[:2])
        elif sign == "[":
            self._class()
        elif sign == "(":
            self._open()
        elif sign == ")":
            self._put(")")
            inside = max(1, self._sum)
            self._sum = (self._outer.pop() if self._outer else 0) + inside
            self._last, self._repeatable = inside, True
        elif sign in "*+?":
            self._repeat(sign, 2 if sign == "+" else 1)
        elif sign == "{" and (count := _COUNT.match(source, at)):
            self._repeat(count[0], max(int(count[1]) + 1, int(count[3] or 0)))
        elif sign in "^$|":
            self._put(sign)
            self._last, self._repeatable = 1, sign != "|"
        else:
            self._at += 1
            self._atom(re.escape(sign) if sign in "{}]" else sign, _DOT if sign == "." else 1)

    def _put(self, text: str) -> None:
        self._out.append(text)
        self._at += len(text)

    def _atom(self, text: str, units: int) -> None:
        self._out.append(text)
        self._sum += units
        self._last, self._repeatable = units, True

    def _open(self) -> None:
        if self._source.startswith(_LOOK, self._at):
            raise PatternError("look-around ('(?=', '(?!', '(?<=', '(?<!') is not supported")
        group = _GROUP.match(self._source, self._at)
        if group is None or (group[0] == "(" and self._source.startswith("(?", self._at)):
            raise PatternError(f"{self._source[self._at : self._at + 4]!r} is no group that is supported")
        flags = group[0][2:-1].partition("-")[0] if group[0].startswith("(?") and "<" not in group[0] else ""
        self._folded = self._folded or "i" in flags
        self._put(group[0])
        self._repeatable = False
        if not group[0].endswith(")"):
            self._outer.append(self._sum)
            self._sum = 0

    def _repeat(self, text: str, times: int) -> None:
        if not self._repeatable:
            raise PatternError(f"there is nothing that {text!r} could repeat")
        self._put(text)
        if self._source.startswith("?", self._at):
            self._put("?")
        self._sum += self._last * (times - 1)
        self._repeatable = False

    def _escape(self, *, in_class: bool) -> tuple[str, int, str | None]:
        """The escape at this place: its text, its units, and the character if it is one."""
        rest = self._at + 1
        sign = self._source[rest : rest + 1]
        if number := _HEX.match(self._source, rest):
            self._at = number.end()
            return self._character(int(number[1] or number[2] or number[3], 16))
        if name := _PROPERTY_NAME.match(self._source, rest):
            self._at = name.end()
            return f"\\{name[0]}", _PROPERTY, None
        self._at = rest + 1
        if (low := sign.lower()) in _CLASSES and sign:
            inside = _CLASSES[low]
            return (inside if in_class and sign == low else f"[{'' if sign == low else '^'}{inside}]"), _DOT, None
        if sign in _CONTROLS and sign:
            return self._character(ord(_CONTROLS[sign]))
        if low == "s":
            return f"\\{sign}", _SPACE, None
        if sign == "0" and not self._source[rest + 1 : rest + 2].isdigit():
            return self._character(0)
        if sign == "c" and self._source[rest + 1 : rest + 2].isascii() and self._source[rest + 1 : rest + 2].isalpha():
            self._at += 1
            return self._character(ord(self._source[rest + 1]) % 32)
        if in_class and sign == "b":
            return self._character(8)
        if not in_class and sign in ("b", "B", "A", "Z", "z"):
            return f"\\{'z' if sign == 'Z' else sign}", 1, None
        if sign.isalnum() or not sign:
            what = "a backreference" if sign.isdigit() or sign == "k" else "an escape that is not supported"
            raise PatternError(f"'\\{sign}' is {what}")
        return self._character(ord(sign))

    def _character(self, code: int) -> tuple[str, int, str]:
        if 0xD800 <= code <= 0xDBFF and (low := _LOW.match(self._source, self._at)):
            # JavaScript writes a character beyond U+FFFF in two halves
            self._at = low.end()
            code = 0x10000 + (code - 0xD800) * 0x400 + int(low[1], 16) - 0xDC00
        if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            raise PatternError(f"U+{code:04X} is no character")
        return f"\\x{{{code:X}}}", 1, chr(code)

    def _class(self) -> None:
        if anything := _ANYTHING.match(self._source, self._at):
            self._at = anything.end()
            self._atom("(?s:.)", _DOT)
            return
        self._at += 1
        negated = self._source.startswith("^", self._at)
        self._at += negated
        if self._source.startswith("]", self._at):
            raise PatternError("a class of characters is empty; write ']' in it as '\\]'")
        parts = ["[^" if negated else "["]
        units = _DOT if negated else 1
        while not self._source.startswith("]", self._at):
            text, more, first = self._member()
            range_to = self._source.startswith("-", self._at) and not self._source.startswith("-]", self._at)
            if first is not None and range_to:
                self._at += 1
                end, _, last = self._member()
                text = f"{text}-{end}" if last is not None else f"{text}\\-{end}"
            parts.append(text)
            units += more
        self._at += 1
        self._atom("".join([*parts, "]"]), units)

    def _member(self) -> tuple[str, int, str | None]:
        sign = self._source[self._at : self._at + 1]
        if not sign:
            raise PatternError("a class of characters is not closed")
        if sign == "\\":
            text, units, character = self._escape(in_class=True)
            return text, units if character is None or not character.isascii() else 0, character
        self._at += 1
        return (sign if sign.isalnum() else f"\\x{{{ord(sign):X}}}"), 0 if sign.isascii() else 1, sign
