"""What the measurements ask of a library: an agent around a model, called for its answer or read as a stream.

A library is measured as it is installed, with the options that its users would take: an agent holds one tool, `step`,
which returns a word, or `nap`, which takes 50 ms. Its model is a class of the library's own port that makes the
library's own values from a `Script`, or the library's own client of Chat Completions.

Imported in the environment of each library, so it needs the standard library alone.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from importlib import import_module

from benchmarks.script import Script

GO = "go"
ROUNDS = 1_000_000
"""More than any run takes."""
MODULES = {"bare": "benchmarks.compare.bare_side", "engine": "benchmarks.compare.engine_side"}


class Side(ABC):
    """A library. The first line of the class's docstring says what it does in addition, or less."""

    shares_agents = False
    """Whether one agent serves many runs at once: its users would not make one for each."""
    threads = False
    """Whether a run blocks, so that runs at once need a thread each."""

    @abstractmethod
    def scripted(self, script: Script) -> object:
        """A model that answers by the script at the least cost."""

    @abstractmethod
    def remote(self, url: str, name: str) -> object:
        """The library's client of Chat Completions at `url`, for the model of this name."""

    @abstractmethod
    def agent(self, model: object, tool: str = "step") -> object:
        """An agent with the model and one tool."""

    @abstractmethod
    async def call(self, agent: object) -> None:
        """One run, of which the final answer is wanted only."""

    @abstractmethod
    def pull(self, agent: object) -> AsyncIterator[str]:
        """One run, read as a stream: the pieces of the answer's text."""

    async def subscribe(self, agent: object) -> int:
        """The same through a subscription, where the library has such: the number of pieces."""
        raise NotImplementedError

    async def close(self) -> None:
        """Close the clients that `remote` has made, where the library leaves that to its users."""
        return

    async def readers(self, agent: object, count: int) -> int:
        """One run with as many readers that use `async for`, where the library has such: the pieces that they got."""
        raise NotImplementedError

    async def subscribers(self, agent: object, count: int) -> int:
        """The same with subscriptions in place of readers."""
        raise NotImplementedError


def side(name: str) -> Side:
    """The side of this name, in the environment of this process."""
    module = MODULES.get(name) or f"benchmarks.peers.{name.replace('-', '_')}"
    return import_module(module).SIDE


async def nap() -> str:
    """The tool that takes 50 ms."""
    await asyncio.sleep(0.05)
    return "ok"


def nap_in_thread() -> str:
    """The same for a library whose tools block."""
    time.sleep(0.05)
    return "ok"
