"""`send`: a message to a job: to the sub-agent that it runs, or to a tool that reads `ToolContext.received`."""

from __future__ import annotations

from typing import cast

from agentscope_rx.agent.background.job import Job
from agentscope_rx.agent.conversation import Conversation
from agentscope_rx.agent.run import Run
from agentscope_rx.errors import InvalidInputError, RunEndedError


def send(conversation: Conversation, job: Job, text: str) -> None:
    """Send it; `InvalidInputError` if the job takes no messages, `RunEndedError` if it has ended. From any thread."""
    if not job.running:
        raise RunEndedError(job.source.agent, job.id)
    children = conversation.children
    child = None if children is None else children.of_call(job.call.id)
    if child is not None and child.conversation is not None:
        runs = child.conversation.entered
        if not runs:
            raise RunEndedError(child.conversation.name, job.id)
        cast("Run", runs[0]).inbox.put(text)
    elif not job.send(text):
        raise InvalidInputError(f"Job {job.id} takes no messages: tool {job.call.name!r} reads none.")
