"""Approval of calls in the terminal: a call is shown with all of its arguments, then the person is asked.

| answer           | the call                                                                          |
|------------------|-----------------------------------------------------------------------------------|
| y, yes           | runs                                                                              |
| n, no            | does not run; the model reads the reason (`n too much`, or typed when asked)      |
| e, edit          | is asked about again, with the new arguments                                      |
| a, always        | runs, and so does every later call of this tool in this conversation; under       |
|                  | permissions: every call of a rule that the person chooses                         |
| anything else    | is asked about again                                                              |

Text that was typed before the question is discarded: it cannot be an answer to it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import cast

from agentscope_rx.agent import Agent, ReActAgent
from agentscope_rx.cli.permissions import Always
from agentscope_rx.cli.terminal import Terminal
from agentscope_rx.console.wording import arguments, clean
from agentscope_rx.messages import ApprovalAnswer, Approve, Msg, Reject, ToolResultKind, ToolUseBlock
from agentscope_rx.permissions import PermissionRules

QUESTION = "Run it? [y]es, [n]o, [e]dit, [a]lways: "
IN_DOUBT = "  It had begun when its process ended, and may have had its effect already. To run it again is up to you.\n"
ASKED_AGAIN = "  y, n, e or a; an empty line does not approve.\n"


def to_approve(reply: Msg) -> list[ToolUseBlock]:
    """The calls of a reply that wait for approval, or that are in doubt."""
    kinds = {result.id: result.kind for result in reply.tool_results}
    asked = (ToolResultKind.APPROVAL_REQUIRED, ToolResultKind.IN_DOUBT)
    return [call for call in reply.pending_calls if kinds.get(call.id) in asked]


def call_list(calls: Sequence[ToolUseBlock]) -> str:
    """The calls with their arguments, on one line."""
    return ", ".join(f"{clean(call.name)}({arguments(call)})" for call in calls)


def ask_person(
    terminal: Terminal, agent: Agent, calls: Sequence[ToolUseBlock], rules: PermissionRules | None = None
) -> list[ApprovalAnswer]:
    """An answer for each call; `EOFError` or `KeyboardInterrupt` if there is none.

    With `rules`, "always" adds one of the rules that they propose, and the calls that it allows are not asked about.
    """
    answers: list[ApprovalAnswer] = []
    always: set[str] = set()
    by_rule = None if rules is None else Always(terminal, agent, rules)
    for call in calls:
        if call.name in always or (by_rule is not None and by_rule.allows(call)):
            answers.append(Approve(call))
            continue
        answer = _ask(terminal, agent, call, by_rule)
        if isinstance(answer, Approve) and answer.remember == "tool":
            always.add(call.name)
        answers.append(answer)
    return answers


def _ask(terminal: Terminal, agent: Agent, call: ToolUseBlock, always: Always | None) -> ApprovalAnswer:
    edited: Mapping[str, object] | None = None
    _show(terminal, call.name, call.input)
    if call.in_doubt:
        terminal.say(IN_DOUBT)
    terminal.discard_typed()
    while True:
        word, _, rest = terminal.line(QUESTION).strip().partition(" ")
        match word.lower():
            case "y" | "yes" if not rest:
                return Approve(call, edited)
            case "a" | "always" if not rest and always is not None:
                if always.ask(call, edited):
                    return Approve(call, edited)
            case "a" | "always" if not rest:
                return Approve(call, edited, remember="tool")
            case "n" | "no":
                return Reject(call, rest.strip() or terminal.line("Why not? (Enter: no reason) ").strip())
            case "e" | "edit" if not rest:
                changed = _edited(terminal, agent, call, call.input if edited is None else edited)
                if changed is not None:
                    edited = changed
                    _show(terminal, call.name, edited)
            case _:
                terminal.say(ASKED_AGAIN)


def _show(terminal: Terminal, name: str, given: Mapping[str, object]) -> None:
    """Show the call with all of its arguments, because only what is shown can be approved."""
    lines = [f"{clean(name)} waits for your approval" + (":" if given else ", without arguments.")]
    for key, value in given.items():
        if isinstance(value, str) and "\n" in value:
            lines.append(f"  {clean(key)}:")
            lines += [f"    | {line}" for line in clean(value).split("\n")]
        else:
            lines.append(f"  {clean(key)}: {clean(_json(value))}")
    terminal.say("\n".join(lines) + "\n")


def _edited(
    terminal: Terminal, agent: Agent, call: ToolUseBlock, given: Mapping[str, object]
) -> Mapping[str, object] | None:
    """The new arguments, None if they are unchanged or invalid."""
    text = _json(given)
    if not terminal.edits:
        terminal.say(f"  now: {clean(text)}\n")
    line = terminal.line("Arguments as JSON: ", text).strip()
    if not line or line == text:
        return None
    try:
        value: object = json.loads(line)
        if not isinstance(value, dict):
            raise ValueError("the arguments must be an object, {...}")
        changed = cast("dict[str, object]", value)
        _check(agent, call, changed)
    except Exception as error:
        terminal.say(f"  not accepted: {clean(' '.join(str(error).split()))}\n")
        return None
    return changed


def _check(agent: Agent, call: ToolUseBlock, changed: Mapping[str, object]) -> None:
    """Raise the tool's validation error for these arguments; a sub-agent validates those of its own tools."""
    tool = agent.toolkit.get(call.name) if isinstance(agent, ReActAgent) and "/" not in call.id else None
    if tool is not None:
        tool.validate(dict(changed))


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
