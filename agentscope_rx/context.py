"""`RuntimeContext`: what one call is given to work with, found by type. It belongs to the call, never to the agent.

    context = RuntimeContext(database, user, session_id="s1", tenant="acme")
    agent.call("hi", context=context)

    event.context.get(Database)             in a hook: the database, or None
    context.require(Database)               the database, or a `ContextError` that names what is missing
    context.put(replica, key="replica")     a second one of its type, under a key
    context.attributes["tenant"]            what has a name and no type of its own
    RuntimeContext(tool_arguments={"search": {"limit": 3}})       arguments of this run, over the model's

Asked for a base class or a protocol, it gives the one value that is of that kind; if several are, it asks for more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import NoReturn, Self, TypeVar, cast

from agentscope_rx.context_store import (
    ContextStore,
    Held,
    Search,
    asking,
    at_once,
    check_asked,
    check_store,
    find,
    is_a,
    named,
    names_of,
    view_of,
    with_value,
)
from agentscope_rx.errors import ContextError, InvalidInputError
from agentscope_rx.messages.frozen import check_encodable, freeze
from agentscope_rx.reactive.kernel.forking import new_lock

T = TypeVar("T")


class _Attributes(MutableMapping[str, object]):
    """A mapping that may be read and changed from several threads; iteration goes over the names of one moment."""

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
    """A typed bag for one call; may be read and changed by hooks and tools, from any thread, while the call runs.

    `values` are found by their type, `attributes` by their name; `store` is asked for what is not among them (see
    `agentscope_rx.context_store`). `tool_arguments` are arguments by tool name, in the place of the model's, for all
    calls of this run and of its sub-agents (see `agentscope_rx.tools.argument_wrappers`); read-only.
    It is never saved and never part of an event's JSON.
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
        self.session_id = session_id
        self.user_id = user_id
        self.attributes: MutableMapping[str, object] = _Attributes(attributes)
        self.tool_arguments: Mapping[str, Mapping[str, object]] = _layers(tool_arguments)
        self._lock = new_lock()
        self._store = view_of(check_store(store, "a RuntimeContext"))
        self._values: Held = {}
        for value in values:
            self.put(value)

    def get(self, kind: type[T], key: str = "") -> T | None:
        """The value of this type (or of a subclass) under `key`; None if there is none. `ContextError` if several are.

        With a key, what the attributes (and `session_id`, `user_id`) hold under that name counts, too.
        """
        return at_once(self.search(kind, key))

    def search(self, kind: type[T], key: str = "") -> Search[T | None]:
        """As `get`, for those who wait where the store takes time."""
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
        """As `get`, but a `ContextError` that names the type if there is none."""
        found = self.get(kind, key)
        if found is None:
            raise self.missing(kind, key)
        return found

    def missing(self, kind: type, key: str = "") -> ContextError:
        """The error of somebody who needs what is not there."""
        return ContextError(
            f"The RuntimeContext of this call holds no {named(kind, key)}. Give the call one: "
            f"context=RuntimeContext(...), or context.put(value{f', key={key!r}' if key else ''}).",
            wanted=kind.__name__,
        )

    def put(self, value: object, key: str = "", *, as_: type | None = None) -> None:
        """Hold `value` under its own type, or under `as_`, in the place of what was there."""
        if isinstance(value, RuntimeContext):
            raise InvalidInputError("A RuntimeContext holds a caller's objects, not another RuntimeContext.")
        with self._lock:
            self._values = with_value(self._values, value, key, as_, self)

    def remove(self, kind: type[T], key: str = "") -> T | None:
        """Take out what was put under exactly this type and key, and return it; None if there was nothing."""
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
