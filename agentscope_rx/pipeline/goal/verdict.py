"""`GoalVerdict`: what a verifier says of one attempt. `GoalOutcome`: how a goal loop has ended.

reply = await loop.call("Make the tests pass.")
outcome = GoalOutcome.of(reply)
if outcome.end is not GoalEnd.DONE: print(outcome.end, outcome.feedback)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from enum import StrEnum
from typing import Annotated, cast

from pydantic import Field

from agentscope_rx.errors import InvalidInputError, NoStructuredOutputError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages import Msg
from agentscope_rx.messages.structured import STRUCTURED
from agentscope_rx.pipeline.steps import StepResult

GOAL = "goal"
"""The key in a reply's metadata: how the loop has ended."""


@dataclass(frozen=True, slots=True)
class GoalVerdict:
    """A verdict on one attempt. If it is not `done`, the executor gets the `feedback` and tries again."""

    done: Annotated[bool, Field(description="True only if the goal is reached in full.")]
    feedback: Annotated[
        str, Field(description="If it is not reached: what is missing or wrong, and what to do about it. Else empty.")
    ] = ""

    @property
    def metadata(self) -> dict[str, object]:
        """The verdict as the structured value of a message."""
        return {STRUCTURED: asdict(self)}

    @classmethod
    def of(cls, result: StepResult) -> GoalVerdict | None:
        """The verdict in the result of a verifier's step; None if the step failed, or has none."""
        if not result.ok or result.reply is None:
            return None
        try:
            return result.reply.structured(cls)
        except (NoStructuredOutputError, InvalidInputError):
            return None


class GoalEnd(StrEnum):
    """The reason why a goal loop has ended."""

    DONE = "done"
    """The verifier says that the goal is reached."""
    OUT_OF_ROUNDS = "out_of_rounds"
    """`max_rounds` attempts were made."""
    OUT_OF_BUDGET = "out_of_budget"
    """One of the loop's `UsageLimits` was reached."""
    NO_PROGRESS = "no_progress"
    """The verifier has given the same feedback `stalled_after` times in a row."""
    VERIFIER_FAILED = "verifier_failed"
    """The verifier has failed, also when it was asked again: the last attempt was not judged."""
    INTERRUPTED = "interrupted"
    """The loop, or the member at work, was interrupted."""


@dataclass(frozen=True, slots=True)
class GoalOutcome:
    """How a goal loop has ended: `end` is the reason, `rounds` the number of attempts, `result` the last attempt.

    `result` is None if no attempt was finished. `feedback` is the verifier's last one.
    """

    end: GoalEnd
    rounds: int
    feedback: str = ""
    result: Msg | None = None

    @property
    def done(self) -> bool:
        """True if the goal is reached."""
        return self.end is GoalEnd.DONE

    def metadata(self, reply: Msg | None) -> dict[str, object]:
        """The outcome as metadata of `reply`, which is the result unless that is None."""
        result = None if self.result is None or self.result is reply else self.result.to_dict()
        own = self.result is not None and self.result is reply
        return {
            GOAL: {
                "end": self.end.value,
                "rounds": self.rounds,
                "feedback": self.feedback,
                "is_result": own,
                "result": result,
            }
        }

    @classmethod
    def of(cls, reply: Msg) -> GoalOutcome:
        """The outcome in the reply of a `GoalLoop`; `InvalidInputError` for any other message."""
        saved = reply.metadata.get(GOAL)
        try:
            found = cast("Mapping[str, object]", saved)
            kept = found["result"]
            result = reply if found["is_result"] is True else None
            if isinstance(kept, Mapping):
                result = Msg.from_dict(dict(cast("Mapping[str, object]", kept)))
            return cls(GoalEnd(cast("str", found["end"])), cast("int", found["rounds"]), str(found["feedback"]), result)
        except (TypeError, KeyError, ValueError) as error:
            raise InvalidInputError(f"Message {reply.id} is no reply of a GoalLoop.") from error
