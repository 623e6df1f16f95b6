"""`Ledger`: what the tools have really done, by call, in a world that outlives every process; and the tools."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tenacity import wait_fixed

from agentscope_rx import Toolkit, ToolSuspend, tool
from agentscope_rx.models.options import ExecutionConfig, ToolSchema
from agentscope_rx.tools import Rate, Tool, ToolContext, WrapperTool

EXTERNAL = "ask"
UNKNOWN = "nobody"
META = "reset_equipped_tools"
GROUP = "more"


@dataclass(frozen=True)
class Interrupt:
    """How a tool interrupts its run."""

    run: Callable[[], object]


class Ledger:
    """Counts, by call id: what has begun, what has taken effect, with which arguments."""

    def __init__(self) -> None:
        self.begun = Counter[str]()
        self.ended = Counter[str]()
        self.suspended = Counter[str]()
        self.tool: dict[str, str] = {}
        self.given: dict[str, int] = {}
        self.approved: set[str] = set()
        """Calls that were approved."""
        self.approved_tools: set[str] = set()

    @classmethod
    def of(cls, context: ToolContext) -> Ledger:
        """The ledger of the script that is played."""
        return context.runtime.require(cls)

    def begin(self, context: ToolContext, n: int) -> str:
        """A tool's body is entered."""
        call = context.call
        self.begun[call.id] += 1
        self.tool[call.id] = call.name
        self.given[call.id] = n
        return call.id

    def end(self, id: str) -> str:
        """A tool's body has done its work; this is what it says."""
        self.ended[id] += 1
        return self.said(id)

    def said(self, id: str) -> str:
        """What a tool says of its work."""
        return f"{self.tool[id]} has done {id} with {self.given[id]}"

    def suspend(self, id: str) -> ToolSuspend:
        """The call is to wait."""
        self.suspended[id] += 1
        return ToolSuspend(f"{id} waits")


@tool
async def quick(context: ToolContext, n: int = 0) -> str:
    ledger = Ledger.of(context)
    return ledger.end(ledger.begin(context, n))


@tool
async def slow(context: ToolContext, n: int = 0) -> str:
    ledger = Ledger.of(context)
    id = ledger.begin(context, n)
    try:
        await asyncio.sleep(1)
        return ledger.end(id)
    finally:
        await asyncio.sleep(0.25)


@tool
def worker(context: ToolContext, n: int = 0) -> str:
    ledger = Ledger.of(context)
    return ledger.end(ledger.begin(context, n))


@tool
async def broken(context: ToolContext, n: int = 0) -> str:
    ledger = Ledger.of(context)
    ledger.begin(context, n)
    await asyncio.sleep(0.25)
    raise ValueError("broken")


@tool
async def once(context: ToolContext, n: int = 0) -> str:
    ledger = Ledger.of(context)
    id = ledger.begin(context, n)
    await asyncio.sleep(0.25)
    if not ledger.suspended[id]:
        raise ledger.suspend(id)
    return ledger.end(id)


@tool
async def never(context: ToolContext, n: int = 0) -> str:
    ledger = Ledger.of(context)
    raise ledger.suspend(ledger.begin(context, n))


@tool(requires_approval=True)
async def risky(context: ToolContext, n: int = 0) -> str:
    ledger = Ledger.of(context)
    id = ledger.begin(context, n)
    await asyncio.sleep(0.5)
    return ledger.end(id)


@tool(requires_approval=lambda arguments: arguments["n"] > 0)
async def pay(context: ToolContext, n: int = 0) -> str:
    ledger = Ledger.of(context)
    return ledger.end(ledger.begin(context, n))


@tool(interruptible=False)
async def stubborn(context: ToolContext, n: int = 0) -> str:
    ledger = Ledger.of(context)
    id = ledger.begin(context, n)
    await asyncio.sleep(1)
    return ledger.end(id)


@tool
async def count(context: ToolContext, n: int = 0):
    ledger = Ledger.of(context)
    id = ledger.begin(context, n)
    for number in range(3):
        await asyncio.sleep(0.25)
        yield f"{number}"
    yield ledger.end(id)


@tool(execution_config=ExecutionConfig(max_attempts=2, wait=wait_fixed(0.25)))
async def flaky(context: ToolContext, n: int = 0) -> str:
    ledger = Ledger.of(context)
    id = ledger.begin(context, n)
    if ledger.begun[id] == 1:
        raise ConnectionError("flaky")
    return ledger.end(id)


@tool(execution_config=ExecutionConfig(timeout=0.5))
async def late(context: ToolContext, n: int = 0) -> str:
    ledger = Ledger.of(context)
    id = ledger.begin(context, n)
    await asyncio.sleep(1)
    return ledger.end(id)


@tool
async def stopper(context: ToolContext, n: int = 0) -> str:
    ledger = Ledger.of(context)
    id = ledger.begin(context, n)
    context.runtime.require(Interrupt).run()
    await asyncio.sleep(0.25)
    return ledger.end(id)


_TOOLS = (quick, slow, worker, broken, once, never, risky, pay, stubborn, count, flaky, late, stopper)
_GROUPED = (slow, once, pay, count)
_SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}


_KITS: dict[str, dict[str, Any]] = {
    "siblings": {"on_failure": "cancel_siblings"},
    "narrow": {"max_concurrency": 2},
    "total": {"max_concurrency_total": 1},
}
_OF_EACH: dict[str, tuple[str, object]] = {
    "permits": ("max_concurrency", 1),
    "rates": ("rate", Rate(1, per=0.8)),
    "alone": ("exclusive", True),
}


def _limited(each: Tool, kit: str) -> Tool:
    if kit not in _OF_EACH:
        return each
    wrapper = WrapperTool(each)
    setattr(wrapper, *_OF_EACH[kit])
    return wrapper


def toolkit(*, parallel: bool, kit: str = "") -> Toolkit:
    """One tool of each kind; each writes down what it does, in the ledger that the call's context brings."""
    made = Toolkit(parallel=parallel, **_KITS.get(kit, {}))
    if kit == "groups":
        made.create_tool_group(GROUP, "More of them.")
        made.register_meta_tool()
    for each in _TOOLS:
        made.register(_limited(each, kit), group=GROUP if kit == "groups" and each in _GROUPED else None)
    made.register_schema(ToolSchema(EXTERNAL, "Asks somebody.", _SCHEMA))
    return made


TOOLS = (*(each.name for each in _TOOLS), EXTERNAL, UNKNOWN, META)
