"""`check_sub_agents`: what is wrong with the declarations at a path, by file and line. It changes and starts nothing.

| finding                                                                    | level   |
|----------------------------------------------------------------------------|---------|
| a file that cannot be used, a link, two of one name                        | error   |
| a model without a provider that is known                                   | error   |
| a name that is not that of the file                                        | warning |

The names of tools are not checked: they are those of the agent that starts the sub-agent, which checks them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from agentscope_rx.errors import ConfigurationError, SubAgentFileError
from agentscope_rx.models.registry import REGISTRY
from agentscope_rx.skills.checks import Finding
from agentscope_rx.skills.front_matter import read_front_matter
from agentscope_rx.sub_agents.source import ENDING, FolderSubAgents, FoundSubAgent
from agentscope_rx.workspace.layout import SUBAGENTS


def check_sub_agents(path: str | os.PathLike[str]) -> tuple[tuple[str, ...], tuple[Finding, ...]]:
    """The files that were checked, and what was found.

    `path` is a file, a folder that holds files of sub-agents, or a workspace.
    """
    given = Path(path)
    if not given.exists():
        return (), (Finding(str(path), None, "error", "there is no such file or folder."),)
    folder = given if given.is_dir() else given.parent
    if given.is_dir() and (given / SUBAGENTS).is_dir():
        folder = given / SUBAGENTS
    scan = FolderSubAgents(folder).scan()
    only = None if given.is_dir() else str(folder / given.name)
    findings = [_finding(error) for error in scan.problems]
    for found in scan.found:
        findings += _warnings(found)
    files = {each.file for each in findings} | {found.place for found in scan.found}
    if only is not None:
        files, findings = files & {only}, [each for each in findings if each.file == only]
    if not files:
        return (), (Finding(str(path), None, "error", f"there is no file *{ENDING} of a sub-agent."),)
    return tuple(sorted(files)), tuple(sorted(findings, key=lambda each: (each.file, each.line or 0)))


def _finding(error: SubAgentFileError) -> Finding:
    return Finding(error.file, error.line, "error", error.problem)


def _warnings(found: FoundSubAgent) -> Iterator[Finding]:
    lines = read_front_matter(Path(found.place).read_text(encoding="utf-8"), found.place).lines
    declared = found.declared
    if isinstance(declared.model, str):
        try:
            REGISTRY.split(declared.model)
        except ConfigurationError as error:
            yield Finding(found.place, lines.get("model"), "error", str(error))
    stem = Path(found.place).name[: -len(ENDING)]
    if declared.name != stem:
        text = f"the file is named {stem!r}, and the sub-agent {declared.name!r}. Give both the same name."
        yield Finding(found.place, lines.get("name"), "warning", text)
