"""What the model is told of its background work: the handle, and the result.

The result is a message of the engine, as a call has one result and this one had its handle. What a tool has written
stands in a tag that it cannot close.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from html import escape
from typing import Final

from agentscope_rx.agent.background.job import Job
from agentscope_rx.messages import ContentBlock, Msg, TextBlock, ToolResultBlock, ToolResultKind
from agentscope_rx.messages.tags import Tags
from agentscope_rx.tools.background import BACKGROUND

TAG: Final = "background_result"
_TAGS: Final = Tags(TAG)

LIST, READ, SEND, STOP, WAIT = (f"background_{each}" for each in ("list", "read", "send", "stop", "wait"))
"""The tools by which a model uses its background work."""

_HANDLE = (
    "This call goes on in the background as job {id}. It has no result yet. Its result comes as a message when it is "
    "there; do not call the tool again for it. Go on with other work, or end your turn."
)
_IN_DOUBT = (
    "The process ended while this work was in progress. It is not known how far it came, nor if it has had its effect. "
    "Find out before you do it again."
)
_MEANS: Mapping[str, str] = {
    WAIT: "wait for it",
    READ: "read its output so far",
    SEND: "send it a message",
    STOP: "stop it",
}


def handle_of(job: Job, tools: Collection[str]) -> ToolResultBlock:
    """The result that the call has at once; `tools` are those of the run."""
    means = [f"{what} ({name})" for name, what in _MEANS.items() if name in tools]
    text = _HANDLE.format(id=job.id)
    if means:
        text += f" Until then you can {', '.join(means)}."
    call = job.call
    return ToolResultBlock(call.id, call.name, (TextBlock(text),), metadata={BACKGROUND: {"job": job.id}})


def result_of(job: Job) -> ToolResultBlock:
    """The result of a job that has ended, as hooks on results see it."""
    call = job.call
    if job.state == "in_doubt" or job.result is None:
        return ToolResultBlock.error(call, ToolResultKind.INTERRUPTED, _IN_DOUBT)
    return job.result


def message_of(job: Job, result: ToolResultBlock) -> Msg:
    """The message with this result."""
    call = job.call
    names = {"job": job.id, "tool": call.name, "call": call.id, "state": f"{job.state}"}
    attributes = " ".join(f'{name}="{escape(value)}"' for name, value in names.items())
    text = "\n".join(block.text for block in result.output if isinstance(block, TextBlock))
    body: list[ContentBlock] = [TextBlock(f"<{TAG} {attributes}>\n{_TAGS.escaped(text)}\n</{TAG}>")]
    body += [block for block in result.output if not isinstance(block, TextBlock)]
    return Msg.user(body).replace(metadata={BACKGROUND: names})
