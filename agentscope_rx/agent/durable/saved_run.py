"""`SavedRun`: a run in progress, as a checkpoint saves it with the conversation. It holds what a resume needs.

| field of the run     | means                                                                                      |
|----------------------|--------------------------------------------------------------------------------------------|
| `stage`              | the stage that follows: "reasoning", "acting", "summarizing", or "end" with its `reply`     |
| `sent_back`          | a hook has asked for the round that follows                                                |
| `limit`              | the usage limit that the summary is about                                                  |
| `usage`, `elapsed`   | what the run has used of its limits, with its active seconds                               |
| `given`, `input`     | the digest of the caller's input, and the ids of the messages as they are remembered       |
| `inbox`              | input that was enqueued and is not remembered yet                                          |
| `last`               | the id of the last message in memory: later ones were not saved                            |
| `output`, `progress` | the structured output that was requested, and the state of it                              |
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Literal

from pydantic_core import to_json
from typing_extensions import TypedDict

from agentscope_rx.agent.inbox import When
from agentscope_rx.agent.interruption import InterruptSource
from agentscope_rx.agent.structured_output.pending import SavedOutput
from agentscope_rx.agent.structured_output.progress import SavedProgress
from agentscope_rx.messages import ChatUsage, Msg

Stage = Literal["reasoning", "acting", "summarizing", "end"]
"""The stage that follows a checkpoint."""


class SavedUsage(TypedDict):
    """What a run has used so far; see `agent.limits.Usage`."""

    model_calls: int
    model_retries: int
    tool_calls: int
    tokens: ChatUsage
    cost: float


class SavedInput(TypedDict):
    """Input in the inbox of a run."""

    messages: list[Msg]
    when: When


class SavedInterruption(TypedDict):
    """A request to end, which the run has not come to follow."""

    source: InterruptSource
    message: Msg | None


class SavedRun(TypedDict):
    """The field `run` of the saved state."""

    id: str
    stage: Stage
    iteration: int
    sent_back: bool
    limit: str | None
    goto_count: int
    thinking: int
    released: bool
    usage: SavedUsage
    elapsed: float
    given: str | None
    input: list[str]
    inbox: list[SavedInput]
    last: str | None
    interruption: SavedInterruption | None
    output: SavedOutput | None
    progress: SavedProgress | None
    reply: Msg | None


def digest_of(messages: Sequence[Msg]) -> str | None:
    """The digest of the content of an input, by which the same input is known again; None for no message."""
    if not messages:
        return None
    contents = [[message.role, message.name, message.to_dict()["content"]] for message in messages]
    return sha256(to_json(contents)).hexdigest()
