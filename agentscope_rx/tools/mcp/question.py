"""`Question`: what a server wants to know in the middle of a call, and how the answer finds its way back.

    the run    call --> suspended, with the question in the placeholder's metadata     call again --> the real result
    a person                                  client.answer(placeholder, {"yes": True}) --^
    the server ----asks                                                     answered ---goes on

The question stays open here for a while. If it is gone (the program was started anew, the server ended), the call is
made again and the answer given when the server asks the same.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from mcp_types import ElicitRequestParams, ElicitRequestURLParams, ElicitResult

from agentscope_rx.errors import ConfigurationError, InvalidInputError, ToolSuspend
from agentscope_rx.messages import ToolResultBlock
from agentscope_rx.messages.frozen import thaw
from agentscope_rx.tools.schemas.check import SchemaCheck

Action = Literal["accept", "decline", "cancel"]
KEY = "mcp"
"""Where a placeholder's metadata holds the question."""


@dataclass(slots=True)
class Question:
    """One question. `resume` is what a server of the newer protocol wants back with the answer."""

    server: str
    message: str
    schema: Mapping[str, object] | None
    url: str | None = None
    resume: Mapping[str, object] | None = None
    token: str = field(default_factory=lambda: secrets.token_urlsafe(12))
    answer: asyncio.Future[ElicitResult] | None = None

    @classmethod
    def of(cls, server: str, params: ElicitRequestParams, resume: Mapping[str, object] | None = None) -> Question:
        """What the protocol's request asks."""
        if isinstance(params, ElicitRequestURLParams):
            return cls(server, params.message, None, params.url, resume)
        return cls(server, params.message, params.requested_schema, None, resume)

    def same(self, other: Question) -> bool:
        """Whether the other asks the same."""
        return (self.message, self.schema, self.url) == (other.message, other.schema, other.url)

    @property
    def open(self) -> bool:
        """Whether nobody has answered."""
        return self.answer is not None and not self.answer.done()

    def suspension(self) -> ToolSuspend:
        """The question as a suspended call tells it."""
        asked = {"server": self.server, "question": self.token, "message": self.message, "schema": self.schema}
        if self.url is not None:
            asked["url"] = self.url
        if self.resume is not None:
            asked["resume"] = self.resume
        return ToolSuspend(self.message, **{KEY: asked})


@dataclass(frozen=True, slots=True)
class Answer:
    """What a person said to a question."""

    question: Question
    result: ElicitResult


def answer_to(placeholder: ToolResultBlock, server: str, action: Action, content: Mapping[str, object]) -> Answer:
    """The answer to what this placeholder asks; `InvalidInputError` if it is none, or does not fit the schema."""
    asked = placeholder.metadata.get(KEY)
    if not isinstance(asked, Mapping) or "question" not in asked:
        raise InvalidInputError(
            f"Call {placeholder.id!r} does not wait for an answer to an MCP server's question. Take the result of kind "
            "'suspended' from reply.tool_results."
        )
    fields = cast("Mapping[str, Any]", asked)
    if fields["server"] != server:
        raise InvalidInputError(f"The question is one of MCP server {fields['server']!r}, not of {server!r}.")
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
            raise InvalidInputError(f"An answer that does not accept has no content; action is {action!r}.")
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
        # the server wants something that nobody can check: it will say so itself
        return
    if problems:
        told = "\n".join(f"- {problem.text}" for problem in problems)
        raise InvalidInputError(f"The answer does not fit what is asked ({question.message!r}):\n{told}")
