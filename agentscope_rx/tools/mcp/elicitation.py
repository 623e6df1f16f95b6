"""`Elicitation` and `Question`: what a server asks a person in the middle of a call, and how the answer returns.

    the run    call --> suspended, with the question in the placeholder's metadata     call again --> the real result
    a person                                  client.answer(placeholder, {"yes": True}) --^
    the server ----asks                                                     answered ---continues

The question stays open in this process for a while. Once it is gone (the program was restarted, the server ended), the
call is made again, and the answer is given when the server asks the same question. With `on_elicitation`, a function
answers, and the call is not suspended.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from typing import Any, Literal, cast

from mcp_types import ElicitRequestParams, ElicitRequestURLParams, ElicitResult

from agentscope_rx.errors import ConfigurationError, InvalidInputError, ToolSuspend
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages import ToolResultBlock
from agentscope_rx.messages.frozen import thaw
from agentscope_rx.tools.schemas.check import SchemaCheck

Action = Literal["accept", "decline", "cancel"]
KEY = "mcp"
"""The key of the question in a placeholder's metadata."""


@dataclass(frozen=True, slots=True)
class Elicitation:
    """A server's question for a person: a form to fill in (`schema`), or a page to visit (`url`)."""

    server: str
    message: str
    schema: Mapping[str, object] | None = None
    url: str | None = None


OnElicitation = Callable[[Elicitation], Awaitable[Mapping[str, object] | None]]
"""Answers a question: gives the content, or None to decline."""


@dataclass(slots=True)
class Question:
    """One question within a call. `resume` is what a server of the newer protocol needs back with the answer."""

    server: str
    message: str
    schema: Mapping[str, object] | None
    url: str | None = None
    resume: Mapping[str, object] | None = None
    token: str = field(default_factory=lambda: secrets.token_urlsafe(12))
    answer: asyncio.Future[ElicitResult] | None = None

    @classmethod
    def of(cls, server: str, params: ElicitRequestParams, resume: Mapping[str, object] | None = None) -> Question:
        """The question in a request of the protocol."""
        if isinstance(params, ElicitRequestURLParams):
            return cls(server, params.message, None, params.url, resume)
        return cls(server, params.message, params.requested_schema, None, resume)

    def same(self, other: Question) -> bool:
        """True if the other question has the same text, schema and URL."""
        return (self.message, self.schema, self.url) == (other.message, other.schema, other.url)

    @property
    def open(self) -> bool:
        """True while the question waits for an answer."""
        return self.answer is not None and not self.answer.done()

    @property
    def elicitation(self) -> Elicitation:
        """The question as `on_elicitation` gets it."""
        return Elicitation(self.server, self.message, self.schema, self.url)

    def suspension(self) -> ToolSuspend:
        """The error that suspends the call, with the question in the placeholder's metadata."""
        stored = {"server": self.server, "question": self.token, "message": self.message, "schema": self.schema}
        if self.url is not None:
            stored["url"] = self.url
        if self.resume is not None:
            stored["resume"] = self.resume
        return ToolSuspend(self.message, **{KEY: stored})


@dataclass(frozen=True, slots=True)
class Answer:
    """A person's answer to a question."""

    question: Question
    result: ElicitResult


def answer_to(placeholder: ToolResultBlock, server: str, action: Action, content: Mapping[str, object]) -> Answer:
    """The answer to this placeholder's question; `InvalidInputError` if there is none, or the content does not fit."""
    stored = placeholder.metadata.get(KEY)
    if not isinstance(stored, Mapping) or "question" not in stored:
        raise InvalidInputError(
            f"Call {placeholder.id!r} does not wait for an answer to an MCP server's question. Take the result of kind "
            "'suspended' from reply.tool_results."
        )
    fields = cast("Mapping[str, Any]", stored)
    if fields["server"] != server:
        raise InvalidInputError(f"MCP server {fields['server']!r} asked this question, not {server!r}.")
    schema = fields["schema"]
    question = Question(
        server,
        fields["message"],
        None if schema is None else thaw(schema),
        fields.get("url"),
        fields.get("resume"),
        fields["question"],
    )
    if action not in ("accept", "decline", "cancel"):
        raise InvalidInputError(f"action must be 'accept', 'decline' or 'cancel', not {action!r}.")
    if action != "accept":
        if content:
            raise InvalidInputError(f"Only an answer with action='accept' has content; action is {action!r}.")
        return Answer(question, ElicitResult(action=action))
    if question.schema is not None:
        _check(question, content)
    plain = cast("Any", thaw(content)) if question.schema is not None else None
    return Answer(question, ElicitResult(action="accept", content=plain))


def _check(question: Question, content: Mapping[str, object]) -> None:
    assert question.schema is not None
    try:
        problems = SchemaCheck(question.schema).problems(content)
    except ConfigurationError:
        # the schema cannot be checked here: the server checks the answer itself
        return
    if problems:
        listed = "\n".join(f"- {problem.text}" for problem in problems)
        raise InvalidInputError(f"The answer does not fit the question ({question.message!r}):\n{listed}")
