"""Which calls wait for a person: the toolkit's policy and the hooks decide first, then the tool's own rule.

| policy(call), or a hook | tool.requires_approval            | the call waits      |
|-------------------------|-----------------------------------|---------------------|
| one of them True        | not asked                         | yes                 |
| one of them False       | not asked                         | no                  |
| False, by a hook        | True, and the tool `always_asks`  | yes                 |
| all None, or none there | True, or a function that says so  | yes                 |
| all None, or none there | False                             | no                  |
| anything else, or an exception                             || `ApprovalError`     |

A call that cannot run (no such tool, arguments that do not fit) needs no approval: it becomes an error result. Rules
answer at once, on the loop; a rule that had to wait for a person would be an approval itself. The policy gets the call
as the model made it, with the `tool_arguments` of the run; a tool's own rule gets the arguments as the tool will.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial

from agentscope_rx.errors import ApprovalError, ConfigurationError
from agentscope_rx.messages import ToolResultBlock, ToolResultKind, ToolUseBlock
from agentscope_rx.messages.frozen import thaw
from agentscope_rx.tools.base import Tool

ApprovalPolicy = Callable[[ToolUseBlock], bool | None]
"""True if a call needs approval; None leaves the decision to the tool's own rule."""


AskHooks = Callable[[], bool | None]
"""Asks the hooks of a run about a call that can run."""


class ToolPolicy:
    """A policy that knows the tool of a call, and may refuse the call: `Toolkit(approval=policy)`.

    A call that it refuses does not run, neither for an agent nor directly, and asks no person.

    The policy's True or False comes before the tool's own rule; None leaves it to the rule. Rules return at once, on
    the loop, and an `async def` is refused. A rule that raises, or returns another value, is an `ApprovalError` that
    names the tool; nothing has run. A call that cannot run (unknown tool, invalid arguments) needs no approval. A
    direct `toolkit.call` asks nothing.
    """

    def approval(self, call: ToolUseBlock, tool: Tool) -> bool | None:
        """True if the call needs approval; None leaves the decision to the tool's own rule."""
        return None

    def refusal(self, call: ToolUseBlock, tool: Tool) -> str | None:
        """The reason for which the call must not run, or None. The result is of kind `rejected`."""
        return None

    def __call__(self, call: ToolUseBlock) -> bool | None:
        """A toolkit asks `approval`, with the tool."""
        raise ConfigurationError("This policy needs the tool of a call: call approval(call, tool).")


def check_policy(policy: ApprovalPolicy | None) -> ApprovalPolicy | None:
    """The policy; `ConfigurationError` if it is not callable, or cannot answer at once."""
    if policy is None:
        return None
    if not callable(policy):
        own: object = getattr(policy, "policy", None)
        hint = " Give its `policy`: approval=rules.policy." if isinstance(own, ToolPolicy) else ""
        raise ConfigurationError(
            f"approval must be a function of a call, such as lambda call: True, not {policy!r:.60}.{hint}"
        )
    if inspect.iscoroutinefunction(policy):
        raise ConfigurationError("An approval policy must return at once: it cannot be an `async def`.")
    return policy


def asks(tool: Tool, call: ToolUseBlock, policy: ApprovalPolicy | None, hooks: AskHooks | None = None) -> bool | None:
    """True if this call needs a person's approval; `ApprovalError` if a rule fails.

    False if a hook or a `ToolPolicy` lets it run, None if none of them has an opinion.
    """
    if (policy is None and hooks is None and tool.requires_approval is False) or call.input_error is not None:
        return None
    try:
        arguments = tool.validate(thaw(call.input))
    except Exception:
        # invalid arguments become an error result
        return None
    knows_tools = isinstance(policy, ToolPolicy)
    if knows_tools and policy.refusal(call, tool) is not None:
        return None
    ruling = None if hooks is None else hooks()
    if policy is not None and ruling is not True:
        asked = partial(policy.approval, call, tool) if knows_tools else partial(policy, call)
        answer = _ask(asked, call, "The approval policy of the toolkit")
        if answer is False and not knows_tools:
            # the program's own choice: it lifts every mark, and has no say about calls that are held
            return ruling
        ruling = ruling if answer is None else answer
    if ruling is True or (ruling is False and not tool.always_asks):
        return ruling
    return True if marked(tool, call, arguments) else ruling


def refused_by(policy: ApprovalPolicy, call: ToolUseBlock, tool: Tool) -> ToolResultBlock | None:
    """The result of a call that the policy refuses, else None."""
    text = policy.refusal(call, tool) if isinstance(policy, ToolPolicy) else None
    return None if text is None else ToolResultBlock.error(call, ToolResultKind.REJECTED, text)


def marked(tool: Tool, call: ToolUseBlock, arguments: Mapping[str, object]) -> bool:
    """True if the tool's own rule wants approval for these validated arguments; `ApprovalError` if it fails."""
    rule = tool.requires_approval
    if isinstance(rule, bool):
        return rule
    answer = _ask(lambda: rule(arguments), call, f"requires_approval of tool {call.name!r}")
    if answer is None:
        raise _failed(call, f"requires_approval of tool {call.name!r} returned None, not True or False.")
    return answer


def _ask(rule: Callable[[], object], call: ToolUseBlock, name: str) -> bool | None:
    try:
        answer = rule()
    except Exception as error:
        raise _failed(call, f"{name} raised {type(error).__name__}: {error}") from error
    if answer is None or isinstance(answer, bool):
        return answer
    if inspect.iscoroutine(answer):
        answer.close()
    raise _failed(call, f"{name} returned {type(answer).__name__}, not True, False or None; it must answer at once.")


def _failed(call: ToolUseBlock, what: str) -> ApprovalError:
    return ApprovalError(
        f"The approval rule for call {call.id!r} of tool {call.name!r} failed: {what}",
        tool=call.name,
        call_id=call.id,
    )
