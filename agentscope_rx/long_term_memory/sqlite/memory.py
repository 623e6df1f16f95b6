"""`SqliteLongTermMemory`: the long-term memory in one SQLite file.

record     messages -- model? -->  facts         nearest known facts -- model --> add | update | delete | none
                    -- none? -->   notes                                                  |
                                                          one transaction <---------------'  then vectors
retrieve   query -- embedding model? --> words (BM25) + meaning (cosine) --> reciprocal rank fusion --> notes
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from os import PathLike
from typing import TypeVar

from reactivex import operators as ops

from agentscope_rx.errors import AgentScopeError, ConfigurationError, DistillationError
from agentscope_rx.long_term_memory.note import NO_SCOPE, MemoryScope, Note, NoteSource, now
from agentscope_rx.long_term_memory.port import LIMIT, LongTermMemory, check_limit, check_messages
from agentscope_rx.long_term_memory.scoping import check_scope
from agentscope_rx.long_term_memory.sqlite import store
from agentscope_rx.long_term_memory.sqlite.database import BUSY_SECONDS, Database
from agentscope_rx.long_term_memory.sqlite.distill import (
    BadDistillationError,
    Candidate,
    Distiller,
    Operation,
    is_recordable,
)
from agentscope_rx.long_term_memory.sqlite.facts import COLUMNS, Fact, fact_of, note_of
from agentscope_rx.long_term_memory.sqlite.search import OWN, VISIBLE, Asked, find, names
from agentscope_rx.messages import Msg
from agentscope_rx.messages.queries import Query, query_text
from agentscope_rx.models.chat_model import ChatModel
from agentscope_rx.models.checks import check_count, check_seconds
from agentscope_rx.models.embedding.embedding_model import EmbeddingModel, EmbeddingRole
from agentscope_rx.reactive import ENGINE_WORKERS, Flow, defer, from_callable, just, on_worker
from agentscope_rx.reactive.kernel.dropped import report_dropped

T = TypeVar("T")

NOTE_CHARS = 1000
"""The length of a note: a longer message becomes several."""
_ROUNDS = 3
"""How often operations are decided anew because another record has changed the facts meanwhile."""


class SqliteLongTermMemory(LongTermMemory):
    """Keeps facts in the SQLite file `path`, which is made if it does not exist; a leading `~` is expanded.

    | option | |
    |---|---|
    | `scope` | the scope of calls that give none, and of the names that a given one lacks |
    | `embedding_model` | finds facts by meaning, too |
    | `min_similarity` | the least cosine at which meaning alone finds a fact |
    | `model` | distils facts of messages, and corrects known facts |
    | `attempts` | how often the model may answer a question, until its answer is usable |
    | `neighbours` | known facts that the model sees for each new one |
    | `busy_seconds` | how long an operation waits for another process that writes |
    | `on_error` | gets the errors that lose nothing (see `record`), in place of the dropped-error hook |

    - **Words**: SQLite's FTS5 ranks facts (BM25). English endings and accents do not matter; Chinese, Japanese and Thai
      are indexed in pairs of characters. Any text is a valid query.
    - **Meaning**: the ranks by words and by cosine are joined by reciprocal rank fusion; of equal ones the newest comes
      first. All vectors of the scope are compared, some milliseconds for each thousand facts. Facts without a vector by
      this model get theirs at the next record.
    - **Without a model** messages are stored as notes, long ones in pieces of 1,000 characters.
    - **With a model** a record takes one or two model calls. The first distils facts; if similar ones are known, the
      second decides for each new one: add, update, delete, or none. An updated fact stays as history. A record for a
      session or an agent updates facts of the same session or agent only.
    - **Nothing is lost**: without usable facts the messages are stored, without a decision the fact is added, and a
      `DistillationError` is reported.
    - **The same text**, also with other case, spaces, articles or punctuation around words, is stored once. Signs that
      mean something make another fact: `C++` and `C#`, `-5` and `5`, a question.
    - **Erased facts** (`forget`, `clear`) are overwritten in the file, and in its write-ahead log, unless another
      process is reading it at this moment.
    - Several processes may use the file, and it may hold other tables. A write is one transaction. A file that cannot
      be used is a `LongTermMemoryStorageError` or a `LongTermMemoryFormatError`.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        scope: MemoryScope | None = None,
        embedding_model: EmbeddingModel | None = None,
        min_similarity: float = 0.3,
        model: ChatModel | None = None,
        attempts: int = 3,
        neighbours: int = 5,
        busy_seconds: float = BUSY_SECONDS,
        on_error: Callable[[Exception], object] | None = None,
    ) -> None:
        for name, given, kind in (("embedding_model", embedding_model, EmbeddingModel), ("model", model, ChatModel)):
            if given is not None and not isinstance(given, kind):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ConfigurationError(f"{name} must be an object of {kind.__name__}, not {given!r:.60}.")
        check_count("attempts", attempts)
        check_count("neighbours", neighbours)
        check_seconds("busy_seconds", busy_seconds, zero=True, infinite=False)
        if not -1 <= min_similarity <= 1:
            raise ConfigurationError(f"min_similarity is a cosine, from -1 to 1, not {min_similarity!r:.60}.")
        self._database = Database(path, busy_seconds)
        self.path: str = self._database.path
        self.scope: MemoryScope = check_scope("scope", scope) or NO_SCOPE
        self.embedding_model = embedding_model
        self.min_similarity = min_similarity
        self.neighbours = neighbours
        self._distiller = None if model is None else Distiller(model, attempts)
        self._on_error = on_error

    def __repr__(self) -> str:
        return f"SqliteLongTermMemory({self.path!r})"

    # --- the port -----------------------------------------------------------------------------------------------------

    def record(
        self, messages: Sequence[Msg], *, scope: MemoryScope | None = None, source: NoteSource | None = None
    ) -> Flow[None]:
        """Store the content of the messages.

        Errors that lose nothing are reported to `on_error`: a model that fails or gives no usable
        facts (the messages are stored as notes), an operation that the model has not decided (the fact is added), an
        embedding model that fails (a later record embeds these facts).

        Signals: one None when it is stored; a `LongTermMemoryError` if the file cannot be written.
        Cancels: the calls of models; a transaction that has begun ends.
        """

        def begin() -> Flow[None]:
            given = check_messages(messages)
            check_scope("scope", scope)
            said = [message for message in given if is_recordable(message)]
            if not said:
                return just(None)
            found = source or NoteSource(message_ids=tuple(message.id for message in said), at=now())
            return from_callable(lambda: self._record(given, self._scope(scope), found))

        return defer(begin)

    def retrieve(self, query: Query, limit: int = LIMIT, *, scope: MemoryScope | None = None) -> Flow[tuple[Note, ...]]:
        def begin() -> Flow[tuple[Note, ...]]:
            check_limit(limit)
            check_scope("scope", scope)
            text = query_text(query)
            return just(()) if not text else from_callable(lambda: self._retrieve(text, limit, self._scope(scope)))

        return defer(begin)

    async def _retrieve(self, text: str, limit: int, scope: MemoryScope) -> tuple[Note, ...]:
        asked = await self._asked(text)

        def search() -> tuple[Note, ...]:
            with self._database.reading() as connection:
                return tuple(note_of(*each) for each in find(connection, asked, scope, limit))

        return await on_worker(search, ENGINE_WORKERS)

    # --- managing -----------------------------------------------------------------------------------------------------

    def facts(self, scope: MemoryScope | None = None, *, history: bool = False) -> Flow[tuple[Fact, ...]]:
        """The facts that this scope sees, the oldest first; with `history` also old versions and ended ones.

        Signals: one tuple; a `LongTermMemoryError`.
        Cancels: the reading.
        """

        def read() -> tuple[Fact, ...]:
            condition = OWN if history else VISIBLE
            with self._database.reading() as connection:
                rows = connection.execute(
                    f"SELECT {COLUMNS} FROM ltm_facts f WHERE {condition} ORDER BY number",  # noqa: S608
                    names(self._scope(scope)),
                )
                return tuple(fact_of(row) for row in rows)

        return _work(read)

    def history(self, id: str) -> Flow[tuple[Fact, ...]]:
        """All versions of this fact, the oldest first; none if there is no such fact. Signals, cancels: as `facts`."""

        def read() -> tuple[Fact, ...]:
            with self._database.reading() as connection:
                return store.history(connection, id)

        return _work(read)

    def forget(self, id: str) -> Flow[bool]:
        """Erase a fact with all its versions.

        Signals: True if there was one; a `LongTermMemoryError`.
        Cancels: nothing that has begun.
        """
        return _work(lambda: self._erase("id = ?", (id,)) > 0)

    def clear(self, scope: MemoryScope | None = None) -> Flow[int]:
        """Erase all facts that were stored with this user and, if given, this agent and session; with their history.

        Signals: the number of erased facts and versions; a `LongTermMemoryError`.
        Cancels: nothing that has begun.
        """
        given = self._scope(scope)
        parts = [("user", given.user or ""), ("agent", given.agent), ("session", given.session)]
        chosen = [(name, value) for name, value in parts if value is not None]
        condition = " AND ".join(f"{name} = ?" for name, _ in chosen)
        return _work(lambda: self._erase(condition, [value for _, value in chosen]))

    def export(self, scope: MemoryScope | None = None) -> Flow[list[dict[str, object]]]:
        """All facts of the scope with their history, as plain JSON. Signals and cancels as `facts`."""
        return self.facts(scope, history=True).pipe(ops.map(lambda facts: [fact.to_dict() for fact in facts]))

    # --- recording ----------------------------------------------------------------------------------------------------

    async def _record(self, messages: Sequence[Msg], scope: MemoryScope, source: NoteSource) -> None:
        at = source.at or now()
        candidates = None
        if self._distiller is not None:
            candidates = await self._extracted(self._distiller, messages)
        if candidates is None:
            notes = [(piece, message) for message in messages for piece in _pieces(_text_of(message))]
            await self._add([_note_entry(text, message, source, at) for text, message in notes], scope)
        else:
            await self._reconciled(candidates, scope, source)
        await self._embed(scope)

    async def _extracted(self, distiller: Distiller, messages: Sequence[Msg]) -> list[Candidate] | None:
        try:
            return await distiller.extract(messages, now())
        except BadDistillationError as error:
            self._report(DistillationError("The messages were stored as they are.", error.problems))
        except AgentScopeError as error:
            self._report(error)
        return None

    async def _reconciled(self, candidates: Sequence[Candidate], scope: MemoryScope, source: NoteSource) -> None:
        """Store the facts, as the model decides; look again if the facts have changed meanwhile."""
        at = source.at or now()
        asked = [await self._asked_or_words(store.indexed(each.text, each.subject, True)) for each in candidates]
        known: list[Fact] | None = None
        operations: list[Operation] = []
        for _ in range(_ROUNDS):
            number, nearest = await _work(partial(self._nearest, candidates, asked, scope))
            if known is None or [fact.id for fact in nearest] != [fact.id for fact in known]:
                known, operations = nearest, await self._decided(candidates, nearest)
            if await _work(partial(self._applied, operations, number, source, at, scope)):
                return
        # other records keep changing the facts: adding loses nothing, and a later record may correct it
        await self._add([store.Entry(each.text, each.subject, source, at, True) for each in candidates], scope)

    def _nearest(
        self, candidates: Sequence[Candidate], asked: Sequence[Asked], scope: MemoryScope
    ) -> tuple[int, list[Fact]]:
        """The number of changes so far, and the known facts of the same subjects and nearest to these, each once."""
        known: dict[str, Fact] = {}
        with self._database.reading() as connection:
            for candidate, one in zip(candidates, asked, strict=True):
                same = store.of_subject(connection, candidate.subject, scope, self.neighbours)
                near = (each.fact for each in find(connection, one, scope, self.neighbours))
                known |= {fact.id: fact for fact in (*same, *near)}
            # (those of this very scope first: only they can be updated)
            nearest = sorted(known.values(), key=lambda fact: fact.scope != scope)
            return store.changes(connection, scope), nearest

    async def _decided(self, candidates: Sequence[Candidate], known: Sequence[Fact]) -> list[Operation]:
        added = [Operation("add", each) for each in candidates]
        if not candidates or not known or self._distiller is None:
            return added
        try:
            return await self._distiller.reconcile(candidates, known)
        except BadDistillationError as error:
            self._report(DistillationError("The new facts were added, and no known one was changed.", error.problems))
        except AgentScopeError as error:
            self._report(error)
        return added

    def _applied(
        self, operations: Sequence[Operation], number: int, source: NoteSource, at: datetime, scope: MemoryScope
    ) -> bool:
        """Store what was decided, all or none; False if the facts have changed since they had this number."""
        with self._database.writing() as connection:
            if store.changes(connection, scope) != number:
                return False
            for each in operations:
                entry = store.Entry(each.text or each.candidate.text, each.candidate.subject, source, at, True)
                # (two operations of one answer may concern the same fact, or one a fact of a wider scope: then it adds)
                if each.action == "add" or (
                    each.action == "update" and not store.replace(connection, each.id, entry, scope)
                ):
                    store.add(connection, entry, scope)
                elif each.action == "delete":
                    store.end(connection, each.id, at, scope)
            return True

    async def _add(self, entries: Sequence[store.Entry], scope: MemoryScope) -> None:
        def add() -> None:
            with self._database.writing() as connection:
                for entry in entries:
                    store.add(connection, entry, scope)

        if entries:
            await _work(add)

    # --- vectors ------------------------------------------------------------------------------------------------------

    async def _asked(self, text: str, role: EmbeddingRole = "query") -> Asked:
        model = self.embedding_model
        if model is None:
            return Asked(text)
        vectors = (await model.embed(text, role=role)).vectors
        return Asked(text, vectors[0], _name_of(model), self.min_similarity)

    async def _asked_or_words(self, text: str) -> Asked:
        """For a record, which compares facts with facts: words alone will do, if the embedding model fails."""
        try:
            return await self._asked(text, "document")
        except AgentScopeError as error:
            self._report(error)
            return Asked(text)

    async def _embed(self, scope: MemoryScope) -> None:
        """Give vectors to the facts that have none by this model: new ones, and those of an earlier failure."""
        model = self.embedding_model
        if model is None:
            return
        name = _name_of(model)

        def missing() -> list[tuple[int, str]]:
            with self._database.reading() as connection:
                return store.without_vector(connection, scope, name)

        def keep(vectors: list[tuple[int, Sequence[float]]]) -> None:
            with self._database.writing() as connection:
                store.set_vectors(connection, vectors, name)

        rows = await _work(missing)
        if not rows:
            return
        try:
            vectors = (await model.embed([text for _, text in rows])).vectors
        except AgentScopeError as error:
            self._report(error)
            return
        await _work(lambda: keep([(number, vector) for (number, _), vector in zip(rows, vectors, strict=True)]))

    # --- parts --------------------------------------------------------------------------------------------------------

    def _scope(self, scope: MemoryScope | None) -> MemoryScope:
        return self.scope if scope is None else scope.over(self.scope)

    def _erase(self, condition: str, values: Sequence[object]) -> int:
        with self._database.writing() as connection:
            erased = store.erase(connection, condition, values)
        if erased:
            self._database.checkpoint()
        return erased

    def _report(self, error: Exception) -> None:
        if self._on_error is None:
            report_dropped(error, f"a record in {self!r:.100}")
            return
        try:
            self._on_error(error)
        except Exception as failure:
            report_dropped(error, f"a record in {self!r:.100}")
            report_dropped(failure, "on_error of a SqliteLongTermMemory")


def _work(call: Callable[[], T]) -> Flow[T]:
    return on_worker(call, ENGINE_WORKERS)


def _name_of(model: EmbeddingModel) -> str:
    # vectors of models with different numbers of dimensions cannot be compared
    return f"{model.provider}:{model.model_name}:{getattr(model, 'dimensions', None) or ''}"


def _text_of(message: Msg) -> str:
    """What a message says; of tools' results, if they are recorded at all, their texts."""
    return message.text or "\n".join(result.text for result in message.tool_results)


def _note_entry(text: str, message: Msg, source: NoteSource, at: datetime) -> store.Entry:
    """A message, or a piece of it, as it is stored: its source is this message alone."""
    return store.Entry(text, message.name, replace(source, message_ids=(message.id,)), at, False)


def _pieces(text: str) -> Iterator[str]:
    """The text, in pieces of at most `NOTE_CHARS`, cut at the ends of lines, sentences or words."""
    rest = text.strip()
    while len(rest) > NOTE_CHARS:
        cut = max(rest.rfind(end, NOTE_CHARS // 2, NOTE_CHARS) + len(end) for end in ("\n", ". ", "。", " "))
        cut = cut if cut > NOTE_CHARS // 2 else NOTE_CHARS
        yield rest[:cut].strip()
        rest = rest[cut:].strip()
    if rest:
        yield rest
