"""What the tests of long-term memory share: a memory that does what it is told, and models that distil."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from reactivex import operators as ops

from agentscope_rx import Msg, ReActAgent, ToolUseBlock
from agentscope_rx.long_term_memory import LongTermMemory, MemoryScope, Note, NoteSource
from agentscope_rx.reactive import Flow, defer, just
from agentscope_rx.testing import ScriptedModel, ScriptedRequest, call


class Told(LongTermMemory):
    """Finds `notes`, and keeps what it is asked; `before` may return a flow that a call waits for, or raise."""

    def __init__(self, *notes: str, before: Callable[[str], Flow[Any] | None] = lambda what: None) -> None:
        self.notes = tuple(Note(text=text, id=f"n{number}", score=1 / number) for number, text in enumerate(notes, 1))
        self.before = before
        self.recorded: list[list[str]] = []
        self.sources: list[NoteSource | None] = []
        self.asked: list[str] = []
        self.scopes: list[MemoryScope | None] = []

    def record(
        self, messages: Sequence[Msg], *, scope: MemoryScope | None = None, source: NoteSource | None = None
    ) -> Flow[None]:
        def record(_: object) -> None:
            self.recorded.append([f"{each.role.value}: {each.text}" for each in messages])
            self.sources.append(source)
            self.scopes.append(scope)

        return self._after("record", record)

    def retrieve(self, query: Any, limit: int = 5, *, scope: MemoryScope | None = None) -> Flow[tuple[Note, ...]]:
        def retrieve(_: object) -> tuple[Note, ...]:
            self.asked.append(query)
            self.scopes.append(scope)
            return self.notes[:limit]

        return self._after("retrieve", retrieve)

    def _after(self, what: str, act: Callable[[object], Any]) -> Flow[Any]:
        return defer(lambda: (self.before(what) or just(None)).pipe(ops.map(act)))


def agent(model: ScriptedModel, **options: Any) -> ReActAgent:
    """An agent named Friday."""
    return ReActAgent("Friday", model, "You are Friday.", **options)


def sent(model: ScriptedModel, request: int = 0) -> list[str]:
    """The messages of a request, shortened."""
    return [f"{each.role.value}: {each.text}" for each in model.requests[request].messages]


def notes_in(model: ScriptedModel, request: int = 0) -> list[str]:
    """The messages of a request that hold notes."""
    return [text for text in sent(model, request) if "<long_term_memory>" in text]


def distil(request: ScriptedRequest) -> ToolUseBlock:
    """A turn for `ScriptedModel(distil, repeat=True)` that distils lines of the form `subject = sentence`.

    A new fact updates the first known one of the same subject; `subject = FORGET` deletes it.
    """
    text = request.messages[1].text
    if request.tools[0].name == "store_facts":
        pairs = re.findall(r"(\w[\w ]*) = (.*)", text)
        return call("store_facts", facts=[{"subject": subject, "text": sentence} for subject, sentence in pairs])
    new, known = text.split("</new_facts>")
    old: dict[str, str] = {}
    for match in re.finditer(r"^(k\d+)\. \[(.*?)\]", known, re.MULTILINE):
        old.setdefault(match[2], match[1])
    operations: list[dict[str, Any]] = []
    for match in re.finditer(r"^(\d+)\. \[(.*?)\] (.*)$", new, re.MULTILINE):
        fact: dict[str, Any] = {"fact": int(match[1]), "action": "add"}
        if match[2] in old:
            fact |= {"action": "delete" if match[3] == "FORGET" else "update", "id": old[match[2]]}
        operations.append(fact)
    return call("update_memory", operations=operations)
