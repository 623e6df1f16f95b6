"""What the model reads of skills: the list in the system message, and the result of `load_skill`.

    <available_skills>
    <skill>
    <name>trip-planning</name>
    <description>Plans trips by rail. Use it for questions about trains &amp; ferries.</description>
    </skill>
    </available_skills>

Names and descriptions are escaped, so that no description closes a tag or opens another one. The list is sorted, and
the same text byte for byte until a skill changes: prompt caches hold.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from html import escape
from typing import Protocol

from agentscope_rx.models.tokens.cuts import most_that_fits
from agentscope_rx.skills.skill import FILE_NAME
from agentscope_rx.skills.source import FoundSkill, SkillFile
from agentscope_rx.tools.files.paths import on_one_line

LOAD = "load_skill"
READ = "read_skill_file"
RUN = "run_skill_script"

INSTRUCTION = (
    f"Skills are instructions for certain kinds of tasks. If a task fits the description of a skill, call {LOAD} with "
    "its name before you begin, and follow what it says. Load only skills that the task needs."
)
MAX_LISTED = 200
"""Files of a skill that `load_skill` names."""

_SPACE = re.compile(r"\s+")


class Described(Protocol):
    """What is listed: a skill, or something else with a name and a description."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...


def skills_section(
    infos: Sequence[Described], instruction: str, max_tokens: int, count: Callable[[str], int], tag: str = "skill"
) -> tuple[str, int]:
    """The text for the system message, at most `max_tokens` long, and how many skills it leaves out.

    `tag` is the tag of one of them, in the place of `skill`.

    If not all of it fits, the descriptions are cut to one length, the largest that fits. If the names alone do not
    fit, the last ones are left out, and the text says how many.
    """
    if not infos:
        return "", 0
    lengths = [len(_plain(info.description)) for info in infos]
    text = _section(infos, instruction, max(lengths), tag)
    if count(text) <= max_tokens:
        return text, 0

    def described(length: int) -> str:
        return _section(infos, instruction, length, tag)

    def named(number: int) -> str:
        return _section(infos[:number], instruction, 0, tag, len(infos) - number)

    if count(described(0)) <= max_tokens:
        return described(most_that_fits(0, max(lengths) - 1, lambda length: count(described(length)) <= max_tokens)), 0
    number = most_that_fits(0, len(infos) - 1, lambda number: count(named(number)) <= max_tokens)
    return (named(number) if number else ""), len(infos) - number


def _section(infos: Sequence[Described], instruction: str, length: int, tag: str, left_out: int = 0) -> str:
    lines = [instruction] if instruction else []
    lines.append(f"<available_{tag}s>")
    for info in infos:
        description = _cut(_plain(info.description), length)
        shown = [f"<description>{escape(description, quote=False)}</description>"] if description else []
        lines += [f"<{tag}>", f"<name>{escape(info.name, quote=False)}</name>", *shown, f"</{tag}>"]
    if left_out:
        lines.append(f"... and {left_out} more, for which there is no room here.")
    lines.append(f"</available_{tag}s>")
    return "\n".join(lines)


def _cut(text: str, length: int) -> str:
    if len(text) <= length:
        return text
    return f"{text[: length - 3].rstrip()}..." if length > 3 else ""


def _plain(text: str) -> str:
    """The text on one line."""
    return _SPACE.sub(" ", text).strip()


def loaded_text(
    skill: FoundSkill, content: str, files: Sequence[SkillFile], tools: Sequence[str], version: str | None
) -> str:
    """The result of `load_skill`: what the skill has, then its instructions; `version` if its scripts can be run."""
    info = skill.info
    lines = [f"Skill {info.name}"]
    if info.compatibility:
        lines.append(f"It needs: {_plain(info.compatibility)}")
    if info.allowed_tools:
        names = ", ".join(info.allowed_tools)
        lines.append(f"It is written for these tools: {names}. That permits nothing: all calls are checked as before.")
    if tools:
        lines.append(f"These tools are available now: {', '.join(tools)}")
    if files:
        lines.append(f"Its files, which {READ} reads when you need them:")
        lines += [f"- {on_one_line(each.path)} ({each.size:,} bytes)" for each in files[:MAX_LISTED]]
        if len(files) > MAX_LISTED:
            lines.append(f"- ... and {len(files) - MAX_LISTED} more")
    if version is not None:
        lines.append(f"Run its scripts with {RUN}, never in another way. Their version is {version}.")
    lines.append(f'<skill name="{info.name}">')
    return "\n".join([*lines, content.strip("\n"), "</skill>"])


def more_of(name: str, line: int) -> str:
    """The note below instructions that are too long for one result."""
    return f'\n(The rest: {READ} with name="{name}", path="{FILE_NAME}", offset={line}.)'
