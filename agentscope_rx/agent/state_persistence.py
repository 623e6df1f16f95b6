"""`StatePersistence`: the parts of a conversation that are saved and loaded."""

from __future__ import annotations

from dataclasses import dataclass

from agentscope_rx.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class StatePersistence:
    """The parts of a conversation to save and load: the messages, pending calls with approvals, or both."""

    memory: bool = True
    pending: bool = True

    @classmethod
    def memory_only(cls) -> StatePersistence:
        """The messages only."""
        return cls(pending=False)


def check_checkpoint(checkpoint: object, alone: bool, persistence: StatePersistence) -> None:
    """`ConfigurationError` for an unknown choice, or if runs may overlap, or only a part is saved, with "stage"."""
    if checkpoint not in ("run", "stage"):
        raise ConfigurationError(f"checkpoint must be 'run' or 'stage', not {checkpoint!r:.60}.")
    if checkpoint == "stage" and not (alone and persistence.memory and persistence.pending):
        raise ConfigurationError(
            "checkpoint='stage' saves one run with all of its state: it needs check_running=True, and a "
            "state_persistence with memory and pending calls."
        )
