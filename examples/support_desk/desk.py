"""The agent of the desk: its tools, and which of their calls a person has to approve.

Look at: `requires_approval=expensive`, which makes a call wait, and `ToolContext`, by which a tool knows for whom it
works. The model cannot name another customer, because the name is no argument. `refund` pays an order once, even if a
customer asks twice or a run is repeated.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

from agentscope_rx import ReActAgent, ToolContext, UsageLimits, tool
from agentscope_rx.testing import ScriptedModel, ScriptedRequest, call
from agentscope_rx.testing.scripted_model import Reply

ORDERS = {
    7: {"customer": "ann", "item": "teapot", "price": 120, "state": "delivered"},
    8: {"customer": "bob", "item": "cup", "price": 15, "state": "delivered"},
    9: {"customer": "bob", "item": "kettle", "price": 60, "state": "on its way"},
}
FREE_UP_TO = 50
"""In euros: what is paid back without a person."""


def expensive(arguments: Mapping[str, object]) -> bool:
    """Which refunds a person approves."""
    order = ORDERS.get(int(str(arguments["order"])))
    return order is None or int(str(order["price"])) > FREE_UP_TO


def desk(folder: Path) -> ReActAgent:
    """The agent for all conversations; refunds are written to a file in the folder."""
    paid = folder / "refunds.jsonl"

    @tool(read_only=True)
    async def find_order(order: int, context: ToolContext) -> str:
        """Look up an order of the customer.

        Args:
            order: Its number.
        """
        found = ORDERS.get(order)
        if found is None or found["customer"] != context.runtime.user_id:
            return f"This customer has no order {order}."
        return f"Order {order}: a {found['item']} for {found['price']} euros, {found['state']}."

    @tool(requires_approval=expensive)
    async def refund(order: int, reason: str, context: ToolContext) -> str:
        """Pay an order of the customer back.

        Args:
            order: Its number.
            reason: Why, in a few words, for the person who approves it.
        """
        found = ORDERS.get(order)
        if found is None or found["customer"] != context.runtime.user_id:
            return f"This customer has no order {order}."
        if order in paid_orders(paid):
            return f"Order {order} was paid back before."
        with paid.open("a", encoding="utf-8") as file:
            print(json.dumps({"order": order, "to": found["customer"], "euros": found["price"]}), file=file)
        return f"{found['price']} euros are on their way."

    model = os.environ.get("AGENTSCOPE_RX_MODEL") or ScriptedModel(clerk, repeat=True)
    prompt = "You are the support desk of a shop. Look at the order before you pay it back. Answer in two sentences."
    return ReActAgent(
        "Desk", model, prompt, tools=[find_order, refund], limits=UsageLimits(model_calls=10, deadline=120)
    )


def paid_orders(file: Path) -> set[int]:
    """The orders that were paid back."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return {json.loads(line)["order"] for line in lines}


def clerk(request: ScriptedRequest) -> Reply:
    """What answers without a key: rules that know the words of a complaint."""
    last, words = request.messages[-1], request.messages
    asked = next(each.text for each in reversed(words) if each.role == "user")
    number = re.search(r"\d+", asked)
    if not last.tool_results:
        return call("find_order", order=int(number[0])) if number else "Which order is it about?"
    result = last.tool_results[0]
    if result.name == "refund":
        return f"I am sorry: {result.text}" if result.is_error else f"It is done: {result.text}"
    if number and "euros" in result.text and re.search("broken|back", asked):
        return ["I see. ", call("refund", order=int(number[0]), reason=asked[:60])]
    return result.text
