"""Groups of tools: a model sees a few tools, and takes out the others when it needs them.

Look at: "offered", the tools that the model sees in each round. With `enable_meta_tool=True` it can activate a group by
`reset_equipped_tools`, and the choice holds for the conversation. The argument `currency` is a preset: the model
neither sees nor chooses it.

    python examples/tool_groups.py
    AGENTSCOPE_RX_MODEL=openai:gpt-5-mini python examples/tool_groups.py
"""

from __future__ import annotations

import os

from reactivex import Observable

from agentscope_rx import ReActAgent, Toolkit, hook, tool
from agentscope_rx.events import PostActingEvent
from agentscope_rx.hooks import ModelRequest, around
from agentscope_rx.models import ChatResponse
from agentscope_rx.testing import ScriptedModel, call


@tool(read_only=True)
async def stock(item: str) -> str:
    """How many of an item are in the shop."""
    return f"3 of {item}"


@tool
async def order(item: str, number: int) -> str:
    """Order from the wholesaler."""
    return f"{number} of {item} are ordered"


@tool(read_only=True)
async def price(item: str, currency: str) -> str:
    """What the wholesaler asks for an item."""
    return f"one {item}: 12 {currency}"


@around("model")
def offered(source: Observable[ChatResponse], request: ModelRequest) -> Observable[ChatResponse]:
    """Show the tools of each request."""
    print(f"  offered: {', '.join(tool.name for tool in request.tools)}")
    return source


@hook(PostActingEvent)
def done(event: PostActingEvent) -> None:
    """Show the result of each call."""
    print(f"  {event.tool_use.name}: {event.result.text.splitlines()[0]}")


def main() -> None:
    shop = Toolkit([stock])
    shop.create_tool_group("wholesale", "Prices and orders of the wholesaler.", notes="Look at the price first.")
    shop.register(price, group="wholesale", presets={"currency": "EUR"})
    shop.register(order, group="wholesale")
    script = ScriptedModel(
        call("stock", item="teapot"),
        call("reset_equipped_tools", to_activate=["wholesale"]),
        call("price", item="teapot"),
        call("order", item="teapot", number=5),
        "Five teapots for 60 euros are on their way.",
        "Yes, tomorrow.",
    )
    model = os.environ.get("AGENTSCOPE_RX_MODEL") or script
    agent = ReActAgent("Clerk", model, toolkit=shop, enable_meta_tool=True, hooks=[offered, done])
    for question in ("Do we have eight teapots? If not, order what is missing.", "Do they come soon?"):
        print(f"user: {question}")
        print(f"Clerk: {agent.call(question).run().text}")


if __name__ == "__main__":
    main()
