"""`StatePersistence`: the parts of a conversation that are saved and loaded."""

from __future__ import annotations

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.memory import Memory


@dataclass(frozen=True, slots=True)
class StatePersistence:
    """The parts of a conversation to save and load: the messages (`memory`), the pending calls (`pending`), or both."""

    memory: bool = True
    pending: bool = True

    @classmethod
    def memory_only(cls) -> StatePersistence:
        """The messages only."""
        return cls(pending=False)


def check_choice(checkpoint: object) -> None:
    """`ConfigurationError` for an unknown choice of the checkpoints."""
    if checkpoint not in ("run", "stage"):
        raise ConfigurationError(f"checkpoint must be 'run' or 'stage', not {checkpoint!r:.60}.")


def check_checkpoint(checkpoint: object, alone: bool, persistence: StatePersistence, memory: Memory) -> None:
    """`ConfigurationError` for an unknown choice, or for "stage" with an agent that cannot go back to a checkpoint.

    That is one whose runs may overlap, that saves only a part, or whose memory keeps what was written after it.
    """
    check_choice(checkpoint)
    if checkpoint == "stage" and memory.durable:
        raise ConfigurationError(
            f"checkpoint='stage' goes back to the last checkpoint after a crash, and a {type(memory).__name__} keeps "
            "messages that were written since. Give the agent an InMemoryMemory, which the session saves, or leave "
            "checkpoint= out."
        )
    if checkpoint == "stage" and not (alone and persistence.memory and persistence.pending):
        raise ConfigurationError(
            "checkpoint='stage' saves one run with all of its state: it needs check_running=True, and a "
            "state_persistence with memory and pending calls."
        )
