"""`SubAgentLimits`: how many sub-agents a conversation may have, how deep, and what each may use.

| limit     | bounds                                                                                        |
|-----------|-----------------------------------------------------------------------------------------------|
| `depth`   | the levels of agents below the outermost one                                                  |
| `at_once` | the sub-agents that work, or wait for a person, at one moment: of the whole tree of agents    |
| `total`   | the sub-agents that the conversation of the outermost agent has started: of the whole tree    |
| `share`   | the part that one call may use of what the limits of the agents above have left               |

What a sub-agent uses always counts for every agent above it, and the limits of each of these hold.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Final, cast

from agentscope_rx.agent import UsageLimits
from agentscope_rx.agent.conversation import Conversation
from agentscope_rx.agent.run import Run
from agentscope_rx.agent.run_state import RunState
from agentscope_rx.agent.saved_state import SavedState
from agentscope_rx.agent.sub_agent.agent_tool import MAX_DEPTH
from agentscope_rx.agent.sub_agent.conversations import SubConversation
from agentscope_rx.errors import ConfigurationError, ToolError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.models.checks import check_count

SPAWN: Final = "agent_spawn"

_COUNTS: Final = ("model_calls", "tool_calls", "input_tokens", "output_tokens", "total_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class SubAgentLimits:
    """Bounds for the sub-agents of one conversation. A call beyond one is an error result.

    | limit | bounds |
    |---|---|
    | `depth` | levels of agents below the outermost one |
    | `at_once` | sub-agents of the whole tree that work, or wait for a person, at one moment |
    | `total` | sub-agents of the whole tree that the conversation has started, also before a load |
    | `share` | the part of the parent's remaining limits that one call may use, such as 0.25; None: all |
    """

    depth: int = 3
    at_once: int = 8
    total: int = 50
    share: float | None = None

    def __post_init__(self) -> None:
        for name in ("depth", "at_once", "total"):
            check_count(name, getattr(self, name))
        if self.depth > MAX_DEPTH:
            raise ConfigurationError(f"SubAgentLimits.depth must be at most {MAX_DEPTH}, not {self.depth}.")
        share = cast("object", self.share)
        if share is not None and (isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 < share <= 1):
            raise ConfigurationError(f"SubAgentLimits.share must be more than 0 and at most 1, not {share!r:.60}.")

    def check(self, run: Run | None, name: str) -> None:
        """Raise a `ToolError` if this run may not start another sub-agent."""
        if run is None:
            return
        if len(run.source.path) // 2 >= self.depth:
            raise ToolError(
                f"Sub-agent {name!r} is not started: agents may be {self.depth} levels deep below the first one, and "
                "you are on the last level. Do the task yourself."
            )
        outermost = outermost_of(run)
        working, total = counts_of(outermost.conversation)
        if total >= self.total:
            raise ToolError(
                f"Sub-agent {name!r} is not started: this conversation has started {total} sub-agents, and at most "
                f"{self.total} are allowed. Continue one of yours with agent_send (agent_list names them), or do the "
                "task yourself."
            )
        self.check_at_once(working, name)

    def check_at_once(self, working: int, name: str) -> None:
        """Raise a `ToolError` if `at_once` sub-agents are working."""
        if working >= self.at_once:
            raise ToolError(
                f"Sub-agent {name!r} is not started: {working} sub-agents are working, and at most {self.at_once} may "
                "at once. Wait for one of them, or do the task yourself."
            )

    def shared(self, child: Run) -> UsageLimits | None:
        """The limits of a run that has begun: those of its agent, and its share of the parent's remaining limits."""
        if self.share is None:
            return child.limits
        left: dict[str, float] = {}
        above = child.parent
        while above is not None:
            limits, usage = above.usage.limits, above.usage
            if limits is not None:
                used = {
                    "model_calls": usage.model_calls,
                    "tool_calls": usage.tool_calls,
                    "input_tokens": usage.tokens.input_tokens,
                    "output_tokens": usage.tokens.output_tokens,
                    "total_tokens": usage.tokens.input_tokens + usage.tokens.output_tokens,
                    "cost": usage.cost,
                }
                for name, value in used.items():
                    most = cast("float | None", getattr(limits, name))
                    if most is not None:
                        left[name] = min(left.get(name, math.inf), max(0.0, most - value) * self.share)
            above = above.parent
        return _least(child, left)


def _least(child: Run, left: dict[str, float]) -> UsageLimits | None:
    own = child.limits
    if not left:
        return own
    base = own if own is not None else UsageLimits()
    for name, most in left.items():
        have = cast("float | None", getattr(base, name))
        # one is always possible: the limits above refuse it if nothing is left
        value = max(1, int(most)) if name in _COUNTS else most
        if have is not None and have <= value:
            continue
        if name == "cost" and base.prices is None:
            base = replace(base, cost=value, prices=_prices_above(child))
        else:
            base = replace(base, **{name: value})
    return base


def _prices_above(child: Run) -> object:
    above = child.parent
    while above is not None:
        if above.usage.limits is not None and above.usage.limits.prices is not None:
            return above.usage.limits.prices
        above = above.parent
    return None


def outermost_of(run: Run) -> Run:
    """The run that has called this one, over all levels."""
    each: RunState = run
    while each.parent is not None:
        each = each.parent
    return cast("Run", each)


def counts_of(conversation: Conversation) -> tuple[int, int]:
    """How many sub-agents of this conversation work or wait, and how many it has, over all levels."""
    working = total = 0
    for child in _children(conversation):
        total += 1
        working += is_taken(child)
    return working, total + sum(_saved(child.frozen.state) for child in _all(conversation) if child.frozen is not None)


def is_taken(child: SubConversation) -> bool:
    """True if a call has taken it, or its agent works in the background."""
    return child.call_id is not None or (child.conversation is not None and bool(child.conversation.entered))


def _children(conversation: Conversation) -> Iterator[SubConversation]:
    return (each for each in _all(conversation) if each.tool == SPAWN)


def _all(conversation: Conversation) -> Iterator[SubConversation]:
    waiting = [conversation]
    while waiting:
        children = waiting.pop().children
        for child in () if children is None else children.all:
            yield child
            if child.conversation is not None:
                waiting.append(child.conversation)


def _saved(state: SavedState) -> int:
    """The sub-agents in a state that was loaded and not used yet."""
    children = state.get("children", ())
    return sum((each["tool"] == SPAWN) + _saved(each["state"]) for each in children)
