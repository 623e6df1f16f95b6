"""`ContextStore`: where a call's tools find the caller's objects that no call brings with it, by type and key.

    store = InMemoryContextStore(database, cache)                 under their own types
    store.register(replica, key="replica")                        a second one of its type
    store.register(FileCache(), as_=Cache)                        under a base class or protocol

    ReActAgent(..., context_store=store)      Toolkit(context_store=store)      RuntimeContext(store=store)

Asked are, in this order, the call's `RuntimeContext`, the store in it, the agent's and the toolkit's; the first that
has an object gives it. A store of your own, such as one in front of a dependency injection container, is any object
with `get(kind, key)`. It may answer at once, as a coroutine, or by an Observable, whose first value counts:

| it                             | then                                                                         |
|--------------------------------|------------------------------------------------------------------------------|
| gives None, or nothing at all  | the next place is asked                                                      |
| fails, or gives another type   | `ContextError` that names the store, the type and the key                    |
| takes longer than its `lookup_timeout` (30 s) | the same; a tool's own deadlines run meanwhile                |
| is not waited for any more     | it is cancelled, or disposed of                                              |
| is asked where nobody can wait | `ContextError`: `get` and `require` of a context, which hooks and tools call |

What is injected waits for it, and so does `await context.fetch(T)` in a tool.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Generator, Mapping
from typing import NoReturn, Protocol, Self, TypeVar, cast

from reactivex import abc
from reactivex import operators as ops

from agentscope_rx.errors import ConfigurationError, ContextError, InvalidInputError
from agentscope_rx.reactive import Flow, SourceCancelledError, catch, concat_map, defer, from_callable, throw, timeout
from agentscope_rx.reactive.kernel.forking import new_lock

T = TypeVar("T")

Held = Mapping[tuple[type, str], object]
"""Objects by type and key. Replaced as a whole by each change, so that a lookup needs no lock."""


class ContextStore(Protocol):
    """Objects by type and key. Asked on the event loop, so it must not block; from any thread.

    It may take time: `get` may be a coroutine function, or give an awaitable or an Observable: its first value counts.
    A store may have a `lookup_timeout` in seconds (None: no limit), 30 otherwise.
    """

    def get(self, kind: type, key: str, /) -> object:
        """The object of this type (or of a subclass) under `key`, "" for none; None if there is none."""
        ...


class InMemoryContextStore:
    """Objects in this process, by the rules of `RuntimeContext`: a subclass does, several that would do are an error.

    A run sees what was registered when it began.
    """

    __slots__ = ("_held", "_lock")

    def __init__(self, *values: object) -> None:
        self._lock = new_lock()
        self._held: Held = {}
        for value in values:
            self.register(value)

    def register(self, value: object, key: str = "", *, as_: type | None = None) -> Self:
        """Hold `value` under its own type, or under `as_`, in the place of what was there; for chaining."""
        with self._lock:
            self._held = with_value(self._held, value, key, as_, self)
        return self

    def get(self, kind: type[T], key: str = "") -> T | None:
        """The object of this type under `key`, or None. `ContextError` if several would do."""
        check_asked(kind, self)
        return find(self._held, kind, key, self)

    def view(self) -> InMemoryContextStore:
        """What is held now, for good: what is registered later does not show in it."""
        view = InMemoryContextStore()
        view._held = self._held
        return view

    def __repr__(self) -> str:
        # names only: the values may be secrets
        return f"<InMemoryContextStore {names_of(self._held) or 'empty'}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("An InMemoryContextStore holds live objects of one process: it is neither pickled nor saved.")


# --- for those who hold objects -------------------------------------------------------------------------------------


def find(held: Held, kind: type[T], key: str, where: object) -> T | None:
    """What is held under this type and key, else the one value that is of the type; `ContextError` if several are."""
    exact = held.get((kind, key))
    if exact is not None:
        return cast("T", exact)
    found = [value for (_, under), value in held.items() if under == key and is_a(value, kind)]
    if any(value is not found[0] for value in found[1:]):
        raise ContextError(
            f"The {type(where).__name__} holds several values that are {named(kind, key)}: "
            f"{', '.join(type(value).__name__ for value in found)}. Ask for one of these types, or say which is "
            f"meant with {'register' if isinstance(where, InMemoryContextStore) else 'put'}(value, "
            f"as_={kind.__name__}).",
            wanted=kind.__name__,
        )
    return cast("T", found[0]) if found else None


def with_value(held: Held, value: object, key: str, as_: type | None, where: object) -> Held:
    """What is held, and this value; `InvalidInputError` for what cannot be held."""
    if value is None:
        hint = "" if isinstance(where, InMemoryContextStore) else " Use remove(type, key) to take one out."
        raise InvalidInputError(f"None cannot be put into a {type(where).__name__}.{hint}")
    if as_ is not None and not is_a(value, as_, unsure=True):
        raise InvalidInputError(f"{type(value).__name__} is no {as_.__name__}; it cannot be put as one.")
    return {**held, (as_ or type(value), key): value}


def check_asked(kind: object, where: object) -> None:
    """`InvalidInputError` if somebody asks by name alone."""
    if isinstance(kind, str):
        raise InvalidInputError(
            f"A {type(where).__name__} is asked by type: get(str, {kind!r}) for the attribute {kind!r}, or "
            f"attributes[{kind!r}]."
        )


def is_a(value: object, kind: type, *, unsure: bool = False) -> bool:
    """Whether the value is of this type; `unsure` is the answer for a protocol that Python cannot check."""
    try:
        return isinstance(value, kind)
    except TypeError:
        return unsure


def named(kind: type, key: str) -> str:
    """A type and a key in words."""
    return f"{kind.__name__} under the key {key!r}" if key else kind.__name__


def names_of(held: Held) -> str:
    """What is held, by the names of its types and keys."""
    return ", ".join(kind.__name__ + (f"[{key!r}]" if key else "") for kind, key in held)


# --- for those who ask a store --------------------------------------------------------------------------------------


def check_store(store: object, where: str) -> ContextStore | None:
    """A store as given to `where`, or None; `ConfigurationError` if it is none."""
    if store is None:
        return None
    get = getattr(store, "get", None)
    if not callable(get) or isinstance(store, (type, Mapping)):
        raise ConfigurationError(
            f"The store of {where} must be an object with get(kind, key), such as InMemoryContextStore(database), not "
            f"{cast('object', store)!r:.60}."
        )
    return cast("ContextStore", store)


def view_of(store: ContextStore | None) -> ContextStore | None:
    """The store as it is now, where it can be held still: a caller's own store says itself what it holds."""
    return store.view() if isinstance(store, InMemoryContextStore) else store


LOOKUP_SECONDS = 30.0
"""How long a lookup may take in a store that does not say (`lookup_timeout`)."""


class Waiting:
    """A lookup that takes time: what a store gave in the place of the object, an awaitable or an Observable."""

    __slots__ = ("_begun", "_found", "_key", "_kind", "_store")

    def __init__(self, store: ContextStore, kind: type, key: str, found: object) -> None:
        self._store = store
        self._kind = kind
        self._key = key
        self._found = found
        self._begun = False

    def flow(self) -> Flow[object]:
        """The object, or None: the first value. `ContextError` if it fails, or does not come in time.

        Signals: one value, completion; `ContextError`.
        Cancels: the lookup.
        """
        limit = getattr(self._store, "lookup_timeout", LOOKUP_SECONDS)
        found = self._found
        if isinstance(found, abc.ObservableBase):
            source: Flow[object] = defer(lambda: cast("abc.ObservableBase[object]", found))
        else:
            source = from_callable(self._begin)
        first: Flow[object] = source.pipe(ops.take(1), ops.default_if_empty(None))
        if limit is not None:
            first = timeout(total=limit, error=lambda _, seconds: self._late(seconds))(first)
        return first.pipe(concat_map(self._checked), catch(self._failed))

    def refused(self) -> ContextError:
        """The error of somebody who cannot wait for it."""
        self.close()
        return ContextError(
            f"The store {_name(self._store)} was asked for {named(self._kind, self._key)} and takes time to answer. "
            f"In a tool, have it injected, Annotated[{self._kind.__name__}, Inject], or "
            f"`await context.fetch({self._kind.__name__})`.",
            wanted=self._kind.__name__,
        )

    def close(self) -> None:
        """Nobody will wait for it: a coroutine that has not begun says so otherwise."""
        if not self._begun and inspect.iscoroutine(self._found):
            self._found.close()

    def _begin(self) -> Awaitable[object]:
        self._begun = True
        return cast("Awaitable[object]", self._found)

    def _checked(self, found: object) -> object:
        return _checked(self._store, self._kind, self._key, found)

    def _late(self, seconds: float) -> ContextError:
        return ContextError(
            f"The store {_name(self._store)} was asked for {named(self._kind, self._key)} and did not answer within "
            f"{seconds:g} s.",
            wanted=self._kind.__name__,
        )

    def _failed(self, error: Exception) -> Flow[object]:
        passes = isinstance(error, (ContextError, SourceCancelledError))
        return throw(error if passes else _failure(self._store, self._kind, self._key, error))


Search = Generator[Waiting, object, T]
"""Asks one place after the other, and waits where it must: `at_once` or `in_time` drives it."""


def asking(store: ContextStore, kind: type[T], key: str) -> Search[T | None]:
    """What a store has; `ContextError` that names the store if it fails, or gives something else."""
    try:
        found = store.get(kind, key)
    except ContextError:
        raise
    except Exception as error:
        raise _failure(store, kind, key, error) from error
    if _takes_time(found) and not is_a(found, kind):
        found = yield Waiting(store, kind, key, found)
    return cast("T | None", _checked(store, kind, key, found))


def at_once(search: Search[T]) -> T:
    """The end of a search, or a `ContextError` if it would have to wait."""
    try:
        waiting = next(search)
    except StopIteration as end:
        return cast("T", end.value)
    search.close()
    raise waiting.refused()


def in_time(search: Search[T], waiting: Waiting | None = None) -> Flow[T]:
    """The end of a search, which may have come to what it waits for.

    Signals: one value, completion; `ContextError`.
    Cancels: the lookup in progress.
    """

    async def drive() -> T:
        here = waiting
        try:
            here = next(search) if here is None else here
            while True:
                try:
                    found = await here.flow()
                except ContextError as error:
                    here = search.throw(error)
                else:
                    here = search.send(found)
        except StopIteration as end:
            return cast("T", end.value)
        finally:
            if here is not None:
                here.close()
            search.close()

    return from_callable(drive)


def ask(store: ContextStore, kind: type[T], key: str) -> T | None:
    """As `asking`, of a store that answers at once."""
    return at_once(asking(store, kind, key))


def _checked(store: object, kind: type, key: str, found: object) -> object:
    if found is not None and not is_a(found, kind, unsure=True):
        raise ContextError(
            f"The store {_name(store)} was asked for {named(kind, key)} and gave a {type(found).__name__}.",
            wanted=kind.__name__,
        )
    return found


def _failure(store: object, kind: type, key: str, error: Exception) -> ContextError:
    failed = ContextError(
        f"The store {_name(store)} failed when it was asked for {named(kind, key)}: {type(error).__name__}: {error}",
        wanted=kind.__name__,
    )
    failed.__cause__ = error
    return failed


def _takes_time(found: object) -> bool:
    return inspect.isawaitable(found) or isinstance(found, abc.ObservableBase)


def _name(store: object) -> str:
    return type(store).__name__
