"""`PermissionRules`: which calls run, which wait for a person, and which never run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.messages import ToolUseBlock
from agentscope_rx.permissions.proposals import proposals
from agentscope_rx.permissions.rule import PermissionRule
from agentscope_rx.permissions.rule_set import Decision, Mode, RuleSet, Verdict, check_mode
from agentscope_rx.permissions.storage import PermissionsFile
from agentscope_rx.permissions.subject import Subject
from agentscope_rx.reactive.kernel.forking import new_lock
from agentscope_rx.tools import Tool, Toolkit, ToolPolicy
from agentscope_rx.tools.approval import marked
from agentscope_rx.tools.files import Workspace
from agentscope_rx.tools.files.globs import DenyList
from agentscope_rx.tools.files.workspace import OWN_FOLDER
from agentscope_rx.tools.options import check_flag
from agentscope_rx.tools.wrapper import innermost

Rules = Iterable[PermissionRule | str | Mapping[str, object]]

_OWN = DenyList([f"{OWN_FOLDER}/**"])
_BUT = "Do not try to get the same effect in another way: go on without it, or tell the user what you need it for."


class PermissionRules:
    """Decides about calls of tools: `deny`, `ask` or `allow`.

        rules = PermissionRules.load(workspace, deny=["*(secrets/**)"], allow=["write_file(src/**)"])
        agent = ReActAgent("Friday", model, tools=[FileTools(workspace)], hooks=[PermissionsHook(rules)])

    | the first that applies | verdict |
    |---|---|
    | a rule of `deny` covers the call, or it writes to `.agentscope` | deny |
    | mode "plan", and the tool is not `read_only` | deny |
    | a rule of `ask` covers the call, or one of `deny` or `ask` may cover it | ask |
    | the tool asks, and is marked `@tool(always_asks=True)` | ask |
    | a rule of `allow` is about the call | allow |
    | mode "workspace", and the tool promises that no effect leaves the workspace | allow |
    | the tool's own `requires_approval` | ask |
    | the tool is `read_only` | allow |
    | mode "accept_edits", and the call edits files of the workspace and nothing else | allow |
    | anything else | ask |

    - The order of rules does not matter. A rule that is added to `deny` or `ask` never allows more.
    - Rules given here hold always, and are never written. `add` and `remove` change those that are kept in the file of
      `load`; the file is read first, so that other changes of it stay.
    - Patterns of paths are relative to `workspace`; without one, to the workspace of each tool.
    - Which arguments are paths or commands, a tool declares: `@tool(effects=Effects(paths=("source", "target")))`. For
      a tool of others give `effects=` at `toolkit.register`. Else the names of arguments count, such as `path`, `file`,
      `folder`, names that end with such a word, `command`, `cmd`, `code`.
    - A call that a hook has changed is decided as it will run. An approval of a person opens no denied call.
    - Methods may be called from any thread. Changes hold from the next decision on, also in a run in progress.

    They decide about calls, not about the effects of a program that runs. A rule for `git log *` admits every option of
    `git log`, and a command that walks folders (`grep -r x`) reads all files there.
    """

    def __init__(
        self,
        *,
        deny: Rules = (),
        ask: Rules = (),
        allow: Rules = (),
        mode: Mode | None = None,
        workspace: Workspace | str | os.PathLike[str] | None = None,
    ) -> None:
        given = workspace if isinstance(workspace, Workspace) or workspace is None else Workspace(workspace)
        self.workspace: Workspace | None = given
        self._given = RuleSet.of(deny, ask, allow, mode)
        self._kept = RuleSet()
        self._file: PermissionsFile | None = None
        self._lock = new_lock()

    @classmethod
    def load(
        cls,
        workspace: Workspace | str | os.PathLike[str],
        *,
        deny: Rules = (),
        ask: Rules = (),
        allow: Rules = (),
        mode: Mode | None = None,
        file: str | os.PathLike[str] | None = None,
        trusted: bool = True,
    ) -> PermissionRules:
        """The rules that are kept with the workspace (in `.agentscope/permissions.json`, or `file`), and these.

        `mode` takes precedence over the file's. With `trusted=False`, for a folder that comes from others, the file can
        only restrict: its `allow` is left out, and a mode other than "plan". `ConfigurationError` names the line of
        a mistake in the file. It blocks, for one small file.
        """
        # (a text such as "no" would trust the file)
        check_flag("trusted", trusted)
        rules = cls(deny=deny, ask=ask, allow=allow, mode=mode, workspace=workspace)
        assert rules.workspace is not None
        rules._file = PermissionsFile.of(rules.workspace, file)
        kept = rules._file.read() or RuleSet()
        if not trusted:
            kept = RuleSet(kept.deny, kept.ask, (), "plan" if kept.mode == "plan" else None)
            # `save` would lose what was left out
            rules._file = None
        rules._kept = kept
        return rules

    def save(self) -> None:
        """Write the rules that are kept, without those given in code, to the file that they were loaded from."""
        if self._file is None:
            raise ConfigurationError(
                "These permissions come from no file that they may change. Use PermissionRules.load(workspace)."
            )
        self._change(lambda kept: kept)

    # --- the rules ------------------------------------------------------------------------------------------------

    @property
    def deny(self) -> tuple[PermissionRule, ...]:
        """The rules of calls that never run."""
        return (*self._given.deny, *self._kept.deny)

    @property
    def ask(self) -> tuple[PermissionRule, ...]:
        """The rules of calls that wait for a person."""
        return (*self._given.ask, *self._kept.ask)

    @property
    def allow(self) -> tuple[PermissionRule, ...]:
        """The rules of calls that run without asking."""
        return (*self._given.allow, *self._kept.allow)

    @property
    def mode(self) -> Mode:
        """The treatment of calls that no rule is about: as given in code, else as kept in the file, else "ask"."""
        return self._given.mode or self._kept.mode or "ask"

    @mode.setter
    def mode(self, mode: Mode) -> None:
        checked = check_mode(mode)
        self._given = RuleSet(self._given.deny, self._given.ask, self._given.allow, checked)

    def add(self, rule: PermissionRule | str | Mapping[str, object], verdict: Verdict = "allow") -> PermissionRule:
        """Keep one more rule, and save it if the rules were loaded from a file; returns the rule."""
        new = PermissionRule.of(rule)
        self._change(lambda kept: kept.plus(verdict, new))
        return new

    def remove(self, rule: PermissionRule | str | Mapping[str, object], verdict: Verdict = "allow") -> None:
        """Forget a rule that is kept, and save; `ConfigurationError` if it is not, or was given in code."""
        old = PermissionRule.of(rule)
        self._change(lambda kept: kept.minus(verdict, old))

    def _change(self, change: Callable[[RuleSet], RuleSet]) -> None:
        with self._lock:
            # a person, or another program, may have changed the file meanwhile: a denial there must not be lost
            found = None if self._file is None else self._file.read()
            kept = change(self._kept if found is None else found)
            if self._file is not None:
                self._file.write(kept)
            self._kept = kept

    def check(self, toolkit: Toolkit, *others: str) -> None:
        """Find rules that can never match: `ConfigurationError` names the first.

        That is a rule about a tool that is neither in the toolkit nor one of the `others` (the tools of sub-agents), or
        about a path or a command of a tool that has none.
        """
        if not isinstance(toolkit, Toolkit):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(
                f"check takes a Toolkit, such as agent.toolkit, or Toolkit([...]) of tools, not {toolkit!r:.60}."
            )
        names = {each.name for tool in toolkit for each in (tool, innermost(tool))}
        for rule in (*self.deny, *self.ask, *self.allow):
            if not any(each in rule.tool for each in "*?[") and rule.tool not in (*names, *others):
                near = get_close_matches(rule.tool[:100], [*names, *others], 1)
                hint = f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(sorted(names)) or 'none'}."
                raise ConfigurationError(f"The permission rule {str(rule)!r} is about no tool of this agent. {hint}")
            found = [each for each in toolkit if rule.names((each.name, innermost(each).name))]
            _check_kind(rule, found)

    # --- decisions ------------------------------------------------------------------------------------------------

    def decide(self, call: ToolUseBlock, tool: Tool | None) -> Decision:
        """The verdict on a call, with its rule and the reason, as the table of the class says.

        `ApprovalError` if the tool's own rule fails.
        """
        subject = Subject(call, tool, self.workspace)
        return self._restricted(subject) or self._permitted(subject)

    def _restricted(self, subject: Subject) -> Decision | None:
        """What denies and asks."""
        unsure: PermissionRule | None = None
        for rule in self.deny:
            covers = rule.covers(subject)
            if covers:
                return Decision("deny", rule, f"The rule {str(rule)!r} denies it.")
            unsure = unsure or (rule if covers is None else None)
        tool = subject.tool
        reads = tool is not None and tool.read_only
        if not reads and subject.paths_touch(_OWN, below=False):
            return Decision("deny", None, f"Nothing may be changed in {OWN_FOLDER}.")
        if self.mode == "plan" and not reads:
            return Decision("deny", None, "In mode 'plan' only tools that read may run.")
        for rule in self.ask:
            if rule.covers(subject) is not False:
                return Decision("ask", rule, f"The rule {str(rule)!r} asks.")
        if unsure is not None:
            return Decision("ask", unsure, f"It cannot be told if the rule {str(unsure)!r} denies it.")
        if tool is not None and tool.always_asks and _marked(subject, tool):
            return Decision("ask", None, "The tool always asks.")
        return None

    def _permitted(self, subject: Subject) -> Decision:
        """What allows, and the tool's own rule."""
        for rule in self.allow:
            if rule.allows(subject):
                return Decision("allow", rule, f"The rule {str(rule)!r} allows it.")
        mode, tool = self.mode, subject.tool
        if mode == "workspace" and subject.confined:
            return Decision("allow", None, "Its effects stay in the workspace.")
        if tool is not None and _marked(subject, tool):
            return Decision("ask", None, "The tool needs approval.")
        if tool is not None and tool.read_only:
            return Decision("allow", None, "The tool only reads.")
        if mode == "accept_edits" and subject.edits_files:
            return Decision("allow", None, "It edits files of the workspace.")
        return Decision("ask", None, "No rule is about it.")

    def propose(self, call: ToolUseBlock, tool: Tool | None) -> tuple[PermissionRule, ...]:
        """Returns rules that would allow this call and others like it, from narrow to wide; perhaps none.

        For "always": the exact call; the file, or its folder; the command with its subcommand; the tool. None of them
        lets a model run arbitrary programs, and none is about more than a rule of `deny` leaves of its tool.
        """
        if self.decide(call, tool).verdict != "ask":
            return ()
        subject = Subject(call, tool, self.workspace)
        if self._restricted(subject) is not None:
            # no rule of `allow` changes that
            return ()
        return tuple(rule for rule in proposals(subject, self.deny) if rule.allows(subject))

    def covers(self, rule: PermissionRule, call: ToolUseBlock, tool: Tool | None) -> bool:
        """True if the call would run without asking with this rule in `allow`."""
        subject = Subject(call, tool, self.workspace)
        return self._restricted(subject) is None and rule.allows(subject)

    def refusal(self, call: ToolUseBlock, tool: Tool | None) -> str | None:
        """The text for a model whose call is denied, else None."""
        decision = self.decide(call, tool)
        return None if decision.verdict != "deny" else f"This call is not permitted. {decision.reason} {_BUT}"

    def approval(self, call: ToolUseBlock, tool: Tool) -> bool | None:
        """True if the call waits for a person, False if it is allowed although its tool asks, else None."""
        decision = self.decide(call, tool)
        if decision.verdict == "ask":
            return True
        lifted = decision.rule is not None or (self.mode == "workspace" and not tool.read_only)
        return False if decision.verdict == "allow" and lifted else None

    @property
    def policy(self) -> ToolPolicy:
        """The same rules for a toolkit without hooks: `Toolkit(approval=rules.policy)`. Sub-agents have their own."""
        return _Policy(self)

    def __repr__(self) -> str:
        counts = f"{len(self.deny)} deny, {len(self.ask)} ask, {len(self.allow)} allow"
        return f"<PermissionRules {counts}, mode {self.mode!r}>"


class _Policy(ToolPolicy):
    def __init__(self, rules: PermissionRules) -> None:
        self._rules = rules

    def approval(self, call: ToolUseBlock, tool: Tool) -> bool | None:
        return self._rules.approval(call, tool)

    def refusal(self, call: ToolUseBlock, tool: Tool) -> str | None:
        return self._rules.refusal(call, tool)


def _marked(subject: Subject, tool: Tool) -> bool:
    return marked(tool, subject.call, subject.arguments)


def _check_kind(rule: PermissionRule, tools: list[Tool]) -> None:
    """`ConfigurationError` if the rule is about something that none of its tools has."""
    if not tools:
        return
    found = [Subject(ToolUseBlock("", each.name, {}), each).effects for each in tools]
    if rule.path is not None and not any(each.paths or each.command for each in found):
        hint = f"{rule.tool}(command: {rule.path})" if any(each.command for each in found) else rule.tool
        raise ConfigurationError(
            f"The permission rule {str(rule)!r} is about paths, and the tool has none. Write {hint!r}, or declare "
            "them: @tool(effects=Effects(paths=(...)))."
        )
    if rule.command is not None and not any(each.command for each in found):
        raise ConfigurationError(
            f"The permission rule {str(rule)!r} is about commands, and the tool runs none. "
            f"Write '{rule.tool}(path: ...)' or {rule.tool!r}."
        )
