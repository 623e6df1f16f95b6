"""`sessions`: list, show, copy and delete what a store holds.

| command                           | does                                                                      |
|-----------------------------------|---------------------------------------------------------------------------|
| `sessions list STORE`             | prints the keys                                                           |
| `sessions show STORE KEY`         | prints the entries of a session                                           |
| `sessions export STORE TO [KEY]`  | copies sessions into another store, such as a folder of JSON files        |
| `sessions import STORE FROM [KEY]`| copies sessions of another store into this one                            |
| `sessions delete STORE KEY`       | deletes sessions                                                          |

A STORE is what `open_session` takes. A copy replaces nothing. What fails for one key is reported, and the others are
done; the exit status is that of a failure.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import TYPE_CHECKING

from agentscope_rx.cli.exit_codes import ANSWERED, note, report
from agentscope_rx.console.wording import clean, counted, one_line
from agentscope_rx.errors import AgentScopeError, InvalidInputError
from agentscope_rx.session import Session, copy_session, open_session

if TYPE_CHECKING:
    from argparse import _SubParsersAction

STORE = "a .db file, a folder, or a URL such as redis://host"
SHOWN = 300
"""The characters of a value that `show` prints without --json."""


def add_sessions(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to a command line."""
    text = "List, show, copy and delete saved conversations."
    whole = commands.add_parser("sessions", help=text[0].lower() + text[1:-1], description=text)
    actions = whole.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, help in (
        ("list", "print the keys"),
        ("show", "print the entries of a session"),
        ("export", "copy sessions into another store, such as a folder of JSON files"),
        ("import", "copy sessions of another store into this one"),
        ("delete", "delete sessions"),
    ):
        action = actions.add_parser(name, help=help, description=f"{help[0].upper()}{help[1:]}.")
        action.add_argument("store", metavar="STORE", help=STORE)
        if name in ("export", "import"):
            action.add_argument("other", metavar="TO" if name == "export" else "FROM", help=STORE)
            action.add_argument("key", metavar="KEY", nargs="*", help="only these sessions")
        elif name == "delete":
            action.add_argument("key", metavar="KEY", nargs="+", help="the sessions")
        elif name == "show":
            action.add_argument("key", metavar="KEY", help="the session")
        if name in ("list", "show"):
            action.add_argument("--json", action="store_true", help="print JSON")


def sessions(flags: argparse.Namespace) -> int:
    """Run one of the commands and return its exit status."""
    with closing(_Opened(flags.store)) as store:
        match flags.action:
            case "list":
                return _list(store.session, as_json=flags.json)
            case "show":
                return _show(store.session, flags.key, as_json=flags.json)
            case "delete":
                return _each(flags.key, lambda key: _delete(store.session, key))
            case action:
                with closing(_Opened(flags.other)) as other:
                    source, target = store.session, other.session
                    if action == "import":
                        source, target = target, source
                    return _each(flags.key or source.keys().run(), lambda key: _copy(source, target, key))


class _Opened:
    """A store that is closed at the end."""

    def __init__(self, place: str) -> None:
        self.session = open_session(place)

    def close(self) -> None:
        self.session.close().run()


def _list(session: Session, *, as_json: bool) -> int:
    keys = session.keys().run()
    if as_json:
        print(json.dumps(keys))
        return ANSWERED
    for key in keys:
        print(clean(key))
    if not keys:
        note(f"there are no sessions in {session!r}")
    return ANSWERED


def _show(session: Session, key: str, *, as_json: bool) -> int:
    saved = session.load_all(key).run()
    if saved.version is None:
        raise _missing(session, key)
    if as_json:
        whole = {"key": key, "version": saved.version, "values": saved.values, "lists": saved.lists}
        print(json.dumps(whole, indent=2))
        return ANSWERED
    print(f"{clean(key)}, version {saved.version}")
    for name, value in saved.values.items():
        print(f"{clean(name)}: {one_line(json.dumps(value, ensure_ascii=False), SHOWN)}")
    for name, items in saved.lists.items():
        print(f"{clean(name)}: {counted(len(items), 'item')}")
    return ANSWERED


def _copy(source: Session, target: Session, key: str) -> None:
    if copy_session(key, source, target).run() is None:
        if not source.exists(key).run():
            raise _missing(source, key)
        note(f"there is nothing to copy in {clean(key)}")
        return
    print(f"copied {clean(key)}")


def _delete(session: Session, key: str) -> None:
    if not session.delete(key).run():
        raise _missing(session, key)
    print(f"deleted {clean(key)}")


def _each(keys: Iterable[str], work: Callable[[str], None]) -> int:
    status = ANSWERED
    for key in keys:
        try:
            work(key)
        except AgentScopeError as error:
            status = report(error)
    return status


def _missing(session: Session, key: str) -> InvalidInputError:
    return InvalidInputError(f"There is no session {key!r} in {session!r}.")
