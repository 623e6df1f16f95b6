"""Errors for AG-UI's clients: before the run a status and JSON, then RUN_ERROR with a `code`.

    {"error": {"type": "OpenCallsError", "message": "...", "interrupts": [{"id": "approval:c1", ...}]}}

| the run fails with                      | status before its first event | `code` of RUN_ERROR     |
|-----------------------------------------|-------------------------------|-------------------------|
| an error of the service                 | its own, see `failure`        | its class               |
| `ModelError`                            | 502                           | its class, with no text |
| any other                               | 500                           | its class, with no text |
"""

from __future__ import annotations

from collections.abc import Sequence

from ag_ui.core import Interrupt
from starlette.responses import JSONResponse

from agentscope_rx.errors import AgentScopeError, InvalidInputError
from agentscope_rx.errors.model import ModelError
from agentscope_rx.events import ErrorEvent
from agentscope_rx.messages import ToolUseBlock
from agentscope_rx.service.failure import answer_to


class OpenCallsError(InvalidInputError):
    """Calls of the conversation wait for answers that the request does not bring; nothing was run.

    `calls` are those that have no answer, and `interrupts` the questions to a person among them.
    """

    def __init__(self, calls: Sequence[ToolUseBlock], interrupts: Sequence[Interrupt]) -> None:
        names = ", ".join(f"{call.name} ({call.id})" for call in calls)
        super().__init__(
            f"Calls wait for an answer: {names:.500}. Send an entry of 'resume' for each interrupt, and a message of "
            "the tool for each call of your own tools. An entry with status 'cancelled' rejects its call."
        )
        self.calls: tuple[ToolUseBlock, ...] = tuple(calls)
        self.interrupts: tuple[Interrupt, ...] = tuple(interrupts)


class LostError(AgentScopeError):
    """The error of a run of which only an event is left. `kind` is its class."""

    def __init__(self, event: ErrorEvent) -> None:
        super().__init__(event.error_text)
        self.kind: str = event.error_type


def ag_ui_error(error: Exception) -> JSONResponse:
    """The error as a response, for a run that has not begun."""
    status, kind, message, headers = _answer(error)
    about: dict[str, object] = {"type": kind, "message": message}
    if isinstance(error, OpenCallsError):
        about["interrupts"] = [each.model_dump(mode="json", by_alias=True) for each in error.interrupts]
        about["toolCallIds"] = [call.id for call in error.calls]
    return JSONResponse({"error": about}, status, headers)


def words_of(error: Exception) -> tuple[str, str]:
    """The message and the code of a RUN_ERROR."""
    _, kind, message, _ = _answer(error)
    return message, kind


def _answer(error: Exception) -> tuple[int, str, str, dict[str, str]]:
    if isinstance(error, ModelError):
        # its text may name the provider's hosts and accounts
        kind = type(error).__name__
        return 502, kind, f"The model of the agent failed: {kind}.", {}
    if isinstance(error, LostError):
        return 500, error.kind, f"The run has failed: {error.kind}.", {}
    status, kind, message, headers = answer_to(error)
    return status, kind, message, dict(headers)
