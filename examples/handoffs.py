"""A desk of three agents with one conversation: each answers what is its own, and transfers the rest, with approval.

    python examples/handoffs.py

The models are scripted, so that it runs offline; put `OpenAIChatModel(...)` in their place and it is a real one.
"""

from __future__ import annotations

import asyncio

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
    return Handoffs(
        "Desk",
        [
            ReActAgent("Triage", triage, "You find out what it is about.", tools=[find_order]),
            Handoff(
                ReActAgent("Refunds", refunds, "You pay back what was broken.", tools=[refund]),
                description="For money that is to be paid back.",
                history=texts_only,
                requires_approval=True,
            ),
            ReActAgent("Sales", ScriptedModel(), "You sell."),
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
    await first.call("My teapot came broken. Order 7.")
    [waiting] = await first.pending_calls()
    print(f"approve {waiting.name}? yes, says Ann ({first.active().name} is active)")
    reply = await first.call(Approve(waiting))
    show(reply.name, reply)
    await first.save(session, "ann")

    # another process: who was active answers
    second = desk(ScriptedModel(), ScriptedModel("By Friday."))
    await second.load(session, "ann")
    print("user: When will it be there?")
    reply = await second.call("When will it be there?")
    show(reply.name, reply)

    model = second.active().model
    assert isinstance(model, ScriptedModel)
    print("Refunds has seen:")
    for message in model.requests[0].messages:
        blocks = ", ".join(block.type for block in message.content)
        print(f"  {message.role}: {message.text or f'({blocks})'}")


if __name__ == "__main__":
    asyncio.run(main())
