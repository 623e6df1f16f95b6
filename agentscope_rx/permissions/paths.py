"""`PathReading`: a path argument as a rule reads it, narrowly (to allow) and widely (to ask and to deny).

| written                                | narrowly: the names below the root | widely                                 |
|----------------------------------------|------------------------------------|----------------------------------------|
| `src/a.py`, `./src//a.py`              | `src`, `a.py`                      | the same, in any case and Unicode form |
| an absolute path below the root        | the same                           | the same                               |
| `src/../a`, `a\\b`, `%2e%2e/a`, a link | not readable                       | where it leads, in each reading        |
| an absolute path elsewhere, `../x`     | not readable                       | outside: matched by no pattern         |
| `~/x`, `$A/x`, control characters      | not readable                       | cannot be told                         |
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import unquote

from agentscope_rx.errors import WorkspaceError
from agentscope_rx.tools.files.globs import DenyList, Glob
from agentscope_rx.tools.files.paths import MAX_PATH, folded, parts_of

_STRANGE = re.compile(r"[\x00-\x1f\x7f]|^\s*[~$]|%[A-Za-z_]\w*%")
_FILE_URL = re.compile(r"^file:(?://localhost(?=/)|/*(?=/)|(?!/))", re.IGNORECASE)
_QUOTES = " \t\r\n\"'`"
_DECODINGS = 3
"""How often a path may be encoded with percent signs, to be read."""
_PROCESS = re.compile(r"/+proc/[^/]+/(?:task/[^/]+/)?(?P<link>cwd|root)(?P<rest>/.*)?", re.DOTALL)
_WILD = re.compile(r"[*?\[{]")


@dataclass(frozen=True)
class PathReading:
    """A path that a tool gets, which works in the folder `base`; rules are relative to `root` (None: not known)."""

    text: str
    base: str | None
    root: str | None

    @cached_property
    def names(self) -> tuple[str, ...] | None:
        """The names below the root; None for a path that cannot be read narrowly."""
        text = self.text
        if unquote(text) != text:
            # another tool than a file tool may decode it
            return None
        if self.root is not None and self.base is not None:
            if os.path.isabs(text):
                if os.path.normpath(text) != text.rstrip("/") or not _is_below(text, self.root):
                    return None
                text = os.path.relpath(text, self.root)
            elif self.base != self.root:
                if not _is_below(self.base, self.root):
                    return None
                text = f"{os.path.relpath(self.base, self.root)}/{text}"
        try:
            return parts_of(text)
        except WorkspaceError:
            return None

    def expands(self, denied: DenyList) -> bool:
        """True if the path has wildcards, and a tool that expands them may find something denied."""
        return bool(_WILD.search(self.text)) and _may_hold(literal_of(self.text), denied)

    @property
    def inside(self) -> bool:
        """True if the path is below the root, as it is written and as links lead."""
        return self.names is not None and (self.root is None or self._real(self.text) is not None)

    @property
    def strange(self) -> bool:
        """True if it cannot be told where the path leads."""
        return len(self.text) > MAX_PATH or bool(_STRANGE.search(self.text)) or not _encodable(self.text)

    def _real(self, text: str) -> tuple[str, ...] | None:
        """The names below the root once links are followed; None outside of it."""
        if self.root is None or self.base is None or self.strange:
            return None
        return _below(os.path.realpath(os.path.join(self.base, text)), os.path.realpath(self.root))

    def matches(self, pattern: Glob) -> bool:
        """True if the path matches, as it is written and as links lead."""
        if self.names is None or not pattern.matches(self.names):
            return False
        real = self._real(self.text)
        return self.root is None or (real is not None and pattern.matches(real))

    def touches(self, denied: DenyList, *, below: bool) -> bool:
        """True if a reading of the path is denied; with `below` also if something below it may be."""
        if len(self.text) > MAX_PATH:
            # no system opens it
            return False
        return any(denied.denies(names) is not None or (below and _may_hold(names, denied)) for names in self._readings)

    @cached_property
    def _readings(self) -> tuple[tuple[str, ...], ...]:
        """The names below the root in each way in which the path may be read."""
        texts = {self.text, self.text.strip(_QUOTES)}
        for _ in range(_DECODINGS):
            texts |= {unquote(each) for each in texts}
        texts |= {each.replace("\\", "/") for each in texts}
        texts |= {_FILE_URL.sub("", each) for each in texts}
        texts |= {_followed(each) for each in texts if "proc" in each}
        found: dict[tuple[str, ...], None] = {}
        for text in texts:
            found.update(dict.fromkeys(self._read(text)))
            real = self._real(text)
            if real is not None:
                found[real] = None
        return tuple(found)

    def _read(self, text: str) -> Iterator[tuple[str, ...]]:
        if self.root is None or self.base is None:
            names = tuple(part for part in os.path.normpath(text).split("/") if part not in ("", "."))
            # without a known root, an absolute path may end below it
            for start in range(len(names) if os.path.isabs(text) or ".." in names else 1):
                yield names[start:]
            return
        names = _below(os.path.normpath(os.path.join(self.base, text)), self.root)
        if names is not None:
            yield names


def _followed(text: str) -> str:
    """The path without the links of a process to its folder and its root: here they would be those of this process."""
    found = _PROCESS.match(os.path.normpath(text))
    if found is None:
        return text
    return f".{found['rest']}" if found["link"] == "cwd" else found["rest"] or "/"


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")


def _below(path: str, root: str) -> tuple[str, ...] | None:
    """The names below the root, in whatever case and form its own path is written; None outside."""
    names = tuple(part for part in path.split("/") if part)
    above = tuple(part for part in root.split("/") if part)
    if tuple(map(folded, names[: len(above)])) != tuple(map(folded, above)):
        return None
    return names[len(above) :]


def _may_hold(names: tuple[str, ...], denied: DenyList) -> bool:
    return any(may_hold(names, pattern) for pattern in denied.patterns)


def may_hold(names: tuple[str, ...], pattern: str) -> bool:
    """True if something below this folder may match the pattern."""
    literal = literal_of(pattern)
    if "/" not in pattern.rstrip("/"):
        return True
    return all(folded(name) == folded(part) for name, part in zip(names, literal, strict=False))


def literal_of(pattern: str) -> tuple[str, ...]:
    """The names with which a pattern begins."""
    found: list[str] = []
    for part in pattern.split("/"):
        if _WILD.search(part):
            break
        if part not in ("", "."):
            found.append(part)
    return tuple(found)
