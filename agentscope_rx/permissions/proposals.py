"""`proposals`: the rules that "always" may mean for one call, from narrow to wide.

| the call                       | rules                                                                               |
|--------------------------------|-------------------------------------------------------------------------------------|
| `write_file` of `src/app/a.py` | the exact call; `write_file(src/app/a.py)`; `write_file(src/app/**)`; `write_file`  |
| `run_command` of `git log -n3` | the exact call; `run_command(git log -n3)`; `run_command(git log *)`                |
| a program that runs others     | none: what it runs is not what was shown (`python a.py`, `make`, `run_python`)      |
| another tool                   | the exact call; the tool                                                            |
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.permissions.paths import literal_of, may_hold
from agentscope_rx.permissions.rule import PermissionRule
from agentscope_rx.permissions.subject import Subject
from agentscope_rx.tools.shell.programs import BY_COMMAND, command_of, named, runs_any

_PATTERN = re.compile(r"[*?\[\]{}]")


def proposals(subject: Subject, deny: Iterable[PermissionRule]) -> Iterator[PermissionRule]:
    """The rules, narrow ones first; what `deny` says about the tool is never crossed."""
    denied = [rule for rule in deny if rule.names(subject.names)]
    effects = subject.effects
    words = subject.words
    if effects.code is not None or (effects.command is not None and (words is None or runs_any((*words, "*")))):
        return
    yield PermissionRule(subject.name, arguments=dict(subject.call.input))
    if words is not None:
        yield from _of_command(subject.name, words)
        return
    if effects.paths:
        yield from _of_paths(subject, denied)
    if not denied:
        yield PermissionRule(subject.name)


def _of_command(tool: str, words: tuple[str, ...]) -> Iterator[PermissionRule]:
    if any(_PATTERN.search(word) for word in words):
        return
    name, rest = named(words)
    patterns = [shlex.join(words)]
    if name not in BY_COMMAND:
        patterns.append(f"{shlex.quote(words[0])} *")
    elif words[1:2] == (command_of(name, rest),):
        # options before the subcommand belong to the exact command alone
        patterns.append(f"{shlex.join(words[:2])} *")
    for pattern in patterns:
        try:
            rule = PermissionRule(tool, command=pattern)
        except ConfigurationError:
            # a program of the workspace, which a model may change
            continue
        if rule.runs_any is None:
            yield rule


def _of_paths(subject: Subject, denied: list[PermissionRule]) -> Iterator[PermissionRule]:
    found = [each.names for each in subject.paths or ()]
    names = [each for each in found if each]
    if not names or len(names) < len(found) or any(_PATTERN.search(part) for each in names for part in each):
        return
    if len(names) == 1:
        yield from _about(subject, "/".join(names[0]))
    folder = _common([each[:-1] for each in names])
    if folder and not any(_reaches(rule, folder) for rule in denied):
        yield from _about(subject, "/".join((*folder, "**")))


def _about(subject: Subject, path: str) -> Iterator[PermissionRule]:
    try:
        yield PermissionRule(subject.name, path=path)
    except ConfigurationError:
        # a path longer than a pattern may be
        return


def _common(folders: list[tuple[str, ...]]) -> tuple[str, ...]:
    shared: list[str] = []
    for parts in zip(*folders, strict=False):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    return tuple(shared)


def _reaches(rule: PermissionRule, folder: tuple[str, ...]) -> bool:
    """True if a rule that denies paths names some below this folder."""
    pattern = rule.path
    if pattern is None or "/" not in pattern.rstrip("/"):
        # denied at any depth: no folder is without it, and the rule that denies wins
        return False
    return len(literal_of(pattern)) >= len(folder) and may_hold(folder, pattern)
