"""What the tests of memory files share: a model that notes and distils."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from datetime import UTC
from pathlib import Path
from typing import Any

from agentscope_rx import ToolUseBlock
from agentscope_rx.testing import ScriptedModel, ScriptedRequest, call
from agentscope_rx.workspace import MemoryFilesHook
from tests.workspace.parts import Clock

TODAY = "memory/2100-03-04.md"
Answer = str | ToolUseBlock | Exception | Sequence[Any]


def facts(*texts: str) -> ToolUseBlock:
    """The answer of a model that has found these facts."""
    return call("store_facts", facts=[{"text": text, "subject": "s"} for text in texts])


def memory(text: str) -> str:
    """The answer of a model that has distilled."""
    return f"<memory_file>\n{text}\n</memory_file>"


class Gate:
    """A step of a model on any loop: it waits until the gate is opened."""

    def __init__(self, answer: Answer = "") -> None:
        self.begun = threading.Event()
        self.open = threading.Event()
        self.answer = answer

    async def __call__(self, request: object) -> Answer:
        self.begun.set()
        assert await asyncio.to_thread(self.open.wait, 20)
        return self.answer


class Keeper:
    """A model for memory files, and what it is asked: `noted` are the conversations, `distilled` the files."""

    def __init__(
        self,
        note: Callable[[str], Answer | Gate] = lambda text: facts(f"fact {text.count('user):')}"),
        distill: Callable[[str], Answer | Gate] = lambda text: memory("- all facts"),
    ) -> None:
        self.noted: list[str] = []
        self.distilled: list[str] = []

        async def answer(request: ScriptedRequest) -> Answer:
            asked = request.messages[-1].text
            (self.noted if request.tools else self.distilled).append(asked)
            given = (note if request.tools else distill)(asked)
            return await given(request) if isinstance(given, Gate) else given

        self.model = ScriptedModel(*([answer] * 200))


def hook(root: Path, keeper: Keeper, **options: Any) -> MemoryFilesHook:
    """A hook with a clock of its own."""
    return MemoryFilesHook(root, keeper.model, **{"clock": Clock(), "zone": UTC, **options})


def text_of(root: Path, path: str) -> str:
    """The text of a file; "" if there is none."""
    file = root / path
    return file.read_text() if file.exists() else ""


def bullets(root: Path, path: str) -> list[str]:
    """The facts in a file."""
    return [line[2:] for line in text_of(root, path).splitlines() if line.startswith("- ")]
