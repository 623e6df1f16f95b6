"""`ToolContext`: one call as its tool sees it: the caller's objects, the signal to stop, a way to show progress."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, NoReturn, Protocol, TypeVar, cast

from agentscope_rx.context import ContextStore, RuntimeContext, Search, asking, at_once, in_time, named
from agentscope_rx.errors import ContextError, InvalidInputError, ToolError
from agentscope_rx.messages import Msg, OutputBlock, ToolUseBlock
from agentscope_rx.parts import PartStates
from agentscope_rx.reactive import Flow, defer, empty
from agentscope_rx.reactive.kernel.runtime import running_loop
from agentscope_rx.tools.results.convert import result_of

if TYPE_CHECKING:
    from agentscope_rx.tools.base import ToolSource

T = TypeVar("T")


class CallLink(Protocol):
    """The stream of a call's progress."""

    @property
    def ended(self) -> bool: ...
    def emit(self, output: tuple[OutputBlock, ...]) -> None: ...
    def beat(self) -> None: ...
    def room(self) -> Future[None] | None: ...
    def wait(self, timeout: float | None) -> None: ...


def _never() -> bool:
    return False


class ToolContext:
    """A read-only view of one call: the caller's objects, the signal to stop, a way to show progress.

        @tool
        def copy_files(paths: list[str], context: ToolContext) -> str:
            for path in paths:
                context.emit(f"copying {path}")
                if context.wait(0.5):                # a pause that ends early if the call is to stop
                    return "stopped half way"
            return "copied"

    Without an agent (a toolkit called by hand) `run_id`, `agent` and `path` are empty. `stores` are searched in order
    for objects that `runtime` does not have.
    """

    __slots__ = (
        "_interrupted",
        "_key",
        "_link",
        "_messages",
        "_received",
        "agent",
        "call",
        "host",
        "parts",
        "path",
        "run_id",
        "runtime",
        "stores",
        "toolkit",
    )

    runtime: RuntimeContext
    call: ToolUseBlock
    run_id: str
    agent: str
    path: tuple[str, ...]
    toolkit: ToolSource | None
    """The toolkit, or the run's view of it, that the tool is called through."""
    stores: tuple[ContextStore, ...]
    host: object
    """The run itself, for the engine's own tools; None without one."""
    parts: PartStates | None
    """The state that hooks and tools keep in the conversation of the run; None without a run."""
    _interrupted: Callable[[], bool]
    _link: CallLink | None
    _key: Callable[[ToolUseBlock], str] | None
    _messages: Callable[[], Flow[Msg]] | None
    _received: Callable[[], Flow[str]] | None

    def __init__(
        self,
        call: ToolUseBlock,
        *,
        runtime: RuntimeContext | None = None,
        run_id: str = "",
        agent: str = "",
        path: tuple[str, ...] = (),
        toolkit: ToolSource | None = None,
        stores: tuple[ContextStore, ...] = (),
        interrupted: Callable[[], bool] = _never,
        link: CallLink | None = None,
        host: object = None,
        key: Callable[[ToolUseBlock], str] | None = None,
        parts: PartStates | None = None,
        messages: Callable[[], Flow[Msg]] | None = None,
        received: Callable[[], Flow[str]] | None = None,
    ) -> None:
        put = object.__setattr__
        put(self, "call", call)
        put(self, "runtime", RuntimeContext() if runtime is None else runtime)
        put(self, "run_id", run_id)
        put(self, "agent", agent)
        put(self, "path", path)
        put(self, "toolkit", toolkit)
        put(self, "stores", stores)
        put(self, "_interrupted", interrupted)
        put(self, "_link", link)
        put(self, "host", host)
        put(self, "_key", key)
        put(self, "parts", parts)
        put(self, "_messages", messages)
        put(self, "_received", received)

    def get(self, kind: type[T], key: str = "") -> T | None:
        """The caller's object of this type and key: from `runtime`, else from the first store that has it; or None.

        `ContextError` if several objects fit, or a store failed.
        """
        return at_once(self.search(kind, key))

    def fetch(self, kind: type[T], key: str = "") -> Flow[T | None]:
        """Like `get`, also from stores that take time to answer: `await context.fetch(Database)`.

        Signals: the object or None, completion; `ContextError` as for `get`, and if a store does not answer in time.
        Cancels: the lookup in progress.
        """
        return defer(lambda: in_time(self.search(kind, key)))

    def search(self, kind: type[T], key: str = "") -> Search[T | None]:
        """Like `get`, as a generator that yields to wait for a store."""
        if kind is ToolContext and not key:
            return cast("T", self)
        found = yield from self.runtime.search(kind, key)
        for store in self.stores:
            if found is not None:
                break
            found = yield from asking(store, kind, key)
        return found

    def require(self, kind: type[T], key: str = "") -> T:
        """Like `get`, but raises a `ContextError` that names the type if there is none."""
        found = self.get(kind, key)
        if found is None:
            raise self.missing(kind, key)
        return found

    def missing(self, kind: type, key: str = "") -> ContextError:
        """The error for an object that neither `runtime` nor a store has."""
        if not self.stores:
            return self.runtime.missing(kind, key)
        places = ", ".join(type(store).__name__ for store in self.stores)
        return ContextError(
            f"Neither the RuntimeContext of this call nor its stores ({places}) hold a {named(kind, key)}. "
            "Give the call one, context=RuntimeContext(...), or register it in the store of the agent or toolkit.",
            wanted=kind.__name__,
        )

    def messages(self) -> Flow[Msg]:
        """The conversation of the run so far, with the call; a sub-agent's tool gets that of the sub-agent.

        Signals: all messages of the memory in order, as it keeps them; completion. None without a run.
        Cancels: the read.
        """
        return empty() if self._messages is None else self._messages()

    def received(self) -> Flow[str]:
        """The messages that the model, or a program, sends to this call while it goes on in the background.

        Signals: each message, those that have come before included, as far as they are kept; completion at the end of
        the call, at once for one that cannot go on in the background.
        Cancels: the reading.
        """
        return empty() if self._received is None else self._received()

    @property
    def idempotency_key(self) -> str:
        """The same text whenever this call is run again with the same arguments: by a retry, or after a crash.

        It is derived from the key of the session, the call and its arguments; without a session, from the run. Give it
        to a service that ignores the second request with the same key.
        """
        return self.call.id if self._key is None else self._key(self.call)

    @property
    def interrupted(self) -> bool:
        """True once the run was interrupted."""
        return self._interrupted()

    @property
    def stopping(self) -> bool:
        """True once the tool should stop: the run was interrupted, or this call has ended (timeout, disposal)."""
        return self._interrupted() or (self._link is not None and self._link.ended)

    def wait(self, timeout: float | None) -> bool:
        """Block this thread for `timeout` seconds, or until the call ends; returns `stopping`.

        An interruption ends the wait of an interruptible call at once; other calls see it after `timeout`. Raises
        `ToolError` on the thread of a running loop, which it would block.
        """
        if running_loop() is not None:
            raise ToolError(
                "ToolContext.wait() blocks. In a coroutine, `await asyncio.sleep(...)` and read `stopping`."
            )
        if self._link is None:
            if timeout is None:
                raise InvalidInputError("This ToolContext belongs to no call: wait() without a timeout would not end.")
            threading.Event().wait(timeout)
        elif not self.stopping:
            self._link.wait(timeout)
        return self.stopping

    def emit(self, chunk: object) -> None:
        """Show progress: text, blocks or any value that a tool may return. Thread-safe; ignored after the call's end.

        All chunks come before the call's result, in order, and reset idle deadlines. None is ignored; a value that
        cannot be an output raises a `ToolError`. A worker thread blocks while its reader is slow, or while 64 chunks
        are unread, so never block the event loop on such a thread. In a coroutine `emit` does not wait: use `send`.
        """
        if chunk is not None and self._link is not None:
            self._link.emit(result_of(self.call, chunk).output)

    async def send(self, chunk: object) -> None:
        """Like `emit`, for coroutines: waits while too many chunks are unread, so that a slow reader slows the tool."""
        self.emit(chunk)
        room = None if self._link is None else self._link.room()
        if room is not None:
            await asyncio.wrap_future(room)

    def heartbeat(self) -> None:
        """Restart the call's `first_chunk_timeout` and `idle_timeout` without showing progress. Thread-safe."""
        if self._link is not None:
            self._link.beat()

    def of(
        self, call: ToolUseBlock, link: CallLink | None = None, stores: tuple[ContextStore, ...] = ()
    ) -> ToolContext:
        """A copy for another call, whose progress goes to `link`; `stores` are searched after the present ones."""
        return ToolContext(
            call,
            runtime=self.runtime,
            run_id=self.run_id,
            agent=self.agent,
            path=self.path,
            toolkit=self.toolkit,
            stores=self.stores + stores,
            interrupted=self._interrupted,
            link=link,
            host=self.host,
            key=self._key,
            parts=self.parts,
            messages=self._messages,
            received=self._received,
        )

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"A ToolContext is read-only: {name!r} cannot be set.")

    def __repr__(self) -> str:
        return f"<ToolContext {self.call.name} {self.call.id}>"
