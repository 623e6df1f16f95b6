"""YAML front matter of a Markdown file: `read_front_matter` and `front_matter_text`, which writes it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, cast

from agentscope_rx.errors import FrontMatterError, InvalidInputError, MissingExtraError
from agentscope_rx.errors.text import is_encodable
from agentscope_rx.frozen_values import dataclass

if TYPE_CHECKING:
    from yaml.events import Event, NodeEvent

MAX_CODE_POINTS = 16_384
MAX_ALIASES = 10
MAX_DEPTH = 10
FENCE = "---"

_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})")
_FLOAT = re.compile(r"[-+]?[0-9]{1,18}\.[0-9]{1,18}(?:e[-+][0-9]{1,3})?")
_WORDS: Mapping[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """The values of a file's front matter, the body after it, and the lines that they stand on."""

    file: str
    values: Mapping[str, object]
    body: str
    lines: Mapping[str, int]
    """The line of each key of the outermost mapping."""
    body_line: int
    """The line that the body begins on."""
    _written: Mapping[tuple[str, ...], str] = field(default_factory=dict[tuple[str, ...], str], repr=False)

    def error(self, problem: str, key: str | None = None) -> FrontMatterError:
        """The error for a problem with this key, or with the whole."""
        return FrontMatterError(self.file, problem, self.lines.get(key, 1) if key is not None else 1)

    def required(self, key: str, max_length: int | None = None) -> str:
        """The text of a key that must be there and not blank."""
        if key not in self.values:
            raise self.error(f"the front matter has no {key!r}. Add a line such as '{key}: ...'.")
        text = self.text(key, max_length)
        if text is None:
            raise self.error(f"{key!r} is blank. Give it a text.", key)
        return text

    def text(self, key: str, max_length: int | None = None) -> str | None:
        """The text of a key as it was written, without spaces around it; None if it is missing or blank."""
        if isinstance(self.values.get(key), (dict, list)):
            raise self.error(f"{key!r} must be a text, not {_kind(self.values[key])}.", key)
        text = self._written.get((key,), "").strip()
        if max_length is not None and len(text) > max_length:
            raise self.error(f"{key!r} has {len(text):,} characters; at most {max_length:,} are allowed.", key)
        return text or None

    def texts(self, key: str) -> Mapping[str, str]:
        """A mapping of texts as they were written; empty if the key is missing. Nested values are given as JSON."""
        value = self.values.get(key)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self.error(f"{key!r} must be a mapping of names to texts, not {_kind(value)}.", key)
        pairs = cast("dict[str, object]", value).items()
        return {
            name: json.dumps(each, ensure_ascii=False)
            if isinstance(each, (dict, list))
            else self._written.get((key, name), "")
            for name, each in pairs
        }

    def items(self, key: str, split: re.Pattern[str]) -> tuple[str, ...]:
        """A list of texts, or one text whose matches of `split` are the items; empty if the key is missing."""
        value = self.values.get(key)
        if value is None:
            return ()
        if isinstance(value, list):
            items = cast("list[object]", value)
            if not all(isinstance(each, str) and each.strip() for each in items):
                raise self.error(f"{key!r} must be a list of texts.", key)
            return tuple(cast("str", each).strip() for each in items)
        return tuple(split.findall(self.text(key) or ""))


def read_front_matter(text: str, file: str) -> FrontMatter:
    """The front matter of a file's text; `FrontMatterError` with file and line, `MissingExtraError` without PyYAML.

        ---
        name: travel-planning          line 2
        metadata:
          version: 1.10                text("metadata", ...) gives it as written: "1.10"
        ---
        # The body

    | limit | |
    |---|---|
    | size | 16,384 code points |
    | aliases, depth | 10 each; an alias within its own anchor is refused |
    | keys | text, none twice in a mapping |
    | tags (`!x`, `!!str`) | none: no object of Python is ever made |
    | values | text, whole numbers, decimals, true and false, null; lists and mappings of these |

    A date, `yes` and `0o17` are text: readers of YAML differ in how they read these. Values
    are built from the parser's events, so that every limit applies before anything is built.
    """
    text = text.removeprefix("\ufeff")
    lines = text.split("\n")
    if lines[0].rstrip() != FENCE:
        raise FrontMatterError(file, f"the first line must be '{FENCE}', which begins the front matter.", 1)
    end = next((index for index, line in enumerate(lines[1:], 1) if line.rstrip() == FENCE), None)
    if end is None:
        raise FrontMatterError(file, f"the front matter has no end: add a line '{FENCE}' after it.", 1)
    source = "\n".join(lines[1:end]) + "\n"
    if len(source) > MAX_CODE_POINTS:
        raise FrontMatterError(
            file,
            f"the front matter has {len(source):,} characters; at most {MAX_CODE_POINTS:,} are allowed. Move text "
            "into the body.",
            1,
        )
    builder = _Builder(file)
    values = builder.whole(source)
    return FrontMatter(file, values, "\n".join(lines[end + 1 :]), builder.lines, end + 2, builder.written)


def front_matter_text(values: Mapping[str, object], body: str) -> str:
    """A file's text with these values and this body, which `read_front_matter` reads back as they are."""
    yaml = _yaml()

    class Dumper(yaml.SafeDumper):
        """Without aliases, and with quotes around texts that this module would read as something else."""

        def ignore_aliases(self, data: object) -> bool:
            return True

    def represent(dumper: Any, value: str) -> Any:
        plain = _scalar(value) == value and value.isprintable() and value == value.strip()
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=None if plain else '"')

    Dumper.add_representer(str, represent)
    try:
        dumped: str = yaml.dump(dict(values), Dumper=Dumper, sort_keys=False, allow_unicode=True, width=100)
    except yaml.YAMLError as error:
        raise InvalidInputError(f"Front matter takes texts, numbers, lists and mappings: {error}") from error
    return f"{FENCE}\n{dumped}{FENCE}\n{body}"


def check_installed() -> None:
    """`MissingExtraError` without PyYAML."""
    _yaml()


class _Builder:
    """Makes values of the parser's events, and checks the limits on the way."""

    def __init__(self, file: str) -> None:
        self.lines: dict[str, int] = {}
        self.written: dict[tuple[str, ...], str] = {}
        self._file = file
        self._anchors: dict[str, tuple[object, str | None]] = {}
        self._open: set[str] = set()
        self._aliases = 0

    def whole(self, source: str) -> dict[str, object]:
        yaml = _yaml()
        try:
            events = self._checked(yaml.parse(source, Loader=yaml.SafeLoader))
            value = self._document(events)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            raise FrontMatterError(
                self._file,
                f"this is no valid YAML: {error.problem or error.context}. Text with ': ' or ' #' in it needs quotes.",
                1 if mark is None else mark.line + 2,
            ) from None
        except yaml.YAMLError as error:
            line = 2 + source[: getattr(error, "position", 0)].count("\n")
            raise FrontMatterError(self._file, f"this is no valid YAML: {error}".split("\n")[0], line) from None
        if not isinstance(value, dict):
            raise FrontMatterError(self._file, f"the front matter must be a mapping, not {_kind(value)}.", 2)
        return cast("dict[str, object]", value)

    def _checked(self, events: Iterator[Event]) -> Iterator[Event]:
        from yaml import events as kinds

        depth = documents = 0
        for event in events:
            match event:
                case kinds.DocumentStartEvent():
                    documents += 1
                    if documents > 1:
                        raise self._error(event, "the front matter must be one document: remove the line '...'")
                case kinds.CollectionStartEvent():
                    depth += 1
                    if depth > MAX_DEPTH:
                        raise self._error(event, f"values are nested more than {MAX_DEPTH} deep")
                case kinds.CollectionEndEvent():
                    depth -= 1
                case kinds.AliasEvent():
                    self._aliases += 1
                    if self._aliases > MAX_ALIASES:
                        raise self._error(event, f"there are more than {MAX_ALIASES} aliases (*name)")
                case _:
                    pass
            if getattr(event, "tag", None) is not None:
                raise self._error(event, f"tags such as {event.tag!r:.60} are not allowed")  # pyright: ignore
            yield event

    def _document(self, events: Iterator[Event]) -> object:
        from yaml import events as kinds

        value: object = None
        for event in events:
            if isinstance(event, kinds.NodeEvent):
                value = self._value(event, events, ())
        return value

    def _value(self, event: NodeEvent, events: Iterator[Event], path: tuple[str, ...]) -> object:
        from yaml import events as kinds

        if isinstance(event, kinds.AliasEvent):
            if event.anchor in self._open:
                raise self._error(event, f"the alias *{event.anchor} stands within its own anchor")
            if event.anchor not in self._anchors:
                raise self._error(event, f"there is no anchor &{event.anchor}")
            value, written = self._anchors[event.anchor]
            if written is not None:
                self.written[path] = written
            return value
        anchor: str | None = event.anchor
        if anchor is not None:
            self._open.add(anchor)
        value: object
        if isinstance(event, kinds.ScalarEvent):
            text = self._text(event)
            value = _scalar(text) if event.style is None else text
            self.written[path] = "" if value is None else text
        elif isinstance(event, kinds.SequenceStartEvent):
            value = self._list(events, path)
        else:
            value = self._mapping(events, path)
        if anchor is not None:
            self._open.discard(anchor)
            self._anchors[anchor] = value, self.written.get(path)
        return value

    def _list(self, events: Iterator[Event], path: tuple[str, ...]) -> list[object]:
        from yaml import events as kinds

        items: list[object] = []
        while isinstance(event := next(events), kinds.NodeEvent):
            items.append(self._value(event, events, (*path, "")))
        return items

    def _mapping(self, events: Iterator[Event], path: tuple[str, ...]) -> dict[str, object]:
        from yaml import events as kinds

        found: dict[str, object] = {}
        while isinstance(event := next(events), kinds.NodeEvent):
            if not isinstance(event, kinds.ScalarEvent):
                raise self._error(event, "a key must be a text")
            key = self._text(event)
            if key in found:
                raise self._error(event, f"the key {key!r:.60} is there twice")
            if not path:
                self.lines[key] = _line(event)
            found[key] = self._value(cast("NodeEvent", next(events)), events, (*path, key))
        return found

    def _text(self, event: Any) -> str:
        text: str = event.value
        if not is_encodable(text):
            raise self._error(event, "a text has half a character in it (a lone surrogate)")
        return text

    def _error(self, event: Event, problem: str) -> FrontMatterError:
        return FrontMatterError(self._file, f"{problem}.", _line(event))


def _line(event: Any) -> int:
    return event.start_mark.line + 2


def _scalar(text: str) -> object:
    """The value of a scalar without quotes."""
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def _kind(value: object) -> str:
    if isinstance(value, (dict, list)):
        return "a mapping" if isinstance(value, dict) else "a list"
    if value is None or isinstance(value, bool):
        return "nothing" if value is None else "true or false"
    return "a text" if isinstance(value, str) else "a number"


def _yaml() -> Any:
    try:
        import yaml
    except ImportError:
        raise MissingExtraError("pyyaml", "skills") from None
    return yaml
