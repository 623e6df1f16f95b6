"""The results of `return_direct` tools as the reply: the model is not asked again.

| the last batch                                            | the run                                             |
|-----------------------------------------------------------|-----------------------------------------------------|
| has results of such tools, none of them an error          | ends: their blocks, in call order, are the reply    |
| has an error of such a tool (also: rejected, interrupted) | goes on: the model reads the error                  |
| has a call that still waits                               | waits, and ends with the reply when it is answered  |
| belongs to a run that asks for an output                  | goes on: only the model can give the output         |

What the other tools of the batch gave does not matter: all run, and their results are remembered. The batch is read
from memory, so that hooks, answers of the caller and a restart count as they do for the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agentscope_rx.agent.react.structured_output import asking_of
from agentscope_rx.agent.run import Run
from agentscope_rx.agent.sub_agent.heading import without_heading
from agentscope_rx.messages import GenerateReason, Msg, MsgRole, OutputBlock, TextBlock, ToolResultBlock

if TYPE_CHECKING:
    from agentscope_rx.agent.react.react_agent import ReActAgent


def direct_reply(agent: ReActAgent, run: Run, history: Sequence[Msg], *, fresh: bool = False) -> Msg | None:
    """The reply that the last batch of the history is, by the table above; None if the model is to be asked.

    A batch that is not `fresh` (it was run before this call) is no reply once words have followed it.
    """
    asking = asking_of(run)
    if asking is not None and asking.request.output is not None:
        return None
    found = [result for result in _last_results(history, fresh) if _is_direct(run, result.name)]
    if not found or any(result.kind is not None for result in found):
        return None
    return run.final(Msg.assistant(_joined(found), agent.name), GenerateReason.RETURN_DIRECT)


def _is_direct(run: Run, name: str) -> bool:
    tool = run.toolkit.get(name)
    return tool is not None and tool.return_direct


def _last_results(history: Sequence[Msg], fresh: bool) -> list[ToolResultBlock]:
    """The results of the last calls of the history, in call order."""
    results: dict[str, ToolResultBlock] = {}
    for index in range(len(history) - 1, -1, -1):
        message = history[index]
        if message.tool_calls:
            return [results[call.id] for call in message.tool_calls if call.id in results]
        if message.role is MsgRole.TOOL:
            results.update({result.id: result for result in message.tool_results if result.id not in results})
        elif not fresh:
            return []
    return []


def _joined(results: Sequence[ToolResultBlock]) -> list[OutputBlock]:
    """All blocks; texts that stand side by side are one, as lines of it: a reply's text joins them by nothing.

    The line that tells a model the id of a sub-agent's conversation is left out.
    """
    blocks: list[OutputBlock] = []
    for block in (each for result in results for each in without_heading(result)):
        last = blocks[-1] if blocks else None
        if isinstance(block, TextBlock) and isinstance(last, TextBlock):
            blocks[-1] = TextBlock(f"{last.text}\n{block.text}")
        else:
            blocks.append(block)
    return blocks
