"""Asks the hooks of a run, and of the runs above it, about one call: if it may run, and if it waits for a person.

| asked, in this order                   | `refusal`        | `approval`                                         |
|----------------------------------------|------------------|----------------------------------------------------|
| the hooks of the run                   | the first holds  | one True wins; False lifts the tool's own rule     |
| `for_sub_agents` of each run above it  | holds            | True holds; False allows nothing                   |
| the toolkit's policy                   | as the call begins | as the hooks of the run                          |

They are asked as a round is sorted, and again as each call begins: what the calls before it have changed counts.
So a sub-agent is allowed what all the runs above it allow, and no more.
"""

from __future__ import annotations

from functools import partial

from agentscope_rx.agent.react.structured_output import output_of
from agentscope_rx.agent.run import Run
from agentscope_rx.hooks.asking import approval_by, refusal_by
from agentscope_rx.messages import ToolUseBlock


def refusal_of(run: Run, call: ToolUseBlock) -> str | None:
    """The reason for which the call must not run, or None. An answer in a requested output is no call."""
    output = output_of(run)
    if output is not None and output.owns(call.name):
        return None
    tool = run.toolkit.get(call.name)
    text = run.hooks.refusal(call, tool, run.source)
    above = run.parent
    while text is None and above is not None:
        text = refusal_by(above.hooks.inherited, call, tool, above.source)
        above = above.parent
    return text


def hooks_approve(run: Run) -> bool:
    """True if a hook of the run, or one of a run above it, may want approval of calls."""
    if run.hooks.approving:
        return True
    above = run.parent
    while above is not None:
        if above.hooks.inherited:
            return True
        above = above.parent
    return False


def asks_for(run: Run, call: ToolUseBlock) -> bool | None:
    """True if the call waits for a person; False if a rule lets it run; None if nothing is said about it."""
    output = output_of(run) if run.extras else None
    if output is not None and output.owns(call.name):
        return None
    ask = partial(_ask_hooks, run, call) if run.hooks.approving or run.parent is not None else None
    return run.toolkit.asks(call, run.context, ask)


def _ask_hooks(run: Run, call: ToolUseBlock) -> bool | None:
    tool = run.toolkit.get(call.name)
    if tool is None:
        return None
    ruling = run.hooks.approval(call, tool, run.source)
    above = run.parent
    while ruling is not True and above is not None:
        if approval_by(above.hooks.inherited, call, tool, above.source) is True:
            ruling = True
        above = above.parent
    return ruling
