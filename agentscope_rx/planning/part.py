"""`Part`: the typed view of one state among the `PartStates` of a conversation (see `agentscope_rx.parts`)."""

from agentscope_rx.parts import HasParts, Part, Where

__all__ = ["HasParts", "Part", "Where"]
