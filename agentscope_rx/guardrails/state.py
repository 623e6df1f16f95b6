"""What a `GuardrailsHook` keeps in a conversation, and of a run in progress.

in the conversation, saved with it   the stops in force, and the ids of inputs that are not judged yet, or were refused
of the run                           findings for the next message, and the calls that were judged
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import cast

from agentscope_rx.errors import GuardrailError, InvalidInputError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.guardrails.verdict import Finding
from agentscope_rx.messages import ToolUseBlock
from agentscope_rx.messages.frozen import shown
from agentscope_rx.parts import Part


@dataclass(frozen=True, slots=True)
class Stop:
    """A run is to end with this reply, at its next model request."""

    guardrail: str
    kind: str
    reason: str
    reply: str

    def to_dict(self) -> dict[str, str]:
        """As plain JSON."""
        return {"guardrail": self.guardrail, "kind": self.kind, "reason": self.reason, "reply": self.reply}


@dataclass(frozen=True, slots=True)
class GuardState:
    """The state in one conversation: stops by the id of their run, and ids of input messages."""

    stops: Mapping[str, Stop] = field(default_factory=dict[str, Stop])
    unjudged: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()

    def dump(self) -> dict[str, object]:
        """As plain JSON."""
        stops = {run: stop.to_dict() for run, stop in self.stops.items()}
        return {"stops": stops, "unjudged": list(self.unjudged), "refused": list(self.refused)}


NO_STATE = GuardState()


def part_of(name: str) -> Part[GuardState]:
    """The state of the hook of this name in each conversation."""
    return Part(name, 1, NO_STATE, dump=GuardState.dump, read=_read)


def _read(data: object) -> GuardState:
    try:
        given = cast("Mapping[str, Mapping[str, Mapping[str, str]]]", data)
        stops = {run: Stop(**stop) for run, stop in given["stops"].items()}
        lists = cast("Mapping[str, list[str]]", data)
        return GuardState(stops, tuple(lists["unjudged"]), tuple(lists["refused"]))
    except (TypeError, KeyError, AttributeError) as error:
        raise InvalidInputError(f"This is not the state of a GuardrailsHook: {shown(data, 80)}") from error


@dataclass(slots=True)
class LiveRun:
    """A run in progress."""

    findings: list[Finding] = field(default_factory=list[Finding])
    calls: dict[str, tuple[ToolUseBlock, str | None]] = field(
        default_factory=dict[str, tuple[ToolUseBlock, str | None]]
    )
    """By id: the calls that were judged, as they were judged, and why they must not run."""
    answered: bool = False
    """True once the reply has taken the place of the model's answer."""
    error: GuardrailError | None = None
    """The run fails with it once the result that was stopped is remembered."""
