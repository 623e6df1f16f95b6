"""Asks hooks about a call before it runs: the first refusal holds; of the approvals one True wins."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from agentscope_rx.errors import HookError
from agentscope_rx.events.base import EventSource
from agentscope_rx.hooks.base import Hook
from agentscope_rx.messages import ToolUseBlock
from agentscope_rx.tools.base import Tool


def refusing_of(hooks: Iterable[Hook]) -> tuple[Hook, ...]:
    """The hooks with a `refusal` of their own."""
    return tuple(hook for hook in hooks if type(hook).refusal is not Hook.refusal)


def approving_of(hooks: Iterable[Hook]) -> tuple[Hook, ...]:
    """The hooks with an `approval` of their own."""
    return tuple(hook for hook in hooks if type(hook).approval is not Hook.approval)


def inherited_of(hooks: Iterable[Hook]) -> tuple[Hook, ...]:
    """The hooks that are asked about the calls of sub-agents."""
    found: list[Hook] = []
    for hook in hooks:
        inherited = cast("object", hook.for_sub_agents())
        if isinstance(inherited, Hook):
            found.append(inherited)
        elif inherited is not None:
            raise HookError(
                f"returned {inherited!r:.60} from for_sub_agents, not a hook or None",
                hook=hook.name,
                event="for_sub_agents",
            )
    return tuple(found)


def refusal_by(hooks: Iterable[Hook], call: ToolUseBlock, tool: Tool | None, source: EventSource) -> str | None:
    """The text of the first hook that refuses the call; None if it may run. The error of a hook."""
    for hook in hooks:
        try:
            text = cast("object", hook.refusal(call, tool, source))
        except Exception as error:
            error.add_note(f"in refusal of hook {hook.name}, agent {source.agent}")
            raise
        if text is None:
            continue
        if not isinstance(text, str):
            raise HookError(f"returned {text!r:.60} from refusal, not a text or None", hook=hook.name, event="refusal")
        return text
    return None


def approval_by(hooks: Iterable[Hook], call: ToolUseBlock, tool: Tool, source: EventSource) -> bool | None:
    """True if one hook says so, else False if one says so, else None. The error of a hook."""
    ruling: bool | None = None
    for hook in hooks:
        try:
            answer = cast("object", hook.approval(call, tool, source))
        except Exception as error:
            error.add_note(f"in approval of hook {hook.name}, agent {source.agent}")
            raise
        if answer is True:
            return True
        if answer is False:
            ruling = False
        elif answer is not None:
            raise HookError(
                f"returned {answer!r:.60} from approval, not True, False or None", hook=hook.name, event="approval"
            )
    return ruling
