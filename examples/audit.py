"""An audit hook sees every event of a run, in order, after all other hooks, and writes one line of JSON for each.

Look at: `priority = 900`, which puts the hook behind all others, and the last line: the file, read back as events
(`event_from_json`) and folded, gives the reply. The hook sees the runs of all callers, and chooses what it writes;
`record(agent.stream(...), file)` writes all events of one run.

    python examples/audit.py [file]
    AGENTSCOPE_RX_MODEL=openai:gpt-5-mini python examples/audit.py
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TextIO

from agentscope_rx import Hook, ReActAgent, fold, tool
from agentscope_rx.events import ChunkEvent, Event, PostActingEvent, event_from_json
from agentscope_rx.testing import ScriptedModel, call


class Audit(Hook):
    """Writes what happens, chunks left out (they are a preview of what the Post events say)."""

    # behind all others: what is written is what they made of the event
    priority = 900

    def __init__(self, out: TextIO) -> None:
        self.out = out

    def on_event(self, event: Event) -> None:
        """Write the event; None leaves it as it is."""
        if not isinstance(event, ChunkEvent):
            print(event.to_json(), file=self.out, flush=True)


@tool
async def transfer(amount: int, to: str) -> str:
    """Sends money.

    Args:
        amount: How much, in euros.
        to: Who gets it.
    """
    if amount > 100:
        raise PermissionError("more than 100 needs a second signature")
    return f"{amount} sent to {to}"


def main(path: Path) -> None:
    """Make a run under audit, then tell it again from the file."""
    script = ScriptedModel(
        [call("transfer", amount=40, to="the bakery"), call("transfer", amount=4000, to="the casino")],
        "The bakery has its money; the casino needs a second signature.",
    )
    model = os.environ.get("AGENTSCOPE_RX_MODEL") or script
    with path.open("w", encoding="utf-8") as out:
        agent = ReActAgent("Friday", model, tools=[transfer], hooks=[Audit(out)])
        reply = agent.call("Pay the bakery 40 and the casino 4000.").run()
    print(f"reply: {reply.text}")

    events = [event_from_json(line) for line in path.read_text(encoding="utf-8").splitlines()]
    print(f"audited: {' '.join(event.type for event in events)}")
    for event in events:
        if isinstance(event, PostActingEvent):
            verdict = event.result.kind or "ok"
            print(f"  {event.tool_use.name}({dict(event.tool_use.input)}): {verdict}: {event.result.text}")
    print(f"the file tells the same reply: {fold(events).message == reply}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(Path(folder, "audit.jsonl"))
