"""`EffectJournal`: the tool calls of a run in progress that have begun, written before their effects.

    begin     {"call", "tool", "input", "key", "run", "at"}     stored before the tool begins
    end       {"call", "at", "result", "number", "parts"}       stored before the result is shown or remembered

    in the journal           after a crash the call
    ended                    gets the recorded result; it is not run again
    begun, without its end   is in doubt: the policy of its tool or of the agent decides, or the caller
    not there                has not begun, or may be run again: it runs

A save of the conversation drops the calls whose results are in the memory that it saves. The journal is the list
"journal" of the conversation's session, and belongs to all runs of it, those of sub-agents included: a call is known by
its path, such as "p/c" for the call c of the sub-agent that call p has begun.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import NamedTuple, NotRequired

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from agentscope_rx.agent.saved_copy import SavedCopy
from agentscope_rx.errors import SavedStateError
from agentscope_rx.messages import ToolResultBlock, ToolUseBlock
from agentscope_rx.messages.blocks import IN_DOUBT
from agentscope_rx.messages.frozen import thaw
from agentscope_rx.parts import PartState
from agentscope_rx.reactive import Flow, catch, concat_map, defer, just, shield, throw
from agentscope_rx.session.history import JOURNAL


class JournalItem(TypedDict):
    """One item of the list: the beginning of a call if it has `tool`, else its end. `waits`: it is suspended.

    `parts` are the states of parts that have changed since the end before, which has a smaller `number`.
    """

    call: str
    at: str
    tool: NotRequired[str]
    input: NotRequired[dict[str, object]]
    key: NotRequired[str]
    run: NotRequired[str]
    answered: NotRequired[bool]
    result: NotRequired[ToolResultBlock]
    waits: NotRequired[bool]
    number: NotRequired[int]
    parts: NotRequired[dict[str, dict[str, object] | None]]


@cache
def _adapter() -> TypeAdapter[list[JournalItem]]:
    # built on first use: it costs more than importing the module
    return TypeAdapter(list[JournalItem])


class SettledParts(NamedTuple):
    """The states of parts as a checkpoint saves them: as they were at the last stage, or at this end since.

    A call in progress may have changed one: it has not ended, and may run again.
    """

    at: int
    states: Mapping[str, PartState]


@dataclass(slots=True)
class Effect:
    """One call that has begun. `answered`: the caller has decided about its doubt. `earlier`: by another process."""

    begun: JournalItem
    answered: bool = False
    ended: JournalItem | None = None
    earlier: bool = False

    @property
    def result(self) -> ToolResultBlock | None:
        """The result of the call, if its end is known."""
        return None if self.ended is None else self.ended.get("result")

    @property
    def in_doubt(self) -> bool:
        """True if it is not known if the call has ended, and nothing was decided about that."""
        return self.ended is None and not self.answered


@dataclass(slots=True, eq=False)
class _Queued:
    """Items that wait for their write."""

    items: tuple[JournalItem, ...]
    written: bool = False


class EffectJournal:
    """The calls that have begun and whose results no saved memory has."""

    __slots__ = ("_queue", "_stored", "effects", "ends")

    def __init__(self, effects: Mapping[str, Effect] | None = None, *, stored: bool = False) -> None:
        self.effects: dict[str, Effect] = dict(effects or {})
        """By path."""
        self.ends: int = 0
        """The number of the last end that has changed a part."""
        self._stored = stored
        """True if the list in the session may have items."""
        self._queue: list[_Queued] = []

    def find(self, path: str) -> Effect | None:
        """The call of this path, if a run of an earlier process has begun it: the present runs know their own."""
        effect = self.effects.get(path)
        return effect if effect is not None and effect.earlier else None

    def marked(self, call: ToolUseBlock) -> ToolUseBlock:
        """The call as a caller sees it, by the id that is its path: `in_doubt` is true if it is."""
        effect = self.find(call.id)
        return call.replace(metadata={**call.metadata, IN_DOUBT: True}) if effect and effect.in_doubt else call

    def answer(self, path: str) -> None:
        """The caller has decided about this call."""
        effect = self.effects.get(path)
        if effect is not None:
            effect.answered = True

    # --- writes ---------------------------------------------------------------------------------------------------

    def begin(self, copy: SavedCopy, path: str, begun: JournalItem) -> Flow[None]:
        """Store the beginning of a call. Beginnings that wait for the same turn are stored by one save.

        Signals: one None when it is stored; a `SessionError`.
        Cancels: nothing: the write, once begun, runs to its end.
        """

        def write() -> Flow[None]:
            self.effects[path] = Effect(begun)
            return self._append(copy, begun)

        return defer(write)

    def end(
        self,
        copy: SavedCopy,
        path: str,
        result: ToolResultBlock,
        begun: JournalItem,
        parts: Mapping[str, dict[str, object] | None] | None = None,
    ) -> Flow[None]:
        """Store the end of a call, now, with the states of `parts` that it has changed.

        Nothing is stored for one that was not stored as begun, and has changed none. A call that `waits` has not begun.

        Signals and cancels: as `begin`.
        """
        effect = self.effects.get(path)
        items: list[JournalItem] = []
        if effect is None:
            if not parts:
                return just(None)
            effect = self.effects[path] = Effect(begun)
            items.append(begun)
        ended: JournalItem = {"call": path, "at": now()}
        if result.kind is not None and result.kind.waits:
            ended["waits"] = True
            del self.effects[path]
        else:
            ended["result"] = result
            if parts:
                self.ends += 1
                ended["number"], ended["parts"] = self.ends, dict(parts)
            effect.ended = ended
        return self._append(copy, *items, ended)

    def ended(self) -> list[tuple[str, JournalItem]]:
        """The ends that have changed a part, in order, with their paths."""
        found = [(path, each.ended) for path, each in self.effects.items() if each.ended and "number" in each.ended]
        return sorted(found, key=lambda each: each[1].get("number", 0))

    def _append(self, copy: SavedCopy, *items: JournalItem) -> Flow[None]:
        queued = _Queued(items)

        def flush() -> Flow[None]:
            if queued.written:
                return just(None)
            group = list(dict.fromkeys((*self._queue, queued)))
            self._queue.clear()
            self._stored = True

            def done(_: object) -> None:
                for each in group:
                    each.written = True

            def failed(error: Exception) -> Flow[None]:
                # each of the others tries it in its own turn
                self._queue.extend(each for each in group if each is not queued)
                return throw(error)

            return copy.append(JOURNAL, dump_items([item for each in group for item in each.items])).pipe(
                concat_map(done), catch(failed)
            )

        self._queue.append(queued)
        return shield(copy.turn.around(defer(flush)))

    # --- with a save of the conversation --------------------------------------------------------------------------

    def keep(self, open: Collection[str] | None) -> list[object] | None:
        """Forget the calls that are not open in what is being saved; gives the items to store, None for no change.

        With None the open calls are not known: all are kept.
        """
        if open is not None:
            self.effects = {path: effect for path, effect in self.effects.items() if path in open}
        if not self._stored and not self.effects:
            return None
        items: list[JournalItem] = []
        for effect in self.effects.values():
            items.append({**effect.begun, "answered": True} if effect.answered else effect.begun)
            if effect.ended is not None:
                items.append(effect.ended)
        return dump_items(items)

    def saved(self) -> None:
        """What `keep` gave is stored."""
        self._stored = bool(self.effects)


def dump_items(items: Sequence[JournalItem]) -> list[object]:
    """The items as plain JSON."""
    return list(_adapter().dump_python([*items], mode="json"))


def read_journal(
    key: str, items: Sequence[object], files: dict[str, object], open: Collection[str] | None
) -> EffectJournal:
    """The journal that the session holds, of the calls that are open; `SavedStateError` if an item is none."""
    try:
        read = _adapter().validate_python(list(items), context=files)
    except ValidationError as error:
        raise SavedStateError(key, f"entry {JOURNAL!r} is not a journal of tool calls: {error}") from error
    effects: dict[str, Effect] = {}
    for item in read:
        path = item["call"]
        if "tool" in item:
            effects[path] = Effect(item, item.get("answered", False), earlier=True)
        elif path in effects and item.get("waits"):
            del effects[path]
        elif path in effects:
            effects[path].ended = item
    kept = effects if open is None else {path: effect for path, effect in effects.items() if path in open}
    journal = EffectJournal(kept, stored=True)
    journal.ends = max((item.get("number", 0) for item in read), default=0)
    return journal


def begun_item(path: str, tool: str, input: Mapping[str, object], key: str, run_id: str) -> JournalItem:
    """The beginning of a call."""
    return {"call": path, "at": now(), "tool": tool, "input": dict(thaw(input)), "key": key, "run": run_id}


def now() -> str:
    """The time of an item."""
    return datetime.now(UTC).isoformat()
