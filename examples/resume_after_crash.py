"""A process is killed in the midst of a run, and another one goes on from its last checkpoint.

Look at: `checkpoint="stage"`, and what the second process does not do: it does not read the balance again, and it does
not send the money again by itself. That call is in doubt, and a person who can look into the bank's list decides. (The
first process is killed by SIGKILL before the bank has answered.)

    python examples/resume_after_crash.py
    AGENTSCOPE_RX_MODEL=openai:gpt-5-mini python examples/resume_after_crash.py
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from agentscope_rx import Approve, JsonSession, Msg, ReActAgent, ToolResultBlock, tool
from agentscope_rx.events import PreCallEvent
from agentscope_rx.testing import ScriptedModel, call


def bank(folder: Path, script: ScriptedModel) -> ReActAgent:
    model = os.environ.get("AGENTSCOPE_RX_MODEL") or script
    sent = folder / "sent"

    @tool(read_only=True)
    async def balance() -> str:
        """The balance of the account."""
        print("  (the balance is read)", flush=True)
        return "100 EUR"

    @tool
    async def transfer(amount: int, to: str) -> str:
        """Send money.

        Args:
            amount: In euros.
            to: Who gets it.
        """
        print(f"  (sent: {amount} to {to})", flush=True)
        sent.write_text(f"{amount} to {to}")
        # the process ends here: the money is sent, and no one knows
        os.kill(os.getpid(), signal.SIGKILL)
        return "ok"

    return ReActAgent("Bank", model, "You send money.", tools=[balance, transfer])


async def first_process(folder: Path) -> None:
    model = ScriptedModel(call("balance"), call("transfer", amount=40, to="the bakery"))
    agent = bank(folder, model)
    await agent.bind(JsonSession(folder / "sessions"), "ann", checkpoint="stage")
    await agent.call("Send 40 euros to the bakery, if I have them.")


async def second_process(folder: Path) -> None:
    agent = bank(folder, ScriptedModel("I have sent 40 euros to the bakery."))
    await agent.bind(JsonSession(folder / "sessions"), "ann", checkpoint="stage")
    reply = None
    async for event in agent.stream():
        if isinstance(event, PreCallEvent) and event.resumes is not None:
            print(f"goes on from round {event.resumes.iteration} of the run that was killed")
        reply = getattr(event, "message", reply)
    assert reply is not None
    for waiting in reply.pending_calls:
        done = (folder / "sent").exists()
        print(f"in doubt: {waiting.name}({dict(waiting.input)}); the bank's list says {'sent' if done else 'not sent'}")
        result = Msg.tool([ToolResultBlock.of(waiting, "ok, it was sent")])
        reply = await agent.call(result if done else Approve(waiting))
    print("Bank:", reply.text)


def main() -> None:
    if len(sys.argv) > 1:
        asyncio.run(first_process(Path(sys.argv[1])))
        return
    with tempfile.TemporaryDirectory() as name:
        killed = subprocess.run([sys.executable, __file__, name], check=False)  # noqa: S603
        print(
            f"the first process has ended by signal {-killed.returncode}" if killed.returncode else "nothing was sent"
        )
        asyncio.run(second_process(Path(name)))


if __name__ == "__main__":
    main()
