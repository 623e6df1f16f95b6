"""`RunStats`: where a run is."""

from __future__ import annotations

from dataclasses import dataclass

from agentscope_rx.messages import ChatUsage, ToolUseBlock


@dataclass(frozen=True, slots=True)
class RunStats:
    """A run in progress at one moment. Ages and durations in seconds by the loop's clock.

    `in_flight` are the calls that have begun, `waiting` those of this round that wait for a place, a permit or a rate.
    `model_waiting`: so does the question to the model; `model_retries` are its attempts that have failed.
    `abandoned` is how many blocking calls run on that it, or a run within it, no longer waits for.
    `queued` is how many events wait for a slow consumer; `event_age` how long ago the last event was handed on.
    """

    run_id: str
    agent: str
    turn: int
    model_calls: int
    tool_calls: int
    in_flight: tuple[ToolUseBlock, ...]
    waiting: tuple[ToolUseBlock, ...]
    events: int
    queued: int
    age: float
    event_age: float
    usage: ChatUsage
    cost: float
    interrupted: bool
    model_waiting: bool = False
    model_retries: int = 0
    abandoned: int = 0
