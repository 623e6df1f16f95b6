"""`RuntimeContext`: the caller's objects for one call. `ContextStore`: those of every call. Both find them by type.

The first match wins, in this order: the call's `RuntimeContext`, its store, the agent's store, the toolkit's store.

    context = RuntimeContext(database, user, session_id="s1", tenant="acme")
    agent.call("hi", context=context)

    event.context.get(Database)             in a hook: the database, or None
    context.require(Database)               the database, or a `ContextError` that names the missing type
    context.put(replica, key="replica")     a second value of its type, under a key
    context.attributes["tenant"]            a value that has a name but no type of its own

    store = InMemoryContextStore(database, cache).register(FileCache(), as_=Cache)
    ReActAgent(..., context_store=store)      Toolkit(context_store=store)      RuntimeContext(store=store)
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Generator, Iterator, Mapping, MutableMapping
from typing import NoReturn, Protocol, Self, TypeVar, cast

from reactivex import abc
from reactivex import operators as ops

from agentscope_rx.errors import ConfigurationError, ContextError, InvalidInputError
from agentscope_rx.messages.frozen import check_encodable, freeze
from agentscope_rx.reactive import Flow, SourceCancelledError, catch, concat_map, defer, from_callable, throw, timeout
from agentscope_rx.reactive.kernel.forking import new_lock

__all__ = ["ContextStore", "InMemoryContextStore", "RuntimeContext"]

T = TypeVar("T")

Held = Mapping[tuple[type, str], object]
"""Objects by type and key. Each change replaces the mapping, so that a lookup needs no lock."""


class ContextStore(Protocol):
    """Objects by type and key, such as those of a dependency injection container. Any object with this `get` is one.

    `get` is called on event loops of any thread, so it must not block. It may be a coroutine function, or return an
    awaitable or an Observable, whose first value counts. A store may have a `lookup_timeout` in seconds (None: no
    limit); the default is 30.

    | the store                                     | then                                                      |
    |-----------------------------------------------|-----------------------------------------------------------|
    | returns None, or an empty Observable          | the next place is searched                                |
    | fails, or returns another type                | `ContextError` that names the store, the type and the key |
    | takes longer than `lookup_timeout`            | the same; a tool's own deadlines run meanwhile            |
    | is no longer needed by the call               | the lookup is cancelled or disposed                       |
    | takes time in `get` or `require` of a context | `ContextError`: these are called without `await`          |

    Injected arguments wait for a store, and so does `await context.fetch(T)` in a tool.
    """

    def get(self, kind: type, key: str, /) -> object:
        """The object of this type (or of a subclass) under `key`, "" for none; None if there is none."""
        ...


class InMemoryContextStore:
    """Objects in this process, found as in `RuntimeContext`: by subclass, too, and several matches are an error.

        store = InMemoryContextStore(Database())                 # under its type
        store.register("postgres://replica", "replica")          # under its type and a key
        agent = ReActAgent("Friday", model, tools=[orders], context_store=store)

    `register(value, key, as_=T)` tells two values of a type apart. A run sees the objects that were registered when it
    began.
    """

    __slots__ = ("_held", "_lock")

    def __init__(self, *values: object) -> None:
        self._lock = new_lock()
        self._held: Held = {}
        for value in values:
            self.register(value)

    def register(self, value: object, key: str = "", *, as_: type | None = None) -> Self:
        """Register `value` under its own type, or under `as_`, and replace the old one; returns the store."""
        with self._lock:
            self._held = with_value(self._held, value, key, as_, self)
        return self

    def get(self, kind: type[T], key: str = "") -> T | None:
        """The object of this type under `key`, or None. `ContextError` if several match."""
        check_asked(kind, self)
        return find(self._held, kind, key, self)

    def view(self) -> InMemoryContextStore:
        """A copy of the store at this moment: later registrations do not change it."""
        view = InMemoryContextStore()
        view._held = self._held
        return view

    def __repr__(self) -> str:
        # names only: the values may be secrets
        return f"<InMemoryContextStore {names_of(self._held) or 'empty'}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("An InMemoryContextStore holds live objects of one process: it is neither pickled nor saved.")


# --- holding objects --------------------------------------------------------------------------------------------------


def find(held: Held, kind: type[T], key: str, where: object) -> T | None:
    """The value under this type and key, else the one value of the type; `ContextError` if several match."""
    exact = held.get((kind, key))
    if exact is not None:
        return cast("T", exact)
    found = [value for (_, under), value in held.items() if under == key and is_a(value, kind)]
    if any(value is not found[0] for value in found[1:]):
        raise ContextError(
            f"The {type(where).__name__} holds several values that match {named(kind, key)}: "
            f"{', '.join(type(value).__name__ for value in found)}. Ask for one of these types, or choose one "
            f"with {'register' if isinstance(where, InMemoryContextStore) else 'put'}(value, "
            f"as_={kind.__name__}).",
            wanted=kind.__name__,
        )
    return cast("T", found[0]) if found else None


def with_value(held: Held, value: object, key: str, as_: type | None, where: object) -> Held:
    """The mapping with this value; `InvalidInputError` if it cannot be held."""
    if value is None:
        hint = "" if isinstance(where, InMemoryContextStore) else " Use remove(type, key) to remove a value."
        raise InvalidInputError(f"None cannot be put into {type(where).__name__}.{hint}")
    if as_ is not None and not is_a(value, as_, unsure=True):
        raise InvalidInputError(f"as_={as_.__name__} does not fit: the value is of type {type(value).__name__}.")
    return {**held, (as_ or type(value), key): value}


def check_asked(kind: object, where: object) -> None:
    """`InvalidInputError` for a name in place of a type."""
    if isinstance(kind, str):
        raise InvalidInputError(
            f"{type(where).__name__} looks objects up by type: use get(str, {kind!r}) for the attribute {kind!r}, or "
            f"attributes[{kind!r}]."
        )


def is_a(value: object, kind: type, *, unsure: bool = False) -> bool:
    """True if the value is of this type; `unsure` is the result for a protocol that Python cannot check."""
    try:
        return isinstance(value, kind)
    except TypeError:
        return unsure


def named(kind: type, key: str) -> str:
    """A type and a key for messages."""
    return f"{kind.__name__} under the key {key!r}" if key else kind.__name__


def names_of(held: Held) -> str:
    """The names of the types and keys."""
    return ", ".join(kind.__name__ + (f"[{key!r}]" if key else "") for kind, key in held)


# --- asking a store ---------------------------------------------------------------------------------------------------


def check_store(store: object, where: str) -> ContextStore | None:
    """The store given to `where`, or None; `ConfigurationError` if it is not a store."""
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
    """A copy of an `InMemoryContextStore` at this moment; other stores as they are."""
    return store.view() if isinstance(store, InMemoryContextStore) else store


LOOKUP_SECONDS = 30.0
"""The `lookup_timeout` of stores that have none."""


class Waiting:
    """A lookup that takes time: a store returned an awaitable or an Observable."""

    __slots__ = ("_begun", "_found", "_key", "_kind", "_store")

    def __init__(self, store: ContextStore, kind: type, key: str, found: object) -> None:
        self._store = store
        self._kind = kind
        self._key = key
        self._found = found
        self._begun = False

    def flow(self) -> Flow[object]:
        """The object, or None: the first value. `ContextError` if the lookup fails or takes too long.

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
        """The error for a caller that cannot wait."""
        self.close()
        return ContextError(
            f"The store {_name(self._store)} needs time to look up a {named(self._kind, self._key)}, and get() cannot "
            f"wait. In a tool use a parameter Annotated[{self._kind.__name__}, Inject], or "
            f"`await context.fetch({self._kind.__name__})`.",
            wanted=self._kind.__name__,
        )

    def close(self) -> None:
        """Close a coroutine that was not begun, so that Python does not warn about it."""
        if not self._begun and inspect.iscoroutine(self._found):
            self._found.close()

    def _begin(self) -> Awaitable[object]:
        self._begun = True
        return cast("Awaitable[object]", self._found)

    def _checked(self, found: object) -> object:
        return _checked(self._store, self._kind, self._key, found)

    def _late(self, seconds: float) -> ContextError:
        return ContextError(
            f"The store {_name(self._store)} did not return a {named(self._kind, self._key)} within {seconds:g} s.",
            wanted=self._kind.__name__,
        )

    def _failed(self, error: Exception) -> Flow[object]:
        passes = isinstance(error, (ContextError, SourceCancelledError))
        return throw(error if passes else _failure(self._store, self._kind, self._key, error))


Search = Generator[Waiting, object, T]
"""A search over several places; yields each lookup that takes time. `at_once` or `in_time` runs it."""


def asking(store: ContextStore, kind: type[T], key: str) -> Search[T | None]:
    """The object of a store; `ContextError` that names the store if it fails or returns another type."""
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
    """The result of a search, or a `ContextError` if it has to wait."""
    try:
        waiting = next(search)
    except StopIteration as end:
        return cast("T", end.value)
    search.close()
    raise waiting.refused()


def in_time(search: Search[T], waiting: Waiting | None = None) -> Flow[T]:
    """The result of a search, which waits where it has to.

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
    """Like `asking`, for a store that does not take time."""
    return at_once(asking(store, kind, key))


def _checked(store: object, kind: type, key: str, found: object) -> object:
    if found is not None and not is_a(found, kind, unsure=True):
        raise ContextError(
            f"The store {_name(store)} must return a {named(kind, key)} or None, not {type(found).__name__}.",
            wanted=kind.__name__,
        )
    return found


def _failure(store: object, kind: type, key: str, error: Exception) -> ContextError:
    failed = ContextError(
        f"The store {_name(store)} failed to look up a {named(kind, key)}: {type(error).__name__}: {error}",
        wanted=kind.__name__,
    )
    failed.__cause__ = error
    return failed


def _takes_time(found: object) -> bool:
    return inspect.isawaitable(found) or isinstance(found, abc.ObservableBase)


def _name(store: object) -> str:
    return type(store).__name__


class _Attributes(MutableMapping[str, object]):
    """A mapping that several threads can read and change; an iteration sees the names at its start."""

    __slots__ = ("_values",)

    def __init__(self, values: dict[str, object]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> object:
        return self._values[name]

    def __setitem__(self, name: str, value: object) -> None:
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInputError(f"An attribute of a RuntimeContext is named by a str, not {name!r:.60}.")
        self._values[name] = value

    def __delitem__(self, name: str) -> None:
        del self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._values))

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"<attributes {', '.join(self)}>"


def _layers(given: object) -> Mapping[str, Mapping[str, object]]:
    """`tool_arguments` as a frozen copy; `InvalidInputError` if they are not arguments by name, by tool name."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InvalidInputError(f"{_LAYERS}, not {given!r:.60}.")
    for name, arguments in cast("Mapping[object, object]", given).items():
        if not isinstance(name, str) or not isinstance(arguments, Mapping):
            raise InvalidInputError(f"{_LAYERS}, not {name!r:.60}: {type(arguments).__name__}.")
        if strange := [each for each in cast("Mapping[object, object]", arguments) if not isinstance(each, str)]:
            raise InvalidInputError(f"{_LAYERS}: an argument is named by a str, not {strange[0]!r:.60}.")
    return cast("Mapping[str, Mapping[str, object]]", freeze(cast("Mapping[str, object]", given), "tool_arguments"))


_LAYERS = 'tool_arguments are arguments by tool name, as in {"search": {"limit": 3}}'


class RuntimeContext:
    """The caller's objects for one call, such as a database connection, for its hooks and tools. Thread-safe.

    `values` are found by their type, a base class or a protocol of it; `attributes` by their name. Other objects are
    looked up in `store`, a `ContextStore`. If several values match, `get` and `require` raise `ContextError`: choose
    one with `put(value, as_=T)`, or use keys. A context is never saved, and is not part of an event's JSON.

    `tool_arguments` maps tool names to arguments that replace the model's, in this run and its sub-agents; it is
    read-only.

    - **Precedence**: fixed presets, then these, then the model's values, then presets of the mode "default". The model
      sees the parameter as usual, but need not send it.
    - **Validation** takes place when the run begins. `InvalidInputError` names a tool that neither the agent nor a
      sub-agent has, and an unknown or invalid argument. Tools of inactive groups count.
    - **A tool that is replaced** during the run and no longer takes them is not called: the result is a
      `ToolArgumentsError`.
    - **Not shown**: messages, events and `ToolContext.call` have the model's values. Approval rules judge the final
      arguments, but a person sees the model's. A suspended call's placeholder has the final ones.
    """

    __slots__ = ("_lock", "_store", "_values", "attributes", "session_id", "tool_arguments", "user_id")

    def __init__(
        self,
        *values: object,
        session_id: str | None = None,
        user_id: str | None = None,
        store: ContextStore | None = None,
        tool_arguments: Mapping[str, Mapping[str, object]] | None = None,
        **attributes: object,
    ) -> None:
        for name, id in (("session_id", session_id), ("user_id", user_id)):
            if isinstance(id, str):
                check_encodable(id, f"RuntimeContext.{name}")
        self.session_id: str | None = session_id
        self.user_id: str | None = user_id
        self.attributes: MutableMapping[str, object] = _Attributes(attributes)
        self.tool_arguments: Mapping[str, Mapping[str, object]] = _layers(tool_arguments)
        self._lock = new_lock()
        self._store = view_of(check_store(store, "a RuntimeContext"))
        self._values: Held = {}
        for value in values:
            self.put(value)

    def get(self, kind: type[T], key: str = "") -> T | None:
        """The value of this type (or a subclass) and key, or None. `ContextError` if several values match.

        With a key, an attribute of that name is found, too, as are "session_id" and "user_id".
        """
        return at_once(self.search(kind, key))

    def search(self, kind: type[T], key: str = "") -> Search[T | None]:
        """Like `get`, as a generator that yields to wait for a store."""
        if kind is RuntimeContext and not key:
            return cast("T", self)
        check_asked(kind, self)
        found = find(self._values, kind, key, self)
        if found is not None:
            return found
        attribute = self._attribute(key) if key else None
        if attribute is not None and is_a(attribute, kind):
            return cast("T", attribute)
        return None if self._store is None else (yield from asking(self._store, kind, key))

    def require(self, kind: type[T], key: str = "") -> T:
        """Like `get`, but raises a `ContextError` that names the type if there is no value."""
        found = self.get(kind, key)
        if found is None:
            raise self.missing(kind, key)
        return found

    def missing(self, kind: type, key: str = "") -> ContextError:
        """The error for a required value that is not there."""
        return ContextError(
            f"The RuntimeContext of this call holds no {named(kind, key)}. Give the call one: "
            f"context=RuntimeContext(...), or context.put(value{f', key={key!r}' if key else ''}).",
            wanted=kind.__name__,
        )

    def put(self, value: object, key: str = "", *, as_: type | None = None) -> None:
        """Put `value` under its own type, or under `as_`, and replace the old one."""
        if isinstance(value, RuntimeContext):
            raise InvalidInputError("A RuntimeContext holds a caller's objects, not another RuntimeContext.")
        with self._lock:
            self._values = with_value(self._values, value, key, as_, self)

    def remove(self, kind: type[T], key: str = "") -> T | None:
        """Remove and return the value under exactly this type and key; None if there is none."""
        with self._lock:
            values = dict(self._values)
            found = values.pop((kind, key), None)
            self._values = values
        return cast("T | None", found)

    def _attribute(self, key: str) -> object:
        if key in ("session_id", "user_id"):
            return self.session_id if key == "session_id" else self.user_id
        return self.attributes.get(key)

    def __repr__(self) -> str:
        # names only: the values may be secrets
        return f"<RuntimeContext {', '.join(filter(None, [names_of(self._values), *self.attributes])) or 'empty'}>"

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        # a copied event belongs to the same call
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("A RuntimeContext holds live objects of one process: it is neither pickled nor saved.")
