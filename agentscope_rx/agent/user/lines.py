"""`Lines`: the lines of one stream (a terminal, a pipe) for its readers, in the order of their requests.

    waiting   A ------- cancelled            the read that A began continues: a blocked read cannot be stopped
                   B ------------ "yes"      its line goes to B
    none waits                       "no"    kept for the next reader

One thread at a time reads from a stream, and only for a waiting reader: two would take each other's lines. It is a
daemon, so that a read that never returns does not keep the program from exiting.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Protocol
from weakref import WeakKeyDictionary, ref

from agentscope_rx.errors import EndOfInputError, UserInputError
from agentscope_rx.reactive import Flow, Scope
from agentscope_rx.reactive.kernel.forking import call_after_fork, new_lock
from agentscope_rx.reactive.kernel.observer import Sink

Line = str | Exception
"""The result of a read."""


class Readable(Protocol):
    """A stream to read from: `readline` returns a line with its end, or '' at the end of the stream."""

    def readline(self) -> str: ...


class Lines:
    """The lines of one stream; `of(stream)` returns the same object for all readers."""

    __slots__ = ("__weakref__", "_kept", "_lock", "_read", "_reading", "_waiting")

    def __init__(self, read: Callable[[], str]) -> None:
        self._read = read
        self._lock = new_lock()
        self._waiting: deque[_Waiter] = deque()
        self._kept: deque[Line] = deque()
        self._reading = False
        call_after_fork(self)

    def after_fork(self) -> None:
        """The readers, the thread that reads for them, and the lines that it has read belong to the parent."""
        self._waiting.clear()
        self._kept.clear()
        self._reading = False

    @classmethod
    def of(cls, stream: Readable) -> Lines:
        """The lines of this stream, shared by all readers. A direct read of the stream takes lines from them."""
        with _LOCK:
            lines = _LINES.get(stream)
            if lines is None:
                lines = _LINES[stream] = cls(_Reads(stream))
            return lines

    def next(
        self, wanted: Callable[[], bool] = lambda: True, cancelled: Callable[[], object] = lambda: None
    ) -> Flow[str]:
        """The next line, without its end. If `wanted()` is false when the line comes, it stays for the next reader.

        `cancelled` is called if the waiting is cancelled.

        Signals: the line; `EndOfInputError` at the end of the stream, `UserInputError` if it cannot be read.
        Cancels: the waiting, at once; the line goes to the next reader.
        """

        def connect(sink: Sink[str], scope: Scope) -> None:
            waiter = _Waiter(self, sink, scope, wanted, cancelled)
            sink.on_subscribe(waiter)
            if not waiter.disposed:
                self.join(waiter)

        return Flow(connect)

    def join(self, waiter: _Waiter) -> None:
        """Add a waiting reader behind the others."""
        with self._lock:
            self._waiting.append(waiter)
            self._serve()

    def leave(self, waiter: _Waiter) -> None:
        """Remove a waiting reader."""
        with self._lock:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
                self._serve()

    def take(self, waiter: _Waiter) -> Line | None:
        """The line, for the first waiting reader; None for the others, or if there is none yet."""
        with self._lock:
            if not (self._kept and self._waiting and self._waiting[0] is waiter):
                return None
            self._waiting.popleft()
            line = self._kept.popleft()
            self._serve()
            return line

    def _serve(self) -> None:
        """Notify the first waiting reader of a line, or start a read. The caller holds the lock.

        A reader takes its line itself, so that no line is lost or overtaken if the reader leaves before.
        """
        while self._waiting and self._waiting[0].is_lost:
            self._waiting.popleft()
        if not self._waiting:
            return
        if self._kept:
            first = self._waiting[0]
            first.scope.call_from_thread(first.take)
        elif not self._reading:
            self._reading = True
            threading.Thread(target=self._fetch, name="agentscope-rx-lines", daemon=True).start()

    def _fetch(self) -> None:
        """Read one line, on the thread for reading."""
        line = self._get()
        with self._lock:
            self._kept.append(line)
            self._reading = False
            self._serve()

    def _get(self) -> Line:
        try:
            line = self._read()
        except EOFError as error:
            return _ended(error)
        except Exception as error:
            failure = UserInputError(f"The input cannot be read: {error}")
            failure.__cause__ = error
            return failure
        return line.removesuffix("\n").removesuffix("\r") if line else _ended(None)


class _Reads:
    """Reads from a stream with a weak reference; only a read in progress keeps the stream alive."""

    __slots__ = ("_stream",)

    def __init__(self, stream: Readable) -> None:
        self._stream = ref(stream)

    def __call__(self) -> str:
        stream = self._stream()
        return stream.readline() if stream is not None else ""


class _Waiter:
    """A subscriber that waits for a line."""

    __slots__ = ("_cancelled", "_lines", "_sink", "_wanted", "disposed", "scope", "served")

    def __init__(
        self,
        lines: Lines,
        sink: Sink[str],
        scope: Scope,
        wanted: Callable[[], bool],
        cancelled: Callable[[], object],
    ) -> None:
        self._lines = lines
        self._sink = sink
        self._wanted = wanted
        self._cancelled = cancelled
        self.scope: Scope = scope
        self.disposed = False
        self.served = False

    @property
    def is_lost(self) -> bool:
        """True if its loop was closed."""
        return self.scope.loop.is_closed()

    def take(self) -> None:
        """Take the line, on the subscriber's loop."""
        if self.disposed:
            return
        if not self._wanted():
            self._lines.leave(self)
            return
        line = self._lines.take(self)
        self.served: bool = line is not None
        if isinstance(line, Exception):
            self._sink.on_error(line)
        elif line is not None:
            self._sink.on_next(line)
            if not self.disposed:
                self._sink.on_completed()

    def dispose(self) -> None:
        if not self.disposed:
            self.disposed: bool = True
            self._lines.leave(self)
            if not self.served:
                self._cancelled()


def _ended(error: BaseException | None) -> EndOfInputError:
    failure = EndOfInputError()
    failure.__cause__ = error
    return failure


_LOCK = new_lock()
_LINES: WeakKeyDictionary[Readable, Lines] = WeakKeyDictionary()
