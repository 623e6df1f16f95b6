"""Copies of sessions in other stores: to change the store, and to keep a conversation as files."""

from __future__ import annotations

from agentscope_rx.errors import ConfigurationError, SavedStateError
from agentscope_rx.reactive import Flow, flat_map, just
from agentscope_rx.session.lease.record import LEASE, read_lease
from agentscope_rx.session.session import Saved, Session


def copy_session(key: str, source: Session, target: Session, *, to: str | None = None) -> Flow[str | None]:
    """Copy all entries of a session into another store, or under the key `to`, in one save. Nothing is replaced.

    The copy is exact, but has no lease. Use a `JsonSession` to export and import: it keeps JSON files that any
    program can read.

    Signals: the version of the copy once it is stored, None if there is nothing to copy; then completion.
    `SessionConflictError` if the target has a session of that key, and nothing is written.
    Cancels: as `load_all` and `save_all`.
    """
    for store in (source, target):
        if not isinstance(store, Session):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError("copy_session needs two stores. For a path or a URL, give open_session(...).")
    name = key if to is None else to
    if source == target and name == key:
        raise ConfigurationError(f"Session {key!r} cannot be copied onto itself: name another store, or another key.")

    def save(saved: Saved) -> Flow[str | None]:
        if saved.version is None:
            return just(None)
        return target.save_all(name, _without_lease(key, saved.values), saved.lists, expected=None)

    return source.load_all(key).pipe(flat_map(save))


def _without_lease(key: str, values: dict[str, object]) -> dict[str, object]:
    try:
        read_lease(key, values)
    except SavedStateError:
        # another program's entry of that name
        return values
    return {name: value for name, value in values.items() if name != LEASE}
