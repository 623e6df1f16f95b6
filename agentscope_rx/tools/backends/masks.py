"""`denied_paths`: the paths of a workspace that its `deny` patterns deny, to be covered in a sandbox.

They are looked for before each command, because a sandbox can cover only what exists. The search follows no link, and
does not go into what it has found.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

from agentscope_rx.errors import ToolError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.tools.files.globs import DenyList

MAX_ENTRIES = 200_000
"""How many names one search looks at."""
MAX_DENIED = 1_000
"""How many paths are covered in one sandbox."""

MAX_BYTES = 3_700
"""How long the path of a folder may be that is looked into: a sandbox covers by path, which has 4,096 bytes at most."""

_FLAGS = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


@dataclass(frozen=True, slots=True)
class DeniedPath:
    """A denied path that exists, by its parts."""

    parts: tuple[str, ...]
    folder: bool


def denied_paths(root: str, deny: DenyList) -> list[DeniedPath]:
    """The denied paths below a folder; `ToolError` if there are too many to look at, or to cover."""
    found: list[DeniedPath] = []
    if not deny.patterns:
        return found
    pending: list[tuple[str, ...]] = [()]
    seen = 0
    while pending:
        above = pending.pop()
        denied = deny.below(above)
        if above and len(os.fsencode(os.path.join(root, *above))) > MAX_BYTES:
            # what lies below it could not be covered
            found.append(DeniedPath(above, True))
            continue
        try:
            names = list(_names(root, above))
        except FileNotFoundError:
            # removed meanwhile, or replaced by a link
            continue
        except OSError:
            # what cannot be read now may be made readable by the command: the whole folder is covered
            found.append(DeniedPath(above, True))
            continue
        for name, kind in names:
            if denied(name):
                if kind != "link":
                    found.append(DeniedPath((*above, name), kind == "folder"))
            elif kind == "folder":
                pending.append((*above, name))
        seen += len(names)
        if seen > MAX_ENTRIES:
            raise ToolError(
                f"The workspace has more than {MAX_ENTRIES:,} files, too many to find those that are denied to a "
                "command. Use a smaller workspace, or a Workspace with deny=()."
            )
        if len(found) > MAX_DENIED:
            raise ToolError(f"The workspace has more than {MAX_DENIED:,} denied paths, too many to cover in a sandbox.")
    return found


def _names(root: str, parts: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """The names in a folder, each with its kind: "folder", "link" or "file" for all others."""
    path = os.path.join(root, *parts)
    try:
        descriptor = os.open(path, os.O_RDONLY | _FLAGS)
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP):
            raise FileNotFoundError(path) from None
        raise
    try:
        with os.scandir(descriptor) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    yield entry.name, "folder"
                else:
                    yield entry.name, "link" if entry.is_symlink() else "file"
    finally:
        os.close(descriptor)
