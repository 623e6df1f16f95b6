"""`direct_reply`: the results of `return_direct` tools as the reply, without another model call.

| the last batch                                            | the run                                             |
|-----------------------------------------------------------|-----------------------------------------------------|
| has results of such tools, none of them an error          | ends: their blocks, in call order, are the reply    |
| has an error of such a tool (also: rejected, interrupted) | continues: the model reads the error                |
| has a pending call                                        | ends with the reply once that call is answered      |
| belongs to a run with a structured output                 | continues: only the model can give the output       |

Results of other tools in the batch are remembered, but are no part of the reply. The batch is read from memory, so that
hooks, answers of the caller and a restart have the same effect as for the model.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentscope_rx.agent.react.stage import ActingCore
from agentscope_rx.agent.react.structured_output import output_of
from agentscope_rx.agent.run import Run
from agentscope_rx.agent.sub_agent.child_tool import without_heading
from agentscope_rx.messages import GenerateReason, Msg, MsgRole, OutputBlock, TextBlock, ToolResultBlock
from agentscope_rx.tools.background import BACKGROUND


def direct_reply(agent: ActingCore, run: Run, history: Sequence[Msg], *, fresh: bool = False) -> Msg | None:
    """The reply made of the last batch of the history, by the table above; None if the model is to be asked.

    `fresh`: the batch was run just now. One of an earlier call is no reply if other messages have followed it.
    """
    output = output_of(run)
    if output is not None and output.request.output is not None:
        return None
    found = [result for result in _last_results(history, fresh) if _is_direct(run, result.name)]
    # the handle of a call that goes on in the background is no reply
    if not found or any(result.kind is not None or BACKGROUND in result.metadata for result in found):
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
    """All blocks, with adjacent texts joined by newlines: the `text` of a message joins them without a separator.

    The line with the id of a sub-agent's conversation is for the model, and left out.
    """
    blocks: list[OutputBlock] = []
    for block in (each for result in results for each in without_heading(result)):
        last = blocks[-1] if blocks else None
        if isinstance(block, TextBlock) and isinstance(last, TextBlock):
            blocks[-1] = TextBlock(f"{last.text}\n{block.text}")
        else:
            blocks.append(block)
    return blocks
