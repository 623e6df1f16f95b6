"""`PendingOutput`: a structured output that a run has left unanswered, with the pending calls that it waits for.

It is saved as JSON, a Python type as its JSON schema: another process, which may not know the type, requests the same
output and checks the answer against the schema.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Literal, cast

from pydantic_core import to_json
from typing_extensions import TypedDict

from agentscope_rx.agent.structured_output.config import OutputMode, Reminder, StructuredOutput
from agentscope_rx.agent.structured_output.schema import value_schema
from agentscope_rx.frozen_values import dataclass

__all__ = ["PendingOutput", "SavedOutput", "read_output", "saved_output"]


class SavedOutput(TypedDict):
    """A `PendingOutput` in the saved state."""

    calls: list[str]
    schema: dict[str, object]
    mode: OutputMode
    reminder: Reminder
    max_retries: int
    on_failure: Literal["error", "text"]
    name: str
    description: str


@dataclass(frozen=True, slots=True)
class PendingOutput:
    """The output, and the ids of the calls that the run has left pending: none after a shutdown has cut it off."""

    output: StructuredOutput
    calls: frozenset[str]

    def goes_on(self, pending: Collection[str], *, cut_off: bool) -> bool:
        """True if a run gives the output: it settles one of these calls, or resumes the run that was cut off."""
        return cut_off if not self.calls else not self.calls.isdisjoint(pending)


def saved_output(pending: PendingOutput | None) -> SavedOutput | None:
    """The request as plain JSON."""
    if pending is None:
        return None
    output = pending.output
    # a schema may hold values that JSON has no form for, such as a default of nan
    schema = cast("dict[str, object]", json.loads(to_json(value_schema(output.shape))))
    return {
        "calls": sorted(pending.calls),
        "schema": schema,
        "mode": output.mode,
        "reminder": Reminder(output.reminder),
        "max_retries": output.max_retries,
        "on_failure": output.on_failure,
        "name": output.name,
        "description": output.description,
    }


def read_output(saved: SavedOutput | None) -> PendingOutput | None:
    """The request that was saved; `ConfigurationError` if its schema cannot be used."""
    if saved is None:
        return None
    output = StructuredOutput(
        saved["schema"],
        mode=saved["mode"],
        reminder=saved["reminder"],
        max_retries=saved["max_retries"],
        on_failure=saved["on_failure"],
        name=saved["name"],
        description=saved["description"],
    )
    return PendingOutput(output, frozenset(saved["calls"]))
