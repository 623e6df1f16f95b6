"""The argument of a tool by which its model asks for the background.

A module of its own, because the first pydantic model of a process takes as long as ten modules, and few tools have it.
"""

from __future__ import annotations

from pydantic import BaseModel, Field


class Asked(BaseModel):
    """The argument by which a model asks for it."""

    run_in_background: bool = Field(
        False, description="True: go on in the background. You get a handle at once, and the result later as a message."
    )
