"""`Skill`: instructions for one kind of task, with the files that belong to them, by the open Agent Skills format.

    trip-planning/
      SKILL.md              front matter and instructions: `skill_of_text`, `skill_text`
      scripts/ references/ assets/ ...      the other files, by their path in the folder

| field           | limit                                                                                    |
|-----------------|------------------------------------------------------------------------------------------|
| `name`          | 1 to 64 of a-z, 0-9 and single hyphens, none at its ends; the folder should have it, too  |
| `description`   | 1 to 1,024 characters: what the skill does, and when to use it                           |
| `compatibility` | 500 characters                                                                           |
| `allowed_tools` | names of tools. They are shown to the model. They grant nothing: see the guide on skills   |
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from types import MappingProxyType

from agentscope_rx.errors import ConfigurationError, FrontMatterError, SkillError, WorkspaceError
from agentscope_rx.errors.text import encodable, is_encodable
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.skills.front_matter import FrontMatter, front_matter_text, read_front_matter
from agentscope_rx.tools.files.paths import parts_of

FILE_NAME = "SKILL.md"
MAX_NAME = 64
MAX_DESCRIPTION = 1024
MAX_COMPATIBILITY = 500
FIELDS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
"""The keys of the front matter that the format has."""

_TEXTS = ("description", "license", "compatibility")
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
# a word, with what is in parentheses behind it: Bash(git add:*)
_TOOL = re.compile(r"[^\s,(]+(?:\([^)]*\))?")


@dataclass(frozen=True, slots=True)
class SkillInfo:
    """The front matter of a skill.

    | field | |
    |---|---|
    | `name` | required: 1 to 64 of a-z, 0-9 and single hyphens, none at its ends; the name of the folder, too |
    | `description` | required: 1 to 1,024 characters: what the skill does, and when to use it |
    | `license` | |
    | `compatibility` | up to 500 characters: its requirements; shown when it is loaded |
    | `metadata` | texts by name, as they are written: `version: 1.10` is "1.10" |
    | `allowed_tools` | names of tools; shown to the model, and permits nothing |
    """

    name: str
    description: str
    license: str | None = None
    compatibility: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    allowed_tools: tuple[str, ...] = ()

    def to_values(self) -> dict[str, object]:
        """The values as front matter has them, without those that are not set."""
        values: dict[str, object] = {
            "name": self.name,
            "description": self.description,
            "license": self.license,
            "compatibility": self.compatibility,
            "metadata": dict(self.metadata) or None,
            "allowed-tools": " ".join(self.allowed_tools) or None,
        }
        return {key: value for key, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True, init=False)
class Skill:
    """A whole skill: its front matter, the instructions `content`, and the bytes of its other files by path.

        trip-planning/
          SKILL.md              front matter and instructions
          scripts/ references/ assets/ ...      the other files

    Made in code, `resources` may hold texts, which are stored as UTF-8. `ConfigurationError` for values that the
    format does not allow.
    """

    info: SkillInfo
    content: str
    resources: Mapping[str, bytes]

    def __init__(
        self,
        name: str,
        description: str,
        content: str,
        resources: Mapping[str, bytes | str] = MappingProxyType({}),
        *,
        license: str | None = None,
        compatibility: str | None = None,
        metadata: Mapping[str, str] = MappingProxyType({}),
        allowed_tools: Iterable[str] = (),
    ) -> None:
        tools = (allowed_tools,) if isinstance(allowed_tools, str) else tuple(allowed_tools)
        for what, given in (("metadata", metadata), ("resources", resources)):
            if not isinstance(given, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ConfigurationError(f"{what} of a Skill are a dict, as in {{'a.md': '...'}}, not {given!r:.60}.")
        info = SkillInfo(name, description, license, compatibility, dict(metadata), tools)
        _check(info, content)
        put = object.__setattr__
        # without spaces around texts, as they are read from a file
        stripped = {each: text.strip() for each in _TEXTS if (text := getattr(info, each)) is not None}
        put(self, "info", replace(info, metadata=MappingProxyType(dict(metadata)), **stripped))
        put(self, "content", content)
        put(self, "resources", MappingProxyType({_path(name, path): _bytes(resources[path]) for path in resources}))

    @property
    def name(self) -> str:
        """The name of the skill."""
        return self.info.name

    @property
    def description(self) -> str:
        """The purpose of the skill, and when to use it."""
        return self.info.description

    def __repr__(self) -> str:
        return f"<Skill {self.name}, {len(self.resources)} resources>"


def skill_of_text(text: str, file: str, resources: Mapping[str, bytes] = MappingProxyType({})) -> Skill:
    """The skill of a SKILL.md with this text; `SkillError` with file and line for what the format does not allow."""
    read, info = info_of_text(text, file)
    made = object.__new__(Skill)
    put = object.__setattr__
    put(made, "info", info)
    put(made, "content", read.body)
    put(made, "resources", MappingProxyType({_path(info.name, path): resources[path] for path in resources}))
    return made


def info_of_text(text: str, file: str) -> tuple[FrontMatter, SkillInfo]:
    """The front matter of a SKILL.md, as read and as the fields of a skill; `SkillError` as `skill_of_text`."""
    try:
        read = read_front_matter(text, file)
        name = read.required("name")
        if problem := name_problem(name):
            raise read.error(problem, "name")
        info = SkillInfo(
            name,
            read.required("description", MAX_DESCRIPTION),
            read.text("license"),
            read.text("compatibility", MAX_COMPATIBILITY),
            MappingProxyType(dict(read.texts("metadata"))),
            read.items("allowed-tools", _TOOL),
        )
    except FrontMatterError as error:
        raise SkillError(error.file, error.problem, error.line) from None
    return read, info


def skill_text(skill: Skill) -> str:
    """The text of the skill's SKILL.md."""
    return front_matter_text(skill.info.to_values(), skill.content)


def digest_of(files: Mapping[str, bytes]) -> str:
    """32 hexadecimal digits that differ if any of the files, or its path, differs."""
    whole = hashlib.sha256()
    for path in sorted(files):
        for part in (path.encode("utf-8", "surrogateescape"), files[path]):
            whole.update(len(part).to_bytes(8, "big"))
            whole.update(part)
    return whole.hexdigest()[:32]


def name_problem(name: str) -> str | None:
    """Why this cannot be the name of a skill; None if it can."""
    if len(name) <= MAX_NAME and _NAME.fullmatch(name):
        return None
    better = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:MAX_NAME].strip("-") or "my-skill"
    return (
        f"{name!r:.100} cannot name a skill: it needs 1 to {MAX_NAME} of a-z, 0-9 and single hyphens between them. "
        f"Try {better!r}."
    )


def _check(info: SkillInfo, content: object) -> None:
    for what, text, most in (
        ("name", info.name, MAX_NAME),
        ("description", info.description, MAX_DESCRIPTION),
        ("license", info.license, MAX_DESCRIPTION),
        ("compatibility", info.compatibility, MAX_COMPATIBILITY),
        ("content", content, None),
        *((f"metadata[{key!r:.40}]", value, None) for key, value in info.metadata.items()),
        *(("allowed_tools", each, MAX_DESCRIPTION) for each in info.allowed_tools),
    ):
        if text is None and what in ("license", "compatibility"):
            continue
        if not isinstance(text, str):
            raise ConfigurationError(f"{what} of a Skill must be text, not {text!r:.60}.")
        if most is not None and (not text.strip() or len(text.strip()) > most):
            raise ConfigurationError(f"{what} of a Skill must have 1 to {most:,} characters, not {len(text):,}.")
        if not is_encodable(text):
            raise ConfigurationError(f"{what} of a Skill has a lone surrogate in it, which no file can hold.")
    if problem := name_problem(info.name):
        raise ConfigurationError(problem)


def _path(skill: str, path: object) -> str:
    if not isinstance(path, str):
        raise ConfigurationError(f"Resources of skill {skill!r} have paths as keys, not {path!r:.60}.")
    try:
        parts = parts_of(path)
    except WorkspaceError as error:
        raise ConfigurationError(f"A resource of skill {skill!r}: {error}") from None
    if not parts or "/".join(parts) != path or path == FILE_NAME:
        raise ConfigurationError(f"{path!r:.100} is no path for a resource of skill {skill!r}, such as 'scripts/a.py'.")
    return path


def _bytes(data: object) -> bytes:
    if isinstance(data, str):
        return encodable(data).encode()
    if not isinstance(data, bytes):
        raise ConfigurationError(f"A resource of a Skill is bytes or text, not {data!r:.60}.")
    return data
