"""`parts_of`: a model's path as names below the workspace, or a refusal. Only the text is checked here.

| path                                              | answer                                            |
|---------------------------------------------------|---------------------------------------------------|
| `docs/index.md`, `./docs//index.md`, `.`          | `("docs", "index.md")`, ..., `()`                 |
| `/etc/passwd`, `C:\\x`, `C:x`, `\\\\host\\share`  | `absolute`                                        |
| `../x`, `docs/../x`                               | `parent`                                          |
| `~`, `~/x`, `~root/x`                             | `home`: it is not expanded                        |
| `NUL.txt`, `a:stream`, `x.`, `a\\b`, `PROGRA~1`   | `name`: another name, or a device, on some system |
| NUL, control characters, 255 bytes and more       | `name`                                            |

Names that have another meaning on some system are refused on every system (`portable`), so that a workspace can be
copied between systems. Without `portable`, a system still refuses names that have another meaning on itself. (This is
the only place that knows them: three patterns and a dozen lines.)
"""

from __future__ import annotations

import os
import re
import unicodedata

from agentscope_rx.errors import WorkspaceError

MAX_NAME = 255
"""Bytes of one name, the limit of common file systems."""
MAX_PARTS = 256
MAX_PATH = 32_000

_DRIVE = re.compile(r"[A-Za-z]:")
_HOME = re.compile(r"~(?:[A-Za-z_][\w.-]*|[+-]?\d*)")
_RESERVED = re.compile(r"(?:con|prn|aux|nul|conin\$|conout\$|clock\$|(?:com|lpt)[0-9¹²³])(?:[.: ].*)?", re.IGNORECASE)
_SHORT_NAME = re.compile(r"[^.]{1,6}~\d{1,5}(?:\..{0,3})?")
_NOT_PORTABLE = re.compile(r"[\\:<>\"|?*]")


def parts_of(path: str, *, portable: bool = True, root: str | None = None) -> tuple[str, ...]:
    """The parts of a path below the workspace; `WorkspaceError` for a path that leads elsewhere."""
    portable = portable or os.name == "nt"
    if len(path) > MAX_PATH:
        raise _refused(path, "name", f"cannot be opened: it is longer than {MAX_PATH} characters")
    if path.startswith(("/", "\\")) or os.path.isabs(path) or (portable and _DRIVE.match(path)):
        raise _absolute(path, root)
    if _control(path, portable):
        raise _refused(path, "name", "has a control character in it and cannot be opened. Give the plain name")
    parts = tuple(part for part in path.replace(os.sep, "/").split("/") if part not in ("", "."))
    split = re.split(r"[/\\]", path) if portable else parts
    if any(part.strip() == ".." for part in split):
        raise _refused(path, "parent", "has '..' in it. Nothing outside the working directory can be reached")
    if parts and _HOME.fullmatch(parts[0]):
        raise _refused(path, "home", "begins with '~', which is not expanded. Give a path inside the working directory")
    if len(parts) > MAX_PARTS:
        raise _refused(path, "name", f"cannot be opened: it has more than {MAX_PARTS} parts")
    for part in parts:
        _check(path, part, portable)
    return parts


def shown(path: str) -> str:
    """A path as it is quoted in messages to the model."""
    return repr(path if len(path) <= 120 else f"{path[:117]}...")


def on_one_line(path: str) -> str:
    """A path in a text for the model, whatever characters are in it."""
    return path if path.isprintable() else repr(path)


def folded(name: str) -> str:
    """A name without the differences that some file system ignores: case, Unicode form, invisible characters."""
    if name.isascii():
        return name.lower().rstrip(" .") or name
    plain = unicodedata.normalize("NFKC", name).casefold()
    return "".join(each for each in plain if unicodedata.category(each) != "Cf").rstrip(" .") or name


def _check(path: str, part: str, portable: bool) -> None:
    try:
        size = len(os.fsencode(part))
    except UnicodeEncodeError:
        raise _refused(path, "name", "cannot be opened: this system cannot encode it") from None
    if size > MAX_NAME:
        raise _refused(path, "name", f"cannot be opened: a name in it is longer than {MAX_NAME} bytes")
    if not portable:
        return
    if _RESERVED.fullmatch(part):
        raise _refused(
            path, "name", f"has the name {part!r} in it, which is a device on some systems. Use another name"
        )
    if found := _NOT_PORTABLE.search(part):
        hint = "Write '/' between folders" if found[0] == "\\" else "Use another name"
        raise _refused(path, "name", f"has {found[0]!r} in it, which not every system takes as part of a name. {hint}")
    if part != part.strip() or part.endswith("."):
        raise _refused(path, "name", f"has the name {part!r} in it, the end of which some systems drop. Leave it out")
    if _SHORT_NAME.fullmatch(part):
        raise _refused(path, "name", f"has the name {part!r} in it, which is another file's name on some systems")


def _control(path: str, portable: bool) -> bool:
    if path.isascii() and path.isprintable():
        return False
    return "\0" in path or (portable and any(unicodedata.category(each) in ("Cc", "Cs", "Zl", "Zp") for each in path))


def _absolute(path: str, root: str | None) -> WorkspaceError:
    inside = "docs"
    if root is not None and path.startswith(root.rstrip("/\\") + os.sep):
        inside = path[len(root.rstrip("/\\")) + 1 :][:100] or "."
    return _refused(
        path, "absolute", f"is an absolute path. Give a path inside the working directory, such as {inside!r}"
    )


def _refused(path: str, reason: str, why: str) -> WorkspaceError:
    return WorkspaceError(f"{shown(path)} {why}.", path=path, reason=reason)
