"""A desk of three agents with one conversation: each answers what is its own, and transfers the rest, with approval.

Look at: `Handoff(..., history=texts_only, requires_approval=True)`, and what Refunds has seen: the texts of the others
without their calls. Who is active is saved with the conversation, so that Refunds answers in another process, too.

    python examples/handoffs.py
    AGENTSCOPE_RX_MODEL=openai:gpt-5-mini python examples/handoffs.py
"""

from __future__ import annotations

import asyncio
import os

from agentscope_rx import Approve, InMemorySession, Msg, ReActAgent, tool
from agentscope_rx.pipeline import Handoff, Handoffs, texts_only
from agentscope_rx.testing import ScriptedModel, call


@tool
async def find_order(number: int) -> str:
    """Find an order."""
    return f"order {number}: a teapot, paid, broken on arrival"


@tool
async def refund(number: int) -> str:
    """Pay an order back."""
    return f"order {number} is paid back"


def desk(triage: ScriptedModel, refunds: ScriptedModel) -> Handoffs:
    real = os.environ.get("AGENTSCOPE_RX_MODEL")
    return Handoffs(
        "Desk",
        [
            ReActAgent("Triage", real or triage, "You find out what it is about.", tools=[find_order]),
            Handoff(
                ReActAgent("Refunds", real or refunds, "You pay back what was broken.", tools=[refund]),
                description="For money that is to be paid back.",
                history=texts_only,
                requires_approval=True,
            ),
            ReActAgent("Sales", real or ScriptedModel(), "You sell."),
        ],
    )


def show(who: str, reply: Msg) -> None:
    print(f"{who}: {reply.text}")


async def main() -> None:
    session = InMemorySession()
    first = desk(
        ScriptedModel([call("find_order", number=7)], ["Let me pass you on.", call("transfer_to_refunds")]),
        ScriptedModel(call("refund", number=7), "Your money is on its way."),
    )
    print("user: My teapot came broken. Order 7.")
    reply = await first.call("My teapot came broken. Order 7.")
    while waiting := await first.pending_calls():
        print(f"approve {waiting[0].name}? yes, says Ann ({first.active().name} is active)")
        reply = await first.call([Approve(each) for each in waiting])
    show(reply.name, reply)
    await first.save(session, "ann")

    # another process: who was active answers
    second = desk(ScriptedModel(), ScriptedModel("By Friday."))
    await second.load(session, "ann")
    print("user: When will it be there?")
    reply = await second.call("When will it be there?")
    show(reply.name, reply)

    model = second.active().model
    if isinstance(model, ScriptedModel):
        print("Refunds has seen:")
        for message in model.requests[0].messages:
            blocks = ", ".join(block.type for block in message.content)
            print(f"  {message.role}: {message.text or f'({blocks})'}")


if __name__ == "__main__":
    asyncio.run(main())
