"""`SkillTools`: the tools by which a model reads skills. They change only which tools a conversation has.

| tool                                  | does                                                                       |
|---------------------------------------|----------------------------------------------------------------------------|
| `load_skill(name)`                    | gives the instructions and the list of files, activates the skill's tools  |
| `read_skill_file(name, path, offset)` | gives a text in pages, an image as an image, for other bytes what they are |
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Annotated, Protocol, cast

from pydantic import Field

from agentscope_rx.errors import SkillError, ToolError, WorkspaceError
from agentscope_rx.messages import Base64Source, ImageBlock, TextBlock
from agentscope_rx.reactive import ENGINE_WORKERS
from agentscope_rx.skills.catalog import Skills
from agentscope_rx.skills.front_matter import read_front_matter
from agentscope_rx.skills.skill import FILE_NAME, digest_of
from agentscope_rx.skills.source import FoundSkill
from agentscope_rx.skills.wording import LOAD, READ, loaded_text, more_of
from agentscope_rx.tools import Effects, FunctionTool, Tool, ToolContext, tool
from agentscope_rx.tools.files.encoding import decoded, image_type, lines_of
from agentscope_rx.tools.files.paths import on_one_line

MAX_LINES = 2_000
MAX_TEXT = 50_000
"""How many lines and characters of a file one result holds."""

# rules about paths are about files of the workspace, and a `path` here is one of a skill
_NONE = Effects()

SkillName = Annotated[str, Field(description="The name of the skill.", examples=["trip-planning"])]


class RunsScripts(Protocol):
    """What runs scripts, as `load_skill` sees it."""

    def can_run(self, path: str) -> bool: ...


class SkillTools:
    """The tools over the skills that `read` gives; `groups` are the groups of tools by the names of skills.

    For a skill with scripts that `runs` can run, `load_skill` gives the version by which they are run.
    """

    def __init__(self, read: Callable[[], Skills], groups: Mapping[str, str], *, runs: RunsScripts | None) -> None:
        self._read = read
        self._groups = groups
        self._runs = runs

    @property
    def all(self) -> tuple[Tool, ...]:
        """Both tools."""
        return (self.load_skill, self.read_skill_file)

    @tool(name=LOAD, read_only=True, effects=_NONE)
    def load_skill(self, name: SkillName, context: ToolContext) -> str:
        """Load a skill: gives its instructions and the list of its files, and makes its tools available."""
        skill = self.find(name)
        with reading():
            front = read_front_matter(skill.files.text(), f"{skill.place}/{FILE_NAME}")
            files = skill.files.list()
            runs = self._runs is not None and any(map(self._runs.can_run, (each.path for each in files)))
            version = digest_of(skill.load_files()) if runs else None
        group = self._groups.get(skill.name)
        tools: tuple[str, ...] = ()
        if group is not None and context.toolkit is not None:
            known = context.toolkit
            if any(each.name == group for each in known.groups):
                known.update_tool_groups([group], active=True)
                tools = tuple(each for each in known.names if group in known.groups_of(each))
        content, rest = front.body, ""
        if len(content) > MAX_TEXT:
            end = content.rfind("\n", 0, MAX_TEXT) + 1 or MAX_TEXT
            content, rest = content[:end], more_of(skill.name, front.body_line + content.count("\n", 0, end))
        return loaded_text(skill, content, files, tools, version) + rest

    @tool(name=READ, read_only=True, effects=_NONE)
    def read_skill_file(
        self,
        name: SkillName,
        path: Annotated[
            str, Field(description="The file, as load_skill lists it.", examples=["references/fares.md"])
        ] = FILE_NAME,
        offset: Annotated[int, Field(description="The first line, counted from 1.", ge=1)] = 1,
    ) -> object:
        """Read a file of a skill: the lines of a text, or an image."""
        skill = self.find(name)
        with reading():
            data = skill.files.text().encode() if path == FILE_NAME else file_of(skill, path)
        if media_type := image_type(data):
            text = f"{on_one_line(path)} ({media_type}, {len(data):,} bytes)"
            return [TextBlock(text), ImageBlock(Base64Source.of(data, media_type))]
        try:
            text, _ = decoded(data, path)
        except WorkspaceError as error:
            return f"{error} Its content cannot be shown; a script or a tool may use the file."
        return _page(text, path, offset)

    def find(self, name: str) -> FoundSkill:
        """The skill of this name; `ToolError` with the names that there are."""
        skills = self._read()
        found = skills.by_name.get(name.strip())
        if found is not None:
            return found
        broken = [each for each in skills.problems if each.skill == name.strip()]
        if broken:
            raise ToolError(f"Skill {name!r:.100} cannot be used: {broken[0]}")
        near = ", ".join(skills.near(name)) or "no similar ones" if skills.by_name else "no skills at all"
        raise ToolError(f"There is no skill {name!r:.100}. There are: {near}.")


def file_of(skill: FoundSkill, path: str) -> bytes:
    """The bytes of a listed file; `ToolError` with the files that there are."""
    known = [each.path for each in skill.files.list()]
    wanted = path.strip().removeprefix("./")
    if wanted not in known:
        near = get_close_matches(wanted[:200], known, 5, 0.4)
        there = ", ".join(map(on_one_line, near or known[:20])) or "none besides SKILL.md"
        raise ToolError(f"Skill {skill.name!r} has no file {path!r:.200}. Its files: {there}.")
    return skill.files.read(wanted)


@contextmanager
def reading() -> Generator[None]:
    """A `SkillError` within is a `ToolError` for the model."""
    try:
        yield
    except SkillError as error:
        raise ToolError(f"The skill cannot be read: {error}") from error


def _page(text: str, path: str, first: int) -> str:
    """Lines from `first` on, as many as one result holds, with a note if there are more."""
    lines = lines_of(text)
    if not lines:
        return f"The file {on_one_line(path)} is empty."
    if first > len(lines):
        raise ToolError(f"{on_one_line(path)} has {len(lines)} lines; there is no line {first}.")
    taken: list[str] = []
    room = MAX_TEXT
    for line in lines[first - 1 : first - 1 + MAX_LINES]:
        if len(line) >= room and taken:
            break
        taken.append(
            line if len(line) <= MAX_TEXT else f"{line[:MAX_TEXT]}... ({len(line) - MAX_TEXT} more characters)"
        )
        room -= len(line) + 1
    last = first + len(taken) - 1
    more = f" Read on with offset={last + 1}." if last < len(lines) else ""
    note = f"\n(Lines {first} to {last} of {len(lines)}.{more})" if first > 1 or more else ""
    return "\n".join(taken) + note


# they always end, so that they run on threads which stuck tools cannot occupy
for _each in vars(SkillTools).values():
    if isinstance(_each, FunctionTool):
        cast("FunctionTool[..., object]", _each).default_executor = ENGINE_WORKERS
