"""Reads and writes the permissions that are kept with a workspace: `.agentscope/permissions.json` in its folder.

The file is replaced as a whole: readers see the old one or the new one. Links are not followed.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from agentscope_rx.errors import ConfigurationError, WorkspaceError
from agentscope_rx.permissions.rule_set import RuleSet, Where
from agentscope_rx.tools.files import Workspace
from agentscope_rx.tools.files.workspace import OWN_FOLDER

FILE = f"{OWN_FOLDER}/permissions.json"


class PermissionsFile:
    """One file with rules. Its methods block, for one small file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of(cls, workspace: Workspace, file: str | os.PathLike[str] | None) -> PermissionsFile:
        """The file of a workspace, or another one."""
        return cls(workspace.root / FILE if file is None else Path(os.path.abspath(file)))

    def read(self) -> RuleSet | None:
        """The rules; None if there is no file; `ConfigurationError` names the line of what is wrong."""
        try:
            data = Workspace(self._folder, deny=(), portable=False).read(self._name)
        except WorkspaceError as error:
            if error.reason == "missing":
                return None
            raise ConfigurationError(f"The permissions {str(self.path)!r} cannot be read: {error}") from None
        try:
            text = data.decode("utf-8")
            value: object = json.loads(text, object_pairs_hook=self._object)
        except json.JSONDecodeError as error:
            raise ConfigurationError(f"{self.path}, line {error.lineno}, is no JSON: {error.msg}.") from None
        except (UnicodeDecodeError, RecursionError) as error:
            raise ConfigurationError(f"{self.path} is no JSON: {error}.") from None
        return RuleSet.from_json(value, Where(str(self.path), text))

    def _object(self, pairs: list[tuple[str, object]]) -> dict[str, object]:
        """The object, in which no key is twice: the second list would take the place of the first."""
        found = dict(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise ConfigurationError(f"{self.path} has {twice!r:.60} twice in one object. Make one of the two.")
        return found

    def write(self, rules: RuleSet) -> None:
        """Replace the file; `ConfigurationError` if it cannot be written."""
        text = json.dumps(rules.to_json(), indent=2, ensure_ascii=False) + "\n"
        try:
            Workspace(self._folder, deny=(), portable=False).write(self._name, text.encode("utf-8", "surrogatepass"))
        except WorkspaceError as error:
            raise ConfigurationError(f"The permissions {str(self.path)!r} cannot be written: {error}") from None

    @property
    def _folder(self) -> Path:
        # a link in the place of the library's own folder is not followed either
        return self.path.parent.parent if self.path.parent.name == OWN_FOLDER else self.path.parent

    @property
    def _name(self) -> str:
        return self.path.relative_to(self._folder).as_posix()
