"""Child processes for several documents: starting one takes longer than parsing most documents.

    pages = keep_parsers(from_iterable(sources).pipe(concat_map(reader.read)))

While a flow of `keep_parsers` runs, a child that has parsed a document without an error waits for the next one of its
format. When the last such flow has ended, all of them are ended. Without one, each document has a child of its own.
"""

from __future__ import annotations

from typing import TypeVar

from agentscope_rx.knowledge.readers.limits import MIB, ReadLimits
from agentscope_rx.knowledge.readers.parser_process import ParserProcess
from agentscope_rx.reactive import ENGINE_WORKERS, Flow, just, on_worker, using
from agentscope_rx.reactive.kernel.forking import call_after_fork, keep_inherited, new_lock

T = TypeVar("T")

DOCUMENTS = 100
"""The documents that a child parses, at most: parsers keep some memory of each."""
BYTES = 32 * MIB
"""The bytes of documents after which a child is replaced."""


class ParserPool:
    """The children that wait for a document."""

    def __init__(self) -> None:
        self._lock = new_lock()
        self._waiting: dict[tuple[str, int], list[ParserProcess]] = {}
        self._holders = 0
        call_after_fork(self)

    def after_fork(self) -> None:
        """In a forked child: these children are the parent's."""
        for each in self._waiting.values():
            keep_inherited(*each)
        self._waiting = {}
        self._holders = 0

    def take(self, format: str, limits: ReadLimits) -> ParserProcess:
        """A child for one document, which is the caller's."""
        with self._lock:
            waiting = self._waiting.get((format, limits.memory))
            if waiting:
                return waiting.pop()
        return ParserProcess(format, limits)

    def give_back(self, parser: ParserProcess, format: str, limits: ReadLimits) -> None:
        """Keep a child that has parsed its document to the end, or end it."""
        with self._lock:
            if self._holders and parser.documents < DOCUMENTS and parser.bytes < BYTES:
                self._waiting.setdefault((format, limits.memory), []).append(parser)
                return
        parser.close()

    def hold(self) -> None:
        """Keep children from now on, until the same number of `release`."""
        with self._lock:
            self._holders += 1

    def release(self) -> None:
        """End the children that wait, if this was the last holder."""
        with self._lock:
            self._holders -= 1
            waiting = [] if self._holders else [each for kept in self._waiting.values() for each in kept]
            if not self._holders:
                self._waiting.clear()
        for each in waiting:
            each.close()


PARSERS = ParserPool()


def keep_parsers(source: Flow[T]) -> Flow[T]:
    """Emits the source's values; readers use their child processes for several documents meanwhile.

        pages = keep_parsers(from_iterable(sources).pipe(concat_map(reader.read)))

    Starting a child takes longer than parsing most documents. Without it, each document has a child of its own; an
    `Indexer` uses it by itself.

    Signals: those of the source, its end after the children have ended.
    Cancels: the source; the children are ended.
    """

    def held() -> Flow[None]:
        PARSERS.hold()
        return just(None)

    return using(held, lambda _: source, lambda _, outcome: on_worker(PARSERS.release, ENGINE_WORKERS))
