"""`Subject`: one call as rules see it: its tool under all its names, its arguments, paths and command."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

from agentscope_rx.errors import CommandDeniedError
from agentscope_rx.messages import ToolUseBlock
from agentscope_rx.messages.frozen import thaw
from agentscope_rx.permissions.paths import PathReading, literal_of
from agentscope_rx.tools import Effects, Tool
from agentscope_rx.tools.effects import effects_by_names, is_code_name, is_command_name, is_path_name
from agentscope_rx.tools.files import Workspace
from agentscope_rx.tools.files.globs import DenyList, Glob
from agentscope_rx.tools.files.paths import MAX_NAME
from agentscope_rx.tools.function_tool import FunctionTool
from agentscope_rx.tools.shell.allowlist import Rule, pieces_of
from agentscope_rx.tools.shell.shell_words import MAX_COMMAND, split_command
from agentscope_rx.tools.wrapper import innermost

MAX_FOLDERS = 8
"""How many folders a command is read in."""
MAX_PATHS = 1_000
"""How many paths of a call are read; a call with more is allowed by no rule about paths."""

_NESTED = (Mapping, list, tuple)
_QUOTES = re.compile(r"[\"'\\]")
_GLUED = re.compile(r"-[^-/\\~.][^/\\~.]*(?=[/\\~.])")
_BETWEEN = re.compile(r"[\s;&|<>()`${}=,]+")


@dataclass(frozen=True)
class Subject:
    """One call. `tool` is None if there is none of its name; `workspace` is the folder that rules are relative to."""

    call: ToolUseBlock
    tool: Tool | None
    workspace: Workspace | None = None

    @property
    def name(self) -> str:
        """The name by which the tool is called."""
        return self.call.name

    @cached_property
    def names(self) -> tuple[str, ...]:
        """All names of the tool: also those that it had before it was renamed."""
        found = [self.call.name]
        if self.tool is not None:
            inner = innermost(self.tool)
            found += [self.tool.name, inner.name, str(getattr(inner, "remote_name", inner.name))]
            original = getattr(inner, "__name__", None)
            found += [original] if isinstance(original, str) else []
        return tuple(dict.fromkeys(found))

    @cached_property
    def arguments(self) -> Mapping[str, object]:
        """The arguments as the tool gets them: with presets, and those of the run."""
        if self.tool is None or self.call.input_error is not None:
            return self.call.input
        try:
            return self.tool.validate(thaw(self.call.input))
        except Exception:
            # the call cannot run: what the model sent is all that there is
            return self.call.input

    @cached_property
    def effects(self) -> Effects:
        """What the tool declares, or what the names of its arguments say."""
        declared = None if self.tool is None else self.tool.effects
        if declared is not None:
            return declared
        found = effects_by_names({**self._properties, **self.arguments})
        inner = [name for name, _ in self._inner if is_command_name(name) or is_code_name(name)]
        # a command within another value is not read: it cannot be told what it does
        hidden = inner and found.command is None and found.code is None
        return replace(found, code=inner[0]) if hidden else found

    @cached_property
    def _inner(self) -> tuple[tuple[str, object], ...]:
        """The names and values within the values of arguments, for tools that declare nothing."""
        found: list[tuple[str, object]] = []
        pending: list[object] = [value for value in self.call.input.values() if isinstance(value, _NESTED)]
        while pending and len(found) <= MAX_PATHS:
            value = pending.pop()
            if isinstance(value, Mapping):
                items = cast("Mapping[str, object]", value)
                found += [(name, each) for name, each in items.items() if _is_known(name)]
                pending += [each for each in items.values() if isinstance(each, _NESTED)]
            else:
                pending += [each for each in cast("list[object]", value) if isinstance(each, _NESTED)]
        return tuple(found)

    @property
    def _properties(self) -> Mapping[str, object]:
        found = None if self.tool is None else innermost(self.tool).parameters.get("properties")
        return cast("Mapping[str, object]", found) if isinstance(found, Mapping) else {}

    @cached_property
    def tool_workspace(self) -> Workspace | None:
        """The workspace that the tool works in."""
        inner = innermost(self.tool) if self.tool is not None else None
        owner: object = inner.owner if isinstance(inner, FunctionTool) else inner
        found = getattr(owner, "workspace", None)
        return found if isinstance(found, Workspace) else None

    @property
    def confined(self) -> bool:
        """True if no effect of the call leaves the workspace of the rules, by the tool's own promise."""
        own = self.tool_workspace
        if own is None or not self.effects.confined:
            return False
        return self.workspace is None or own.root.is_relative_to(self.workspace.root)

    @property
    def edits_files(self) -> bool:
        """True if it changes files of the workspace, and does nothing else."""
        effects = self.effects
        return self.confined and bool(effects.paths) and effects.command is None and effects.code is None

    def _value(self, name: str) -> object:
        if name in self.arguments:
            return self.arguments[name]
        described = self._properties.get(name)
        return cast("Mapping[str, object]", described).get("default") if isinstance(described, Mapping) else None

    # --- paths ----------------------------------------------------------------------------------------------------

    def _reading(self, text: str, folder: str | None = None) -> PathReading:
        own = self.tool_workspace or self.workspace
        root = self.workspace or own
        if own is None or root is None:
            return PathReading(text if folder is None else os.path.join(folder, text), None, None)
        base = str(own.root) if folder is None else os.path.normpath(own.root / folder)
        return PathReading(text, base, str(root.root))

    @property
    def _is_guessed(self) -> bool:
        """True if the tool declares nothing: the names of its arguments say what they are."""
        return self.tool is None or self.tool.effects is None

    @cached_property
    def paths(self) -> tuple[PathReading, ...] | None:
        """The paths among the arguments; None if one of them is no text, or there are too many."""
        texts: list[str] = []
        given = [self._value(name) for name in self.effects.paths]
        if self._is_guessed:
            given += [value for name, value in self._inner if is_path_name(name)]
        for value in given:
            values = cast("list[object]", value) if isinstance(value, (list, tuple)) else [value]
            for each in values:
                text = os.fspath(cast("os.PathLike[str]", each)) if isinstance(each, os.PathLike) else each
                if isinstance(text, str):
                    texts.append(text)
                elif text is not None:
                    return None
        return tuple(map(self._reading, texts)) if len(texts) <= MAX_PATHS else None

    def paths_are(self, pattern: Glob) -> bool:
        """True if the call has paths, and all of them match."""
        return bool(self.paths) and all(each.matches(pattern) for each in self.paths)

    def paths_touch(self, denied: DenyList, *, below: bool = True) -> bool | None:
        """True if one of the paths may be denied, or one in the command; None if that cannot be told.

        With `below` also if the tool may reach something below a path that is.
        """
        if self.paths is None:
            return None
        in_command = None if self._too_long else self._command_paths
        if in_command is None:
            return True
        below = below and self.effects.below and not self._kept_out(denied)
        if any(each.touches(denied, below=below) for each in (*self.paths, *in_command)):
            return True
        folders = self._folders
        if folders is None or any(self._reading(each).touches(denied, below=False) for each in folders):
            return True if folders else None
        named = (*self.paths, *map(self._reading, folders))
        strange = any(each.strange or (self._is_guessed and each.expands(denied)) for each in named)
        return None if strange or (self._has_command and self.words is None) or self.effects.code is not None else False

    def _kept_out(self, denied: DenyList) -> bool:
        """True if the tool's own workspace denies the same, so that a search leaves it out."""
        own = self.tool_workspace
        if own is None:
            return False
        return all(pattern in own.deny.patterns or own.deny.denies(literal_of(pattern)) for pattern in denied.patterns)

    @cached_property
    def _command_paths(self) -> tuple[PathReading, ...] | None:
        """What may be a path in the command; None if that is too much to be read."""
        pieces: dict[str, None] = {}
        folders = (None, *(self._folders or ()))
        for word in self.loose_words:
            pieces[word] = None
            pieces.update(dict.fromkeys((*pieces_of(word), *_values_in(word))))
            if len(pieces) * len(folders) > MAX_PATHS:
                return None
        return tuple(self._reading(piece, folder) for folder in folders for piece in pieces)

    @cached_property
    def _folders(self) -> tuple[str, ...] | None:
        """The folders in which a command may run, beside that of the workspace; None if one of them is no text."""
        if not self._has_command:
            return ()
        found = None if self.effects.folder is None else self._value(self.effects.folder)
        if found is not None and not isinstance(found, str):
            return None
        # (of a path beside a command it cannot be told if the command runs there)
        names = [*([] if found is None else [found]), *(each.text for each in self.paths or ())]
        folders = tuple(dict.fromkeys(each for each in names if each != "."))
        return folders if len(folders) <= MAX_FOLDERS else None

    # --- commands -------------------------------------------------------------------------------------------------

    @property
    def _has_command(self) -> bool:
        return self.effects.command is not None

    @cached_property
    def words(self) -> tuple[str, ...] | None:
        """The command as plain words; None if there is none, or it needs a shell to be read."""
        value = None if self.effects.command is None else self._value(self.effects.command)
        if isinstance(value, (list, tuple)):
            words = tuple(cast("list[object]", value))
            return cast("tuple[str, ...]", words) if words and all(isinstance(each, str) for each in words) else None
        if not isinstance(value, str):
            return None
        try:
            return split_command(value)
        except CommandDeniedError:
            return None

    @cached_property
    def _command_text(self) -> str:
        value = None if self.effects.command is None else self._value(self.effects.command)
        values = cast("list[object]", value) if isinstance(value, (list, tuple)) else [value]
        return "\n".join(each for each in values if isinstance(each, str))

    @property
    def _too_long(self) -> bool:
        """True if the command is not searched: what asks and denies covers it."""
        return len(self._command_text) > 4 * MAX_COMMAND

    @cached_property
    def loose_words(self) -> tuple[str, ...]:
        """All that may be a word of the command, or of a command within it."""
        text = self._command_text
        found = [*_BETWEEN.split(_QUOTES.sub("", text)), *_BETWEEN.split(_QUOTES.sub(" ", text))]
        return tuple(each for each in found if each)

    def command_is(self, rule: Rule) -> bool:
        """True if the command is plain words that the rule allows, without paths out of the workspace."""
        words = self.words
        if words is None or self.effects.code is not None or not rule.fits(words):
            return False
        folders = self._folders
        if folders is None or self.paths is None or not all(self._reading(each).inside for each in folders):
            return False
        where = self.tool_workspace or self.workspace
        return where is None or all(rule.problem(words, where, each) is None for each in (".", *folders))

    def command_runs(self, rule: Rule) -> bool | None:
        """True if the rule's program may run; None if that cannot be told."""
        if not self._has_command:
            return None if self.effects.code is not None else False
        words = self.words
        if self._too_long:
            return True
        if (words is not None and rule.occurs_in(words)) or rule.occurs_in(self.loose_words):
            return True
        return None if words is None else False


def _is_known(name: str) -> bool:
    return is_path_name(name) or is_command_name(name) or is_code_name(name)


def _values_in(word: str) -> Iterator[str]:
    """What may be the value of an option of one letter, where a slash or a dot follows: `-fsecrets/a`."""
    found = _GLUED.match(word)
    for at in range(2, min(found.end(), MAX_NAME) if found else 0):
        yield word[at:]
