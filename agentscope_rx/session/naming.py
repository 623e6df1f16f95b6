"""File names for keys and names: any text gives one, each another, and none leads anywhere.

| text               | file name                        |                                                   |
|--------------------|----------------------------------|---------------------------------------------------|
| `user-1`           | `user-1`                         | a-z, 0-9, `-` and `_` stand for themselves        |
| `Ann`, `..`, `a/b` | `=41nn`, `=2e=2e`, `a=2fb`       | all else: its bytes in UTF-8                      |
| `con`, `-x`        | `=63on`, `=2dx`                  | what a system or a shell takes for something else |
| 1,000 letters      | the first 30, `=h`, and a digest | the text itself is told by the manifest           |

Only lower case is used, and only ASCII, so it does not matter whether a file system tells case or normalises text.
"""

from __future__ import annotations

import hashlib
import re

LONGEST = 100
"""Characters of a name that stands for itself; with a suffix it stays below what every file system takes."""

_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-_")
_RESERVED = re.compile(r"con|prn|aux|nul|com[0-9]|lpt[0-9]")
_CODE = re.compile(r"(?:[a-z0-9_-]|=[0-9a-f]{2})+")
_DIGEST = re.compile(r"=h[0-9a-f]{64}$")


def code_of(text: str) -> str:
    """The text in file name characters, however long it gets; `text_of` takes it back."""
    # "surrogatepass": half of a surrogate pair is text, too
    data = text.encode("utf-8", "surrogatepass")
    code = "".join(chr(byte) if byte in _PLAIN else f"={byte:02x}" for byte in data)
    if code.startswith("-") or _RESERVED.fullmatch(code):
        return f"={data[0]:02x}{code[1:]}"
    return code


def text_of(code: str) -> str | None:
    """The text that a code stands for, None if it is no code."""
    if not _CODE.fullmatch(code):
        return None
    data = re.sub(rb"=(..)", lambda found: bytes([int(found[1], 16)]), code.encode())
    try:
        text = data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return None
    return text if code_of(text) == code else None


def file_name(text: str) -> str:
    """The file name of a text, without suffix."""
    code = code_of(text)
    if len(code) <= LONGEST:
        return code
    return f"{code[:30]}=h{hashlib.sha256(code.encode()).hexdigest()}"


def is_shortened(name: str) -> bool:
    """Whether a file name stands for a text that it does not tell."""
    return _DIGEST.search(name) is not None
