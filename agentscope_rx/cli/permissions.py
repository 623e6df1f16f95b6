"""`--permissions FILE` and `--mode MODE`: rules over the calls of a command line's agent.

| flags                | rules                                                                                 |
|----------------------|---------------------------------------------------------------------------------------|
| neither              | none: tools ask by themselves                                                         |
| `--mode MODE`        | the mode; `.agentscope/permissions.json` of the working directory can only restrict   |
| `--permissions FILE` | those of the file; an answer "always" adds to it                                      |
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping

from agentscope_rx.agent import Agent, ReActAgent
from agentscope_rx.cli.exit_codes import note
from agentscope_rx.cli.terminal import Terminal
from agentscope_rx.console.wording import clean
from agentscope_rx.messages import ToolUseBlock
from agentscope_rx.permissions import PermissionRule, PermissionRules, PermissionsHook

WHICH = "Which calls, always? A number, or Enter to go back: "
NO_RULE = "  no rule can allow this call: answer y, n or e.\n"


def permissions_of(flags: argparse.Namespace) -> PermissionRules | None:
    """The rules that the flags name; None without any. `ConfigurationError` for a file that cannot be used."""
    if flags.permissions is None and flags.mode is None:
        return None
    file: str | None = flags.permissions
    # a folder may come from others: what its own file allows counts only if the user names the file
    rules = PermissionRules.load(".", mode=flags.mode, file=file, trusted=file is not None)
    if file is not None and not os.path.exists(file):
        # a misspelt name would lose the rules that deny
        note(f"permissions: {file} is not there yet, and has no rules")
    return rules


def put_under(agent: Agent, rules: PermissionRules) -> None:
    """Put the agent, and those that it calls, under the rules."""
    agent.hooks.add(PermissionsHook(rules))


class Always:
    """Asks which rule "always" means, and knows the calls that the rules allow by now."""

    def __init__(self, terminal: Terminal, agent: Agent, rules: PermissionRules) -> None:
        self._terminal = terminal
        self._toolkit = agent.toolkit if isinstance(agent, ReActAgent) else None
        self._rules = rules

    def allows(self, call: ToolUseBlock) -> bool:
        """True if a rule that was added meanwhile allows the call; it answers no doubt about one that has begun."""
        if call.in_doubt:
            return False
        tool = None if self._toolkit is None or "/" in call.id else self._toolkit.get(call.name)
        return tool is not None and self._rules.decide(call, tool).verdict == "allow"

    def ask(self, call: ToolUseBlock, edited: Mapping[str, object] | None) -> bool:
        """Add the rule that the person chooses; False if there is none to choose, or none is chosen."""
        shown = call if edited is None else call.with_input(edited)
        proposed = self._proposed(shown)
        if not proposed:
            self._terminal.say(NO_RULE)
            return False
        lines = [f"  {number}: {clean(str(rule))}" for number, rule in enumerate(proposed, 1)]
        self._terminal.say("\n".join(lines) + "\n")
        answer = self._terminal.line(WHICH).strip()
        if not answer.isascii() or not answer.isdigit() or not 1 <= int(answer) <= len(proposed):
            return False
        self._rules.add(proposed[int(answer) - 1])
        return True

    def _proposed(self, call: ToolUseBlock) -> tuple[PermissionRule, ...]:
        if self._toolkit is None or "/" in call.id:
            # the tool of a sub-agent is not known here
            return ()
        return self._rules.propose(call, self._toolkit.get(call.name))
