"""A person approves what an agent is about to do, in a later process if need be.

Look at: `requires_approval=large`, a function of the arguments, which are checked already; and `second_process`, which
knows no more than the session's file: `agent.call()` without input goes on with what waits. (Here both are this one.)

    python examples/approval.py              the person's answers are in the script, too
    python examples/approval.py --terminal   you are asked; an empty line approves, anything else is the reason not to
    AGENTSCOPE_RX_MODEL=openai:gpt-5-mini python examples/approval.py
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Mapping

from agentscope_rx import Approve, JsonSession, ReActAgent, Reject, ToolUseBlock, tool
from agentscope_rx.testing import ScriptedModel, call
from agentscope_rx.testing.scripted_model import Turn

ANSWERS = {"the bakery": "", "the casino": "not without a second signature"}


def large(arguments: Mapping[str, object]) -> bool:
    """Which transfers a person has to see; these are the arguments as the tool gets them, checked already."""
    amount = arguments["amount"]
    return isinstance(amount, int) and amount >= 10


@tool(requires_approval=large)
async def transfer(amount: int, to: str) -> str:
    """Send money.

    Args:
        amount: In euros.
        to: Who gets it.
    """
    print(f"  (sent: {amount} to {to})")
    return f"ok: {amount} sent to {to}"


def bank(*script: Turn) -> ReActAgent:
    model = os.environ.get("AGENTSCOPE_RX_MODEL") or ScriptedModel(*script)
    return ReActAgent("Bank", model, "You send money.", tools=[transfer])


def ask(waiting: ToolUseBlock) -> Approve | Reject:
    """What the person says; it may come at any time, from anywhere: a web page, a chat, another process."""
    question = f"send {waiting.input['amount']} to {waiting.input['to']}? "
    if "--terminal" in sys.argv:
        reason = input(question)
    else:
        reason = ANSWERS.get(str(waiting.input["to"]), "")
        print(f"{question}{reason or 'yes'}")
    return Reject(waiting, reason) if reason else Approve(waiting)


async def first_process(session: JsonSession) -> None:
    wanted = [
        call("transfer", amount=3, to="the florist"),
        call("transfer", amount=40, to="the bakery"),
        call("transfer", amount=9000, to="the casino"),
    ]
    agent = bank(wanted)
    await agent.bind(session, "ann")
    reply = await agent.call("Pay the florist 3, the bakery 40 and the casino 9000.")
    print(f"{reply.generate_reason.value}: {len(reply.pending_calls)} calls wait")


async def second_process(session: JsonSession) -> None:
    agent = bank("Florist and bakery have their money; the casino has not.")
    await agent.bind(session, "ann")
    reply = await agent.call()  # no input: what is pending; a call that needs approval asks again
    while reply.pending_calls:
        reply = await agent.call([ask(waiting) for waiting in reply.pending_calls])
    print(f"reply: {reply.text}")

    for message in await agent.memory.get():
        for result in message.tool_results:
            print(f"  {result.kind.value if result.kind else 'done'}: {result.text}")


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        await first_process(JsonSession(folder))
        await second_process(JsonSession(folder))


if __name__ == "__main__":
    asyncio.run(main())
