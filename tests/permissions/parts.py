"""What the tests of permissions share: a workspace with tools, and what rules decide about a call."""

from __future__ import annotations

from pathlib import Path

from agentscope_rx.messages import ToolUseBlock
from agentscope_rx.permissions import Decision, PermissionRules
from agentscope_rx.testing import call
from agentscope_rx.tools import Toolkit, prefixed, tool
from agentscope_rx.tools.files import FileTools, Workspace
from agentscope_rx.tools.shell import PythonTool, ShellTool


@tool
def bash(command: str) -> str:
    """A shell of somebody else."""
    return command


@tool
def copy(source: str, destination: str) -> str:
    """A tool that declares nothing."""
    return f"{source} {destination}"


@tool(read_only=True)
def clock() -> str:
    """Reads."""
    return "noon"


@tool(requires_approval=True)
def pay(amount: int) -> str:
    """Asks by itself."""
    return f"{amount} paid"


@tool(requires_approval=True, always_asks=True)
def sign(name: str) -> str:
    """Asks, whatever rules say."""
    return name


def workspace_in(folder: Path) -> Workspace:
    for name in ("src/app", "secrets", "notes"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    return Workspace(folder)


def toolkit_in(workspace: Workspace) -> Toolkit:
    return Toolkit(
        [
            FileTools(workspace),
            ShellTool(workspace, allow=["git log *", "git status", "rm *", "python *"]),
            PythonTool(workspace, allow=True),
            *prefixed("fs_", FileTools(workspace)),
            bash,
            copy,
            clock,
            pay,
            sign,
        ]
    )


class Desk:
    """Rules over a toolkit, and their verdicts."""

    def __init__(self, folder: Path, **rules) -> None:
        self.workspace = workspace_in(folder)
        self.toolkit = toolkit_in(self.workspace)
        self.rules = PermissionRules(workspace=self.workspace, **rules)

    def decision(self, call: ToolUseBlock) -> Decision:
        return self.rules.decide(call, self.toolkit.get(call.name))

    def verdict(self, name: str, /, **arguments: object) -> str:
        return self.decision(call(name, **arguments)).verdict

    def proposals(self, name: str, /, **arguments: object) -> list[str]:
        return [str(rule) for rule in self.rules.propose(call(name, **arguments), self.toolkit.get(name))]
