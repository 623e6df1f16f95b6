"""What is reviewed: the files of a folder, or those of a git diff, with their lines numbered."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

MAX_FILES, MAX_LINES = 100, 600
SUFFIXES = {".py", ".js", ".ts", ".go", ".rs", ".java", ".c", ".cpp", ".sh"}
Found = TypeVar("Found", Path, str)
HUNK = re.compile(r"^@@ -\S+ \+(\d+)")


@dataclass(frozen=True, slots=True)
class Sources:
    """Texts by path. A model can read these, and no other file."""

    texts: dict[str, str]

    @staticmethod
    def of_folder(folder: Path) -> Sources:
        """The source files of a folder, hidden ones left out."""
        files = [
            file
            for file in sorted(folder.rglob("*"))
            if file.suffix in SUFFIXES
            and file.is_file()
            and not any(part.startswith(".") for part in file.relative_to(folder).parts)
        ]
        return Sources({file.relative_to(folder).as_posix(): numbered(file) for file in first(files)})

    @staticmethod
    def of_diff(revision: str, folder: Path) -> Sources:
        """The files that differ from the revision; lines that are new have a `+` behind their number."""
        names = git(folder, "diff", "--relative", "--name-only", "--diff-filter=AMR", "-z", revision).split("\0")
        chosen = first([name for name in names if Path(name).suffix in SUFFIXES])
        return Sources({name: changed(git(folder, "diff", "--relative", revision, "--", name)) for name in chosen})


def first(found: list[Found]) -> list[Found]:
    """As many as are reviewed; it says so, if there are more."""
    if len(found) > MAX_FILES:
        print(f"The first {MAX_FILES} of {len(found)} files are reviewed.", file=sys.stderr)
    return found[:MAX_FILES]


def git(folder: Path, *arguments: str) -> str:
    """What git says; its error, if it fails, ends the program."""
    done = subprocess.run(  # noqa: S603
        ["git", "-C", str(folder), *arguments],  # noqa: S607
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    if done.returncode:
        # (outside of a repository the rest is a page of help)
        raise SystemExit(done.stderr.strip().partition("\n")[0])
    return done.stdout


def numbered(file: Path) -> str:
    lines = file.read_text(encoding="utf-8", errors="replace").removesuffix("\n").split("\n")[:MAX_LINES]
    return "\n".join(f"{number:4}  {line}" for number, line in enumerate(lines, 1))


def changed(diff: str) -> str:
    """The lines of a diff as they are now, with their numbers."""
    shown: list[str] = []
    number = 0
    for line in diff.removesuffix("\n").split("\n"):
        if found := HUNK.match(line):
            number = int(found[1])
        elif number and not line.startswith(("-", "\\")):
            shown.append(f"{number:4}{line[:1]} {line[1:]}")
            number += 1
    return "\n".join(shown[:MAX_LINES])
