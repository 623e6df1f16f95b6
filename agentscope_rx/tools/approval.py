"""Which calls wait for a person: a toolkit's policy decides first, then the tool's own rule.

| policy(call)     | tool.requires_approval            | the call waits |
|------------------|-----------------------------------|----------------|
| True             | not asked                         | yes            |
| False            | not asked                         | no             |
| None, or no policy | True, or a function that says so | yes           |
| None, or no policy | False                            | no            |
| anything else, or an exception               || `ApprovalError`  |

A call that cannot run (no such tool, arguments that do not fit) needs no approval: it becomes an error result. Rules
answer at once, on the loop; a rule that had to wait for a person would be an approval itself. The policy gets the call
as the model made it, with the `tool_arguments` of the run; a tool's own rule gets the arguments as the tool will.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

from agentscope_rx.errors import ApprovalError, ConfigurationError
from agentscope_rx.messages import ToolUseBlock
from agentscope_rx.messages.frozen import thaw
from agentscope_rx.tools.base import Tool

ApprovalPolicy = Callable[[ToolUseBlock], bool | None]
"""True if a call needs approval; None leaves the decision to the tool's own rule."""


def check_policy(policy: ApprovalPolicy | None) -> ApprovalPolicy | None:
    """The policy; `ConfigurationError` if it is not callable, or cannot answer at once."""
    if policy is not None and not callable(policy):
        raise ConfigurationError(
            f"approval must be a function of a call, such as lambda call: True, not {policy!r:.60}."
        )
    if inspect.iscoroutinefunction(policy):
        raise ConfigurationError("An approval policy must return at once: it cannot be an `async def`.")
    return policy


def needs_approval(tool: Tool, call: ToolUseBlock, policy: ApprovalPolicy | None) -> bool:
    """True if this call needs a person's approval; `ApprovalError` if the rule fails."""
    rule = tool.requires_approval
    if (policy is None and rule is False) or call.input_error is not None:
        return False
    try:
        arguments = tool.validate(thaw(call.input))
    except Exception:
        # invalid arguments become an error result
        return False
    if policy is not None:
        answer = _ask(lambda: policy(call), call, "The approval policy of the toolkit")
        if answer is not None:
            return answer
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
