"""Which measurements are made, of which size, and how the page shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

OURS = ("bare", "engine")
SIDES = {
    "bare": "bare loop",
    "engine": "agentscope_rx",
    "agentscope-2": "AgentScope 2",
    "agentscope-1": "AgentScope 1",
    "pydantic-ai": "pydantic-ai",
    "openai-agents": "openai-agents",
    "langgraph": "langgraph",
    "strands": "strands",
    "smolagents": "smolagents",
}
"""All sides, and their names on the page."""
CORE = "core"
"""The engine in an environment with nothing but what it requires: for the time of its import."""
OPTIONAL = frozenset({"agentscope-1"})
"""Sides that are measured when they are asked for only: the old version of another one."""

Shown = Literal["ratio", "value"]


@dataclass(frozen=True, slots=True)
class Row:
    """One kind of work, of several sizes."""

    case: str
    title: str
    unit: str
    counts: tuple[int, ...]
    shown: Shown = "ratio"
    """Beside the bare loop's value: how many times as much, or the value."""
    ours: tuple[int, ...] = ()
    """Further sizes for the engine and the bare loop alone."""
    only_ours: bool = False
    once: bool = False
    """The same in each round, so it is measured in the first one only."""
    drawn: tuple[int, ...] = ()
    """Sizes for the picture alone, if larger ones were measured."""
    plotted: str = ""
    """What the page's picture of it counts."""

    def sizes(self, side: str) -> tuple[int, ...]:
        """The sizes for this side."""
        if side in OURS:
            return self.counts + self.ours
        return () if self.only_ours else self.counts


FULL = (
    Row("turns", "a turn", "us", (10, 100, 500), ours=(10_000,), plotted="turns of a run"),
    Row(
        "chunks", "a chunk, `async for`", "us", (100, 1_000, 20_000), drawn=(100, 1_000), plotted="chunks of an answer"
    ),
    Row("subscribed", "a chunk, subscribed", "us", (20_000,), only_ours=True),
    Row("agents", "an agent at once", "us", (100, 1_000, 5_000), drawn=(100,), plotted="agents at once"),
    Row("http_turns", "a turn over HTTP", "us", (10, 100)),
    Row("http_chunks", "a chunk over HTTP", "us", (2_000,)),
    Row("http_agents", "an agent at once over HTTP", "us", (200,)),
    Row("readers", "a chunk to 100 readers", "us", (1_000,), only_ours=True),
    Row("subscribers", "a chunk to 100 subscribers", "us", (1_000,), only_ours=True),
    Row("start", "import", "ms", (1,)),
    Row("first", "first chunk, elapsed", "us", (200,), "value"),
    Row("tools", "64 tools of 50 ms, elapsed", "ms", (64,), "value"),
    Row("live", "memory of an agent", "KB", (1_000, 5_000), "value", once=True),
    Row("memory", "peak memory of a turn", "KB", (500,), "value", ours=(10_000,), once=True),
    Row("ahead", "chunks ahead of a reader that stands still", "", (5_000,), "value", once=True),
)

_SMALL: Mapping[str, tuple[int, ...]] = {
    "turns": (10, 100),
    "chunks": (100, 1_000),
    "subscribed": (1_000,),
    "agents": (10, 100),
    "http_turns": (10,),
    "http_chunks": (200,),
    "http_agents": (20,),
    "readers": (100,),
    "subscribers": (100,),
    "first": (20,),
    "live": (100,),
    "memory": (100,),
}
QUICK = tuple(
    Row(
        row.case,
        row.title,
        row.unit,
        _SMALL.get(row.case, row.counts),
        row.shown,
        only_ours=row.only_ours,
        once=row.once,
        plotted=row.plotted,
    )
    for row in FULL
)
"""All measurements in a small form, to see that they work."""


def sides(also: Sequence[str] = (), only: Sequence[str] = ()) -> list[str]:
    """The sides to measure; the bare loop and the engine always are."""
    if unknown := {*also, *only} - SIDES.keys():
        raise ValueError(f"No side {', '.join(sorted(unknown))}. Known: {', '.join(SIDES)}")
    wanted = {*OURS, *only} if only else {*(SIDES.keys() - OPTIONAL), *also}
    return [name for name in SIDES if name in wanted]
