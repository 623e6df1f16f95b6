"""`check_skills`: what is wrong with the skills at a path, by file and line. It changes and runs nothing.

| finding                                                                  | level   |
|--------------------------------------------------------------------------|---------|
| front matter that cannot be used: see `skill`                            | error   |
| the folder has another name than the skill                               | error   |
| no instructions                                                          | error   |
| a file that the instructions name, and that is not there                 | error   |
| a link, a file that cannot be read, an empty script, Python that does not parse | error |
| a key that the format does not have                                      | warning |
| more than 500 lines of instructions                                      | warning |
| a script with a `#!` line that is not executable, or that nothing runs   | warning |
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

from agentscope_rx.errors import SkillError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.skills.folders import SKILLS, FolderFiles
from agentscope_rx.skills.front_matter import FrontMatter
from agentscope_rx.skills.scripts import INTERPRETERS
from agentscope_rx.skills.skill import FIELDS, FILE_NAME, info_of_text
from agentscope_rx.skills.source import note_of
from agentscope_rx.tools.files.workspace import Workspace

MAX_LINES = 500
"""Lines of instructions: what is longer should be in files that are read when needed."""

# [text](path), but no address, no anchor and no mail
_LINK = re.compile(r"\]\(\s*<?(?![a-z][a-z0-9+.-]*:|[#/])([^)>#\s]+)", re.IGNORECASE)
_CODE = re.compile(r"``.+?``|`[^`]+`")
_FENCE = re.compile(r" {0,3}(```+|~~~+)")
_PLACEHOLDER = re.compile(r"[{}$*<>]")
_PATH = re.compile(r"(?<![\w./-])(?:\./)?((?:scripts|references|assets)/[\w./-]*[\w-])(?![\w/<{*$-])")


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong in a file of a skill; `line` is None for the file as a whole."""

    file: str
    line: int | None
    level: Literal["error", "warning"]
    text: str

    def __str__(self) -> str:
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{where}: {self.level}: {self.text}"


def check_skills(path: str | os.PathLike[str]) -> tuple[tuple[str, ...], tuple[Finding, ...]]:
    """The folders of the skills that were checked, and what was found.

    `path` is a skill's folder, its SKILL.md, a folder that holds skills, or a workspace.
    """
    given = Path(path)
    if given.name == FILE_NAME:
        given = given.parent
    if not given.is_dir():
        return (), (Finding(str(path), None, "error", "there is no such folder."),)
    folders = [given] if (given / FILE_NAME).exists() else _below(given) or _below(given / SKILLS)
    if not folders:
        return (), (Finding(str(path), None, "error", f"there is no {FILE_NAME} in it, or in a folder in it."),)
    return tuple(map(str, folders)), tuple(each for folder in folders for each in _check(folder))


def _below(folder: Path) -> list[Path]:
    """The folders in this one, if there is a skill among them."""
    if not folder.is_dir():
        return []
    found = [each for each in sorted(folder.iterdir()) if each.is_dir() and not each.name.startswith(".")]
    return found if any((each / FILE_NAME).exists() for each in found) else []


def _check(folder: Path) -> Iterator[Finding]:
    file = str(folder / FILE_NAME)
    if folder.is_symlink():
        yield Finding(str(folder), None, "error", "it is a symbolic link, and links are not followed.")
        return
    # (by its own name, also for "." and "..")
    real = folder.resolve()
    files = FolderFiles(Workspace(real.parent, portable=False), real.name, str(folder))
    try:
        front, info = info_of_text(files.text(), file)
    except SkillError as error:
        yield Finding(error.file, error.line, "error", error.problem)
        return
    if note := note_of(info.name, real.name):
        yield Finding(file, front.lines["name"], "error", note)
    for key in front.values:
        if key not in FIELDS:
            yield Finding(file, front.lines[key], "warning", f"the format has no key {key!r}: it has no effect here.")
    yield from _body(front, file)
    try:
        sizes = {each.path: each.size for each in files.list()}
    except SkillError as error:
        yield Finding(error.file, error.line, "error", error.problem)
        return
    yield from _references(front, file, sizes)
    yield from _links(folder)
    for path, size in sizes.items():
        yield from _file(folder / path, path, size)


def _body(front: FrontMatter, file: str) -> Iterator[Finding]:
    lines = front.body.count("\n") + 1
    if not front.body.strip():
        yield Finding(file, front.body_line, "error", "there are no instructions after the front matter.")
    elif lines > MAX_LINES:
        text = f"the instructions have {lines} lines, more than {MAX_LINES}. Move parts into files in references/."
        yield Finding(file, front.body_line, "warning", text)


def _references(front: FrontMatter, file: str, known: Iterable[str]) -> Iterator[Finding]:
    """The files that the instructions name, and that are not there."""
    there = {FILE_NAME}
    for path in known:
        parts = path.split("/")
        there |= {"/".join(parts[:depth]) for depth in range(1, len(parts) + 1)}
    seen: set[str] = set()
    fence = ""
    for number, line in enumerate(front.body.split("\n"), front.body_line):
        mark = _FENCE.match(line)
        if mark is not None and (not fence or mark[1].startswith(fence)):
            fence = "" if fence else mark[1]
        # a link in code is an example of a link
        links = [] if fence else _LINK.findall(_CODE.sub("", line))
        for path in (*links, *_PATH.findall(line)):
            wanted = path.removeprefix("./").rstrip("/.")
            if not wanted or wanted in seen or _PLACEHOLDER.search(wanted):
                continue
            seen.add(wanted)
            if ".." in wanted.split("/"):
                yield Finding(file, number, "error", f"{path!r:.200} leads out of the folder of the skill.")
            elif wanted not in there:
                yield Finding(file, number, "error", f"there is no file {path!r:.200} in the skill.")


def _links(folder: Path) -> Iterator[Finding]:
    for where, folders, names in os.walk(folder):
        for name in sorted((*folders, *names)):
            path = Path(where, name)
            if path.is_symlink():
                yield Finding(str(path), None, "error", "it is a symbolic link, and links are not followed.")


def _file(file: Path, path: str, size: int) -> Iterator[Finding]:
    extension = file.suffix.lower()
    is_script = path.startswith("scripts/")
    if is_script and size == 0 and file.name != "__init__.py":
        yield Finding(str(file), None, "error", "it is empty.")
    if extension != ".py" and not is_script:
        return
    try:
        data = file.read_bytes()
    except OSError as error:
        yield Finding(str(file), None, "error", f"it cannot be read: {error.strerror or error}.")
        return
    if extension == ".py":
        try:
            ast.parse(data)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            line = error.lineno if isinstance(error, SyntaxError) else None
            yield Finding(str(file), line, "error", f"this is no valid Python: {getattr(error, 'msg', error)}.")
    if is_script and data.startswith(b"#!"):
        if extension not in INTERPRETERS:
            known = ", ".join(sorted(INTERPRETERS))
            text = f"run_skill_script runs scripts by their extension ({known}), and not by their first line."
            yield Finding(str(file), 1, "warning", text)
        if os.name == "posix" and not os.access(file, os.X_OK):
            yield Finding(str(file), 1, "warning", "it has a #! line and is not executable (chmod +x).")


def to_json(finding: Finding) -> Mapping[str, object]:
    """The finding as plain JSON."""
    return {"file": finding.file, "line": finding.line, "level": finding.level, "text": finding.text}
