"""`ContextStore`: where a call's tools find the caller's objects that no call brings with it, by type and key.

    store = InMemoryContextStore(database, cache)                 under their own types
    store.register(replica, key="replica")                        a second one of its type
    store.register(FileCache(), as_=Cache)                        under a base class or protocol

    ReActAgent(..., context_store=store)      Toolkit(context_store=store)      RuntimeContext(store=store)

Asked are, in this order, the call's `RuntimeContext`, the store in it, the agent's and the toolkit's; the first that
has an object gives it. A store of your own, such as one in front of a dependency injection container, is any object
with `get(kind, key)` that answers at once.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import NoReturn, Protocol, Self, TypeVar, cast

from agentscope_rx.errors import ConfigurationError, ContextError, InvalidInputError
from agentscope_rx.reactive.kernel.forking import new_lock

T = TypeVar("T")

Held = Mapping[tuple[type, str], object]
"""Objects by type and key. Replaced as a whole by each change, so that a lookup needs no lock."""


class ContextStore(Protocol):
    """Objects by type and key. Asked on the event loop, so it must not wait; from any thread."""

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
    """A store as given to `where`, or None; `ConfigurationError` if it is none, or one that cannot answer at once."""
    if store is None:
        return None
    get = getattr(store, "get", None)
    if not callable(get) or isinstance(store, (type, Mapping)):
        raise ConfigurationError(
            f"The store of {where} must be an object with get(kind, key), such as InMemoryContextStore(database), not "
            f"{cast('object', store)!r:.60}."
        )
    if inspect.iscoroutinefunction(get):
        raise ConfigurationError(f"The store of {where} must answer at once: {AT_ONCE}")
    return cast("ContextStore", store)


AT_ONCE = (
    "its get() is a coroutine. Let it give an object that waits when it is used, such as a connection pool, "
    "or ask for it before the call and hand it over in the RuntimeContext."
)


def view_of(store: ContextStore | None) -> ContextStore | None:
    """The store as it is now, where it can be held still: a caller's own store says itself what it holds."""
    return store.view() if isinstance(store, InMemoryContextStore) else store


def ask(store: ContextStore, kind: type[T], key: str) -> T | None:
    """What a store has; `ContextError` that names the store if it fails, waits, or gives something else."""
    try:
        found = store.get(kind, key)
    except ContextError:
        raise
    except Exception as error:
        raise ContextError(
            f"The store {_name(store)} failed when it was asked for {named(kind, key)}: "
            f"{type(error).__name__}: {error}",
            wanted=kind.__name__,
        ) from error
    if inspect.isawaitable(found) and not is_a(found, kind):
        if inspect.iscoroutine(found):
            found.close()
        raise ContextError(
            f"The store {_name(store)} was asked for {named(kind, key)} and must answer at once: {AT_ONCE}",
            wanted=kind.__name__,
        )
    if found is not None and not is_a(found, kind, unsure=True):
        raise ContextError(
            f"The store {_name(store)} was asked for {named(kind, key)} and gave a {type(found).__name__}.",
            wanted=kind.__name__,
        )
    return cast("T | None", found)


def _name(store: object) -> str:
    return type(store).__name__
