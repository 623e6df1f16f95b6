"""Parameters that the model does not fill in: what the caller gave the run, handed to the function by type."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Inject:
    """Marks a parameter, as in `Annotated[Database, Inject]`: it is filled from the `RuntimeContext`."""

    key: str = ""
