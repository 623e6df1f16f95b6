"""`Lines`: the lines of one stream (a terminal, a pipe) for whoever waits for one, in the order of asking.

    waiting   A ------- left                 the read that A began goes on: a blocked read cannot be stopped
                   B ------------ "yes"      its line is B's
    nobody                           "no"    kept, for who asks next

One thread at a time reads from a stream, and only if somebody has asked: two would take each other's lines. It is a
daemon: a read that never returns does not keep the program from leaving.
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
"""What a read has brought."""


class Readable(Protocol):
    """What lines are read from: `readline` gives a line with its end, '' at the end of all."""

    def readline(self) -> str: ...


class Lines:
    """The lines of one stream; `of(stream)` gives everybody the same ones."""

    __slots__ = ("__weakref__", "_kept", "_lock", "_read", "_reading", "_waiting")

    def __init__(self, read: Callable[[], str]) -> None:
        self._read = read
        self._lock = new_lock()
        self._waiting: deque[_Waiter] = deque()
        self._kept: deque[Line] = deque()
        self._reading = False
        call_after_fork(self)

    def after_fork(self) -> None:
        """Those who wait, the thread that reads for them, and what it has read, are the parent's."""
        self._waiting.clear()
        self._kept.clear()
        self._reading = False

    @classmethod
    def of(cls, stream: Readable) -> Lines:
        """The lines of this stream. The same for all, as the stream is: who reads beside them takes lines away."""
        with _LOCK:
            lines = _LINES.get(stream)
            if lines is None:
                lines = _LINES[stream] = cls(_Reads(stream))
            return lines

    def next(self, wanted: Callable[[], bool] = lambda: True, left: Callable[[], object] = lambda: None) -> Flow[str]:
        """The next line, without its end. `wanted` is asked once more when it is there: if not, it stays for others.
        `left` is called if the waiting is given up.

        Signals: the line; `EndOfInputError` if there are no more, `UserInputError` if the stream cannot be read.
        Cancels: the waiting, at once; the line is the next one's who asks.
        """

        def connect(sink: Sink[str], scope: Scope) -> None:
            waiter = _Waiter(self, sink, scope, wanted, left)
            sink.on_subscribe(waiter)
            if not waiter.gone:
                self.join(waiter)

        return Flow(connect)

    def join(self, waiter: _Waiter) -> None:
        """One more waits, behind the others."""
        with self._lock:
            self._waiting.append(waiter)
            self._go_on()

    def leave(self, waiter: _Waiter) -> None:
        """One who waited does so no longer."""
        with self._lock:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
                self._go_on()

    def take(self, waiter: _Waiter) -> Line | None:
        """The line of the first of those who wait; None for the others, and if there is none yet."""
        with self._lock:
            if not (self._kept and self._waiting and self._waiting[0] is waiter):
                return None
            self._waiting.popleft()
            line = self._kept.popleft()
            self._go_on()
            return line

    def _go_on(self) -> None:
        """Tell the first of those who wait if there is a line, else see that one is read; with the lock.

        A line is not given to anybody before it is taken: so none is lost, or overtaken, if somebody leaves.
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
        """Read one line; the reader's thread."""
        line = self._get()
        with self._lock:
            self._kept.append(line)
            self._reading = False
            self._go_on()

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
    """Reads from a stream that it does not keep alive; a call in progress does."""

    __slots__ = ("_stream",)

    def __init__(self, stream: Readable) -> None:
        self._stream = ref(stream)

    def __call__(self) -> str:
        stream = self._stream()
        return stream.readline() if stream is not None else ""


class _Waiter:
    """Somebody who waits for a line."""

    __slots__ = ("_left", "_lines", "_sink", "_wanted", "gone", "scope", "served")

    def __init__(
        self,
        lines: Lines,
        sink: Sink[str],
        scope: Scope,
        wanted: Callable[[], bool],
        left: Callable[[], object],
    ) -> None:
        self._lines = lines
        self._sink = sink
        self._wanted = wanted
        self._left = left
        self.scope = scope
        self.gone = False
        self.served = False

    @property
    def is_lost(self) -> bool:
        """Whether its loop was closed under it."""
        return self.scope.loop.is_closed()

    def take(self) -> None:
        """There is a line; on the loop of who waits."""
        if self.gone:
            return
        if not self._wanted():
            self._lines.leave(self)
            return
        line = self._lines.take(self)
        self.served = line is not None
        if isinstance(line, Exception):
            self._sink.on_error(line)
        elif line is not None:
            self._sink.on_next(line)
            if not self.gone:
                self._sink.on_completed()

    def dispose(self) -> None:
        if not self.gone:
            self.gone = True
            self._lines.leave(self)
            if not self.served:
                self._left()


def _ended(error: BaseException | None) -> EndOfInputError:
    failure = EndOfInputError()
    failure.__cause__ = error
    return failure


_LOCK = new_lock()
_LINES: WeakKeyDictionary[Readable, Lines] = WeakKeyDictionary()
