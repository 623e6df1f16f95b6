"""A script: it blocks at `.run()`, reads a file, and prints one typed value for each line.

Look at: `output=Ticket`, which makes the reply a checked `Ticket` rather than text, and `limits`, which bound each
call. An error of a call is an ordinary exception: here it ends the script with status 1.

    python examples/script.py                            sorts examples/data/inbox.txt, with a scripted model
    AGENTSCOPE_RX_MODEL=openai:gpt-5-mini python examples/script.py my-inbox.txt
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field

from agentscope_rx import ReActAgent, UsageLimits
from agentscope_rx.errors import AgentScopeError
from agentscope_rx.testing import ScriptedModel, call

LIMITS = UsageLimits(model_calls=5, deadline=60)


class Ticket(BaseModel):
    """What a message to the shop is about."""

    topic: Literal["delivery", "money", "question"]
    urgent: bool = Field(description="True if the customer loses money by waiting")
    order: int | None = Field(default=None, description="The number of the order, if it is named")


SCRIPT = ScriptedModel(
    call("generate_response", topic="delivery", urgent=False, order=311),
    call("generate_response", topic="money", urgent=True, order=298),
    call("generate_response", topic="question", urgent=False),
)


def main(file: Path) -> None:
    model = os.environ.get("AGENTSCOPE_RX_MODEL") or SCRIPT
    for line in file.read_text(encoding="utf-8").splitlines():
        # an agent for each line, because the lines have nothing to do with each other
        clerk = ReActAgent("Clerk", model, "You sort messages to a shop.", limits=LIMITS)
        ticket = clerk.call(line, output=Ticket).run().structured(Ticket)
        print(f"{'!' if ticket.urgent else ' '} {ticket.topic:9} {ticket.order or '-':>4}  {line[:50]}")


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "data" / "inbox.txt")
    except AgentScopeError as error:
        sys.exit(f"error: {error}")
