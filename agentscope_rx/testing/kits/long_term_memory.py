"""`check_long_term_memory`: the laws of the `LongTermMemory` port.

The rules record short sentences with a rare word and search for that word. A memory that distils facts must be made
with a model that gives each sentence back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import cast

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.long_term_memory import LongTermMemory, MemoryScope, Note, NoteSource
from agentscope_rx.messages import Msg, TextBlock, ThinkingBlock
from agentscope_rx.testing.kits.probe import Probe
from agentscope_rx.testing.kits.publisher import apply_rules
from agentscope_rx.testing.kits.publisher_rules import Publisher
from agentscope_rx.testing.kits.rules import Kit, KitReport, check_factory, equal, name_of, raises, require
from agentscope_rx.testing.record import DroppedErrors

Make = Callable[[], LongTermMemory]
ANN, BOB = MemoryScope(user="ann"), MemoryScope(user="bob")
TEA = Msg.user("Quandrel tea is my favourite drink.")
CITY = Msg.user("I live in Vexholm by the sea.")
HOSTILE = ('"', "'", "a AND", "NEAR(", "text:*", "-x", "^", "(((", "%_", "\x00", "a" * 5000, "喝", "?", "\ud83d")


def check_long_term_memory(make: Make, *, name: str | None = None, real_time: bool = False) -> KitReport:
    """Check the memories that `make` returns; each call of it makes a new and empty one.

    The rules are the laws of `LongTermMemory`, and those of a publisher for `retrieve` and `record`.
    """
    check_factory(make, "LongTermMemory", "lambda: SqliteLongTermMemory(new_path())")
    kit = Kit(name or name_of(make), real_time=real_time)
    make = kit.named(make)
    for rule, law, check in LAWS:
        kit.check(rule, law, partial(check, make))
    apply_rules(kit, Publisher(lambda: make().retrieve("vexholm", scope=ANN), ahead=None), "retrieve ")
    apply_rules(kit, Publisher(lambda: make().record([TEA], scope=ANN), ahead=None), "record ")
    return kit.report()


async def _texts(memory: LongTermMemory, query: str, scope: MemoryScope | None = ANN, limit: int = 5) -> str:
    return "\n".join(note.text for note in await memory.retrieve(query, limit, scope=scope))


async def _finds(memory: LongTermMemory, word: str, scope: MemoryScope | None = ANN, limit: int = 5) -> None:
    found = await _texts(memory, word, scope, limit)
    require(word.lower() in found.lower(), f"{word!r} was recorded, and retrieve found {found!r:.200}")


async def _found(make: Make, dropped: DroppedErrors) -> None:
    memory = make()
    await memory.record([TEA, CITY], scope=ANN)
    await _finds(memory, "Quandrel")
    await _finds(memory, "Vexholm")
    for query in (Msg.user("Where is Vexholm?"), [Msg.user("Hello"), Msg.user("where is Vexholm?")]):
        notes = await memory.retrieve(query, scope=ANN)
        require(any("Vexholm" in note.text for note in notes), f"the query {query!r:.100} found {notes!r:.200}")


async def _nothing(make: Make, dropped: DroppedErrors) -> None:
    memory = make()
    equal(await memory.retrieve("anything", scope=ANN), (), "what an empty memory finds")
    await memory.record([], scope=ANN)
    await memory.record([Msg.user([]), Msg.assistant([ThinkingBlock("Quandrel")]), Msg.user("  ")], scope=ANN)
    equal(await memory.retrieve("Quandrel", scope=ANN), (), "what it finds after records without text")
    await memory.record([TEA], scope=ANN)
    for query in ("", "   ", Msg.user([]), ()):
        equal(await memory.retrieve(query, scope=ANN), (), f"what the query {query!r:.60} finds")


async def _one_signal(make: Make, dropped: DroppedErrors) -> None:
    memory = make()
    probe = await Probe().start(memory.record([TEA], scope=ANN)).end()
    equal((probe.values, probe.completed), ([None], True), "what record signals")
    found = await Probe().start(memory.retrieve("Quandrel", scope=ANN)).end()
    equal((len(found.values), found.completed), (1, True), "the number of signals of retrieve")
    require(isinstance(found.values[0], tuple), f"retrieve emitted {found.values[0]!r:.100}, not a tuple")


async def _cold(make: Make, dropped: DroppedErrors) -> None:
    memory = make()
    retrieve, record = memory.retrieve("Quandrel", scope=ANN), memory.record([TEA], scope=ANN)
    equal(await memory.retrieve("Quandrel", scope=ANN), (), "what it finds before record is subscribed to")
    await record
    require(await retrieve, "retrieve was made before the record and did not find it: it searched before subscription")


async def _notes(make: Make, dropped: DroppedErrors) -> None:
    memory = make()
    await memory.record([TEA], scope=ANN, source=NoteSource(run_id="r1", message_ids=(TEA.id,)))
    await memory.record([Msg.user("Quandrel leaves are green."), CITY], scope=ANN)
    notes = await memory.retrieve("Quandrel", scope=ANN)
    for note in cast("tuple[object, ...]", notes):
        require(isinstance(note, Note) and note.text.strip() and note.id, f"it found {note!r:.200}, not a whole Note")
    ids = [note.id for note in notes]
    require(len(set(ids)) == len(ids) >= 1, f"the ids of its notes are {ids}")
    scores = [note.score for note in notes]
    require(scores == sorted(scores, reverse=True), f"the notes are not in the order of their scores: {scores}")
    again = await memory.retrieve("Quandrel", scope=ANN)
    equal([note.id for note in again], ids, "the same search once more")


async def _limit(make: Make, dropped: DroppedErrors) -> None:
    memory = make()
    for word in ("red", "green", "blue", "brown"):
        await memory.record([Msg.user(f"Quandrel tea comes in {word} boxes.")], scope=ANN)
    for limit in (1, 2, 3):
        equal(len(await memory.retrieve("Quandrel", limit, scope=ANN)), limit, f"the notes with limit {limit}")
    require(len(await memory.retrieve("Quandrel", 50, scope=ANN)) <= 50, "more notes than the limit")


async def _invalid(make: Make, dropped: DroppedErrors) -> None:
    memory = make()

    async def retrieve(query: object, limit: object = 5) -> object:
        return await memory.retrieve(cast("str", query), cast("int", limit), scope=ANN)

    async def record(messages: object) -> object:
        return await memory.record(cast("list[Msg]", messages), scope=ANN)

    for limit in (0, -1, True, 2.5):
        await raises(retrieve("tea", limit), InvalidInputError, f"limit {limit!r}")
    for query in (7, ["tea"], None):
        await raises(retrieve(query), InvalidInputError, f"the query {query!r}")
    for messages in ("tea", ["tea"], 7):
        await raises(record(messages), InvalidInputError, f"record({messages!r})")


async def _users(make: Make, dropped: DroppedErrors) -> None:
    memory = make()
    await memory.record([TEA], scope=ANN)
    await memory.record([CITY], scope=BOB)
    await _finds(memory, "Quandrel", ANN)
    await _finds(memory, "Vexholm", BOB)
    for word, scope in (("Quandrel", BOB), ("Vexholm", ANN), ("Quandrel", MemoryScope(user="Ann "))):
        found = await _texts(memory, word, scope)
        require(word not in found, f"{scope.user} found what another user has said: {found!r:.100}")


async def _narrow(make: Make, dropped: DroppedErrors) -> None:
    memory = make()
    friday, session = MemoryScope(user="ann", agent="friday"), MemoryScope(user="ann", session="s1")
    await memory.record([TEA], scope=friday)
    await memory.record([CITY], scope=session)
    await memory.record([Msg.user("Zorbella is my cat.")], scope=ANN)
    whole = MemoryScope(user="ann", agent="friday", session="s1")
    for word in ("Quandrel", "Vexholm", "Zorbella"):
        await _finds(memory, word, whole)
    await _finds(memory, "Zorbella", friday)
    for word, scope in (("Quandrel", session), ("Vexholm", friday), ("Vexholm", ANN)):
        found = await _texts(memory, word, scope)
        require(word not in found, f"{scope} found a fact of another agent or session: {found!r:.100}")


async def _hostile(make: Make, dropped: DroppedErrors) -> None:
    memory = make()
    await memory.record([TEA], scope=ANN)
    for query in HOSTILE:
        await memory.retrieve(query, scope=ANN)
        await memory.record([Msg.user([TextBlock(f"odd {query}")])], scope=ANN)
    await _finds(memory, "Quandrel")


async def _concurrent(make: Make, dropped: DroppedErrors) -> None:
    memory = make()
    words = [f"word{letter}" for letter in "abcdefgh"]
    await asyncio.gather(*(memory.record([Msg.user(f"I like {word} a lot.")], scope=ANN) for word in words))
    for word in words:
        await _finds(memory, word, limit=20)


async def _threads(make: Make, dropped: DroppedErrors) -> None:
    memory = make()
    words = [f"thing{letter}" for letter in "abcd"]

    def write(word: str) -> None:
        memory.record([Msg.user(f"I own a {word}.")], scope=ANN).run()
        memory.retrieve(word, scope=ANN).run()

    loop = asyncio.get_running_loop()
    await asyncio.gather(*(loop.run_in_executor(None, write, word) for word in words))
    for word in words:
        await _finds(memory, word, limit=20)


async def _disposed(make: Make, dropped: DroppedErrors) -> None:
    for turns in range(4):
        memory = make()
        for flow in (memory.record([TEA], scope=ANN), memory.retrieve("Quandrel", scope=ANN)):
            probe = Probe()
            probe.start(flow)
            for _ in range(turns):
                await asyncio.sleep(0)
            if not probe.over:
                probe.dispose()
            await probe.end()
        await memory.record([CITY], scope=ANN)
        await _finds(memory, "Vexholm")


LAWS: tuple[tuple[str, str, Callable[[Make, DroppedErrors], Coroutine[object, object, None]]], ...] = (
    ("found", "what was recorded is found by its words, for a text, a message or messages", _found),
    ("nothing", "no text, no note: an empty memory, query or record finds and stores nothing", _nothing),
    ("one signal", "record emits one None, retrieve one tuple, then completion", _one_signal),
    ("cold", "an operation takes place at each subscription, and not before", _cold),
    ("notes", "notes have a text and an id of their own, best first, and searching changes nothing", _notes),
    ("limit", "retrieve gives as many notes as fit, and never more than the limit", _limit),
    ("invalid", "an invalid limit, query or message is an InvalidInputError", _invalid),
    ("users", "no user finds what another one has said", _users),
    ("narrow", "what belongs to an agent or a session is found only there; what is of the user everywhere", _narrow),
    ("hostile", "any text can be recorded and searched for", _hostile),
    ("concurrent", "records at the same time are all stored", _concurrent),
    ("threads", "records from several threads are all stored", _threads),
    ("disposal", "a disposed operation leaves a memory that works on", _disposed),
)
