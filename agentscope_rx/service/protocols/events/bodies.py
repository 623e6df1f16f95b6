"""The bodies of the requests for our own events."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel, ConfigDict, model_validator

from agentscope_rx.agent.inbox import When
from agentscope_rx.messages import ApprovalAnswer, Msg


class RunBody(BaseModel):
    """Begins a run: `{"text": "..."}` or `{"messages": [...]}`, and `{"answers": [...]}` to calls that wait."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    text: str | None = None
    messages: list[Msg] | None = None
    answers: list[ApprovalAnswer] | None = None

    @model_validator(mode="after")
    def _something(self) -> RunBody:
        if self.text is not None and self.messages is not None:
            raise ValueError("give either text or messages")
        if self.text is None and self.messages is None and self.answers is None:
            raise ValueError("give either text or messages, or answers to pending calls")
        return self

    @property
    def input(self) -> list[Msg | ApprovalAnswer] | None:
        """The input of the run."""
        messages = self.messages or [] if self.text is None else [Msg.user(self.text)]
        return [*messages, *(self.answers or ())] or None


class HostRunBody(RunBody):
    """Begins a run of the agent with this name; with a `session_id`, in a stored conversation."""

    agent: str | None = None
    session_id: str | None = None


class InputBody(BaseModel):
    """Input for a live run."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    text: str | None = None
    messages: list[Msg] | None = None
    when: When = "next_round"

    @model_validator(mode="after")
    def _either(self) -> InputBody:
        if (self.text is None) is (self.messages is None):
            raise ValueError("give either text or messages")
        return self

    @property
    def input(self) -> list[Msg]:
        """The messages."""
        return self.messages or [] if self.text is None else [Msg.user(self.text)]


class InterruptBody(BaseModel):
    """Interrupts a run; `text` is its reply."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    text: str | None = None
