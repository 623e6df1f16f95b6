"""`SavedProgress`: the progress of a run's request for a structured output, as a checkpoint within the run saves it."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import TypedDict

from agentscope_rx.agent.structured_output.state import StructuredOutputState
from agentscope_rx.messages import Msg, ToolResultBlock


class SavedProgress(TypedDict):
    """A `StructuredOutputState` without its request; `answer` is the id of the message of the round."""

    failures: int
    problems: list[str]
    text: str
    hint: str | None
    last: bool
    due: bool
    limit: str | None
    refused: bool
    calls: list[str]
    attempts: list[str]
    answer: str | None
    taken: ToolResultBlock | None
    missed: ToolResultBlock | None


def saved_progress(state: StructuredOutputState) -> SavedProgress:
    """The progress as it is now."""
    return {
        "failures": state.failures,
        "problems": list(state.problems),
        "text": state.text,
        "hint": state.hint,
        "last": state.last,
        "due": state.due,
        "limit": state.limit,
        "refused": state.refused,
        "calls": sorted(state.calls),
        "attempts": sorted(state.attempts),
        "answer": None if state.answer is None else state.answer.id,
        "taken": state.taken,
        "missed": state.missed,
    }


def restore_progress(state: StructuredOutputState, saved: SavedProgress, history: Sequence[Msg]) -> None:
    """Put the progress that was saved in place; the message of the round is taken from the history."""
    state.failures = saved["failures"]
    state.problems = tuple(saved["problems"])
    state.text = saved["text"]
    state.hint = saved["hint"]
    state.last = saved["last"]
    state.due = saved["due"]
    state.limit = saved["limit"]
    state.refused = saved["refused"]
    state.calls = set(saved["calls"])
    state.attempts = set(saved["attempts"])
    state.answer = next((each for each in reversed(history) if each.id == saved["answer"]), None)
    state.taken = saved["taken"]
    state.missed = saved["missed"]
