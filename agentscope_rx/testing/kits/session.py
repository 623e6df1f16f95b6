"""`check_session`: the laws of the `Session` port, each a coroutine function that fails or returns."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from functools import partial
from typing import cast

from agentscope_rx.errors import InvalidInputError, SessionConflictError, SessionValueError
from agentscope_rx.session import Items, ListTail, Saved, Session, Unchanging
from agentscope_rx.testing.kits.probe import Probe
from agentscope_rx.testing.kits.publisher import apply_rules
from agentscope_rx.testing.kits.publisher_rules import Publisher
from agentscope_rx.testing.kits.rules import Kit, KitReport, check_factory, equal, name_of, raises, require
from agentscope_rx.testing.record import DroppedErrors

Make = Callable[[], Session]

ODD_KEYS = (
    ".", "..", "../..", "/", "/etc/passwd", "~", "a/b", "a\\b", "C:\\x", "\x00", "a\nb", "-rf", "con", "a.", " a", "a ",
    "a:b", "*?<>|\"'`$()", "%2e%2e", "=", "lock", "state.1.json", "Ann", "ann", "é", "e\u0301", "ß", "ss",
    "\ud83d\ude00", "x" * 255, "x" * 256, "x" * 3000, "x" * 2999 + "y", "../" * 500, "; drop table sessions", "_", "%",
)  # fmt: skip
"""Keys and names that file systems, shells and databases treat in ways of their own."""


async def _holds(session: Session, key: str, values: dict[str, object], lists: dict[str, list[object]]) -> None:
    saved = await session.load_all(key)
    equal(saved.values, values, f"the values of session {key!r:.40}")
    equal(saved.lists, lists, f"the lists of session {key!r:.40}")


async def _round_trip(make: Make, dropped: DroppedErrors) -> None:
    session = make()
    await session.save("ann", "state", {"version": 1})
    await session.save_list("ann", "memory", ["a", {"b": [1, 2.5, None, True]}])
    equal(await session.load("ann", "state"), {"version": 1}, "the loaded value")
    equal(await session.load_list("ann", "memory"), ["a", {"b": [1, 2.5, None, True]}], "the loaded list")
    await _holds(session, "ann", {"state": {"version": 1}}, {"memory": ["a", {"b": [1, 2.5, None, True]}]})
    part = await session.load_all("ann", ["state", "other"])
    equal(part, Saved({"state": {"version": 1}}), "what is loaded of the names state and other")
    equal((await session.load_all("ann", [])).values, {}, "what is loaded of no names")


async def _missing(make: Make, dropped: DroppedErrors) -> None:
    session = make()
    equal(await session.load("ann", "state"), None, "a missing value")
    equal(await session.load_list("ann", "memory"), [], "a missing list")
    equal(await session.load_all("ann"), Saved(), "a missing session")
    equal((await session.load_all("ann")).version, None, "the version of a missing session")
    require(await session.exists("ann") is False, "a missing session exists")
    equal(await session.keys(), [], "the keys of an empty store")
    require(await session.delete("ann") is False, "delete emitted no False for a missing session")
    require(await session.remove("ann", "state") is False, "remove emitted no False for a missing entry")


async def _json(make: Make, dropped: DroppedErrors) -> None:
    session = make()
    text = "\r\n \x85\u2028 \x00 \ud83d\ude00 \ud800"
    value = {"tuple": (1, (2,)), 3: "three", "text": text, "big": 10**30, "small": 1e-300, "none": None}
    await session.save_all("k", {"v": value, "empty": {}}, {"l": [value, [], "", False]})
    read = cast("object", json.loads(json.dumps(value)))
    await _holds(session, "k", {"v": read, "empty": {}}, {"l": [read, [], "", False]})
    await session.save_list("k", "l", [Unchanging({"a": 1}), {"b": 2}])
    equal(await session.load_list("k", "l"), [{"a": 1}, {"b": 2}], "a list with an Unchanging item")


async def _refused(make: Make, dropped: DroppedErrors) -> None:
    session = make()
    await session.save_all("k", {"v": "old"}, {"l": ["old"]})
    for wrong in (object(), {1, 2}, b"x", float("nan"), {"deep": [float("inf")]}):
        what = f"the save of {wrong!r:.30}"
        await raises(session.save_all("k", {"v": "new", "w": wrong}, {"l": ["new"]}), SessionValueError, what)
        await raises(session.save_all("k", {"v": "new"}, {"l": ["new", wrong]}), SessionValueError, what)
    await raises(session.save_all("k", {"x": 1}, {"x": []}), InvalidInputError, "a value and a list of one name")
    await _holds(session, "k", {"v": "old"}, {"l": ["old"]})


async def _blank(make: Make, dropped: DroppedErrors) -> None:
    session = make()
    for blank in ("", " \t\n"):
        for operation in (
            session.save(blank, "n", 1),
            session.load_all(blank),
            session.exists(blank),
            session.delete(blank),
            session.remove(blank, "n"),
            session.save("k", blank, 1),
            session.load_all("k", ["a", blank]),
            session.remove("k", blank),
        ):
            await raises(operation, InvalidInputError, f"an operation with the blank key or name {blank!r}")
    await raises(session.save(cast("str", None), "n", 1), InvalidInputError, "a save under the key None")
    equal(await session.keys(), [], "the keys after refused operations")


async def _copies(make: Make, dropped: DroppedErrors) -> None:
    session = make()
    inner: list[object] = [1]
    items: list[object] = [{"n": inner}]
    save = session.save_all("k", {"v": {"inner": inner}}, {"l": items})
    inner.append(2)
    await save
    expected: tuple[dict[str, object], dict[str, list[object]]] = ({"v": {"inner": [1, 2]}}, {"l": [{"n": [1, 2]}]})
    await _holds(session, "k", *expected)
    inner.append(3)
    items.append(4)
    await _holds(session, "k", *expected)
    loaded = await session.load_all("k")
    cast("dict[str, list[object]]", loaded.values["v"])["inner"].append(9)
    loaded.lists["l"].clear()
    await _holds(session, "k", *expected)


async def _cold(make: Make, dropped: DroppedErrors) -> None:
    session = make()
    save, load, delete = session.save_all("k", {"v": 1}), session.load_all("k"), session.delete("k")
    require(await session.exists("k") is False, "a save took place before it was subscribed to")
    await save
    equal((await load).values, {"v": 1}, "what a load reads when it is subscribed to")
    require(await delete is True and await delete is False, "the second subscription to delete found a session")
    await save
    equal((await load).values, {"v": 1}, "what the second subscription to a load reads")


async def _one_signal(make: Make, dropped: DroppedErrors) -> None:
    session = make()
    await session.save_all("k", {"v": 1, "w": 2})
    for name, operation, kind in (
        ("save_all", session.save_all("k", {"v": 2}), str),
        ("save", session.save("k", "v", 3), type(None)),
        ("load_all", session.load_all("k"), Saved),
        ("exists", session.exists("k"), bool),
        ("keys", session.keys(), list),
        ("remove", session.remove("k", "w"), bool),
        ("delete", session.delete("k"), bool),
        ("close", session.close(), type(None)),
        ("close, again", session.close(), type(None)),
    ):
        probe = await Probe().start(operation).end()
        probe.verify()
        fits = probe.completed and len(probe.values) == 1 and isinstance(probe.values[0], kind)
        require(fits, f"{name} emitted {probe.values!r:.80}, {probe.text}, not one {kind.__name__}")


async def _overwrites(make: Make, dropped: DroppedErrors) -> None:
    session = make()
    await session.save_all("k", {"v": {"a": 1, "b": 2}, "w": 1}, {"l": [1]})
    await session.save("k", "v", {"c": 3})
    await _holds(session, "k", {"v": {"c": 3}, "w": 1}, {"l": [1]})
    lists: list[list[object]] = [[1, 2, 3], [1, 9, 3], [1, 2], [], [9, 2, 3], [9, 2, 3, 4, 5], [5]]
    for items in lists:
        await session.save_list("k", "l", items)
        equal(await session.load_list("k", "l"), items, "a list that was replaced")


async def _tails(make: Make, dropped: DroppedErrors) -> None:
    session = make()
    expected: list[object] = []
    tails: list[tuple[list[object], int | None]] = [
        ([1, 2], None),
        ([3], 2),
        ([4, 5], None),
        ([9], 1),
        ([], 1),
        ([7], 0),
        ([8], 1),
        ([], 0),
        (["x"], None),
    ]
    for number, (items, start) in enumerate(tails):
        expected = [*(expected if start is None else expected[:start]), *items]
        lists: dict[str, Items] = {"l": ListTail([Unchanging(item) for item in items], start), "other": [number]}
        await session.save_all("k", {"n": number}, lists)
        await _holds(session, "k", {"n": number}, {"l": expected, "other": [number]})
    before = (await session.load_all("k")).version
    what = "a tail behind a gap"
    await raises(session.save_all("k", {"n": -1}, {"l": ListTail([1], 9)}), InvalidInputError, what)
    await raises(session.save_all("k", {"m": 1}, {"new": ListTail([1], 1)}), InvalidInputError, what)
    await raises(session.save_all("k", {"m": 1}, {"n": ListTail([1])}), InvalidInputError, "a tail of a single value")
    await raises(
        session.save_all("k", {"m": 1}, {"l": ListTail([object()], 0)}), SessionValueError, "a tail without JSON"
    )
    equal((await session.load_all("k")).version, before, "the version after refused tails")
    await _holds(session, "k", {"n": len(tails) - 1}, {"l": expected, "other": [len(tails) - 1]})
    await session.save_all("k", {}, {"n": ListTail([1], 0)})
    equal(await session.load_list("k", "n"), [1], "a list in place of a value")


async def _kinds(make: Make, dropped: DroppedErrors) -> None:
    session = make()
    await session.save("k", "x", [1])
    await raises(session.load_list("k", "x"), InvalidInputError, "load_list of a single value")
    await session.save_list("k", "x", [1])
    await raises(session.load("k", "x"), InvalidInputError, "load of a list")
    await session.save("k", "x", None)
    equal(await session.load("k", "x"), None, "a saved None")
    require(await session.exists("k"), "a session whose entry is None does not exist")
    await _holds(session, "k", {"x": None}, {})


async def _deletion(make: Make, dropped: DroppedErrors) -> None:
    session = make()
    await session.save_all("k", {"v": 1}, {"l": [1, 2]})
    require(await session.remove("k", "l") is True, "remove emitted no True for an entry")
    require(await session.remove("k", "l") is False, "remove emitted no False for an entry that is gone")
    await _holds(session, "k", {"v": 1}, {})
    await session.remove("k", "v")
    require(await session.exists("k") is False, "a session exists without an entry")
    equal(await session.keys(), [], "the keys without an entry")
    await session.save_all("k", {})
    require(await session.exists("k") is False, "a save of nothing made a session")
    await session.save_list("k", "l", [])
    require(await session.exists("k") is True, "a session with an empty list does not exist")
    require(await session.delete("k") is True, "delete emitted no True for a session")
    await _holds(session, "k", {}, {})
    await session.save("k", "v", 2)
    await _holds(session, "k", {"v": 2}, {})


async def _apart(make: Make, dropped: DroppedErrors) -> None:
    session = make()
    for key in ("b", "a"):
        await session.save_all(key, {"v": key}, {"l": [key]})
    await session.save("a", "v", "new")
    equal(await session.keys(), ["a", "b"], "the sorted keys")
    await _holds(session, "a", {"v": "new"}, {"l": ["a"]})
    await session.delete("a")
    await _holds(session, "b", {"v": "b"}, {"l": ["b"]})
    equal(await session.keys(), ["b"], "the keys after a deletion")


async def _odd(make: Make, dropped: DroppedErrors) -> None:
    session = make()
    for number, key in enumerate(ODD_KEYS):
        await session.save_all(key, {"n": number, key: [number]}, {f"{key} list": [number]})
    equal(await session.keys(), sorted(ODD_KEYS), "the keys")
    for number, key in enumerate(ODD_KEYS):
        await _holds(session, key, {"n": number, key: [number]}, {f"{key} list": [number]})
    for key in ODD_KEYS[::2]:
        require(await session.delete(key) is True, f"session {key!r:.40} could not be deleted")
    equal(await session.keys(), sorted(ODD_KEYS[1::2]), "the keys after deletions")


async def _versions(make: Make, dropped: DroppedErrors) -> None:
    session = make()
    first = await session.save_all("k", {"v": 1}, {"l": [1]}, expected=None)
    equal((await session.load_all("k", [])).version, first, "the version that is loaded after a save")
    require(first is not None, "a save emitted no version")
    await session.save_all("j", {"v": 1})
    equal((await session.load_all("k")).version, first, "the version after a save of another session")
    second = await session.save_all("k", {"v": 2}, expected=first)
    require(second not in (None, first), f"the version stayed {second!r} over a change")
    for expected in (None, first, "unknown"):
        save = session.save_all("k", {"v": 9, "w": 9}, {"l": [9]}, expected=expected)
        await raises(save, SessionConflictError, f"a save at version {second} that expected {expected!r}")
    await _holds(session, "k", {"v": 2}, {"l": [1]})
    await session.delete("k")
    await raises(session.save_all("k", {"v": 3}, expected=second), SessionConflictError, "a save over a deletion")
    require(await session.exists("k") is False, "a refused save made a session")
    await session.save_all("k", {"v": 4})
    save = session.save_all("k", {"v": 5}, expected=second)
    await raises(save, SessionConflictError, "a save over a session that was deleted and made again")


async def _writers(make: Make, dropped: DroppedErrors) -> None:
    session = make()
    before = await session.save_all("k", {"v": 0})
    saves = [session.save_all("k", {"v": n}, {"l": [n]}, expected=before).as_task() for n in range(1, 6)]
    found = await asyncio.gather(*saves, return_exceptions=True)
    won = [n for n, each in enumerate(found, 1) if not isinstance(each, BaseException)]
    equal(len(won), 1, "the number of writers that won at one version")
    await _holds(session, "k", {"v": won[0]}, {"l": [won[0]]})
    lost = [type(each) for each in found if isinstance(each, BaseException)]
    equal(lost, [SessionConflictError] * 4, "the errors of the others")
    names = [f"n{number}" for number in range(8)]
    await asyncio.gather(*(session.save_all("j", {name: 1}, {f"{name} list": [1]}) for name in names))
    saved = await session.load_all("j")
    equal((sorted(saved.values), len(saved.lists)), (names, 8), "the entries that writers saved at the same time")


async def _threads(make: Make, dropped: DroppedErrors) -> None:
    session = make()

    def count(writer: int) -> None:
        for number in range(6):
            session.save_all(f"own {writer}", {"n": number}).run()
            session.save("shared", f"{writer}-{number}", number).run()

    loop = asyncio.get_running_loop()
    await asyncio.gather(*(loop.run_in_executor(None, count, writer) for writer in range(3)))
    equal(len((await session.load_all("shared")).values), 18, "the number of entries that threads saved")
    equal(await session.keys(), ["own 0", "own 1", "own 2", "shared"], "the keys")


async def _disposed(make: Make, dropped: DroppedErrors) -> None:
    for turns in range(4):
        session = make()
        await session.save_all("k", {"v": 1}, {"l": [1]})
        probe = Probe().start(session.save_all("k", {"v": 2}, {"l": [2]}))
        for _ in range(turns):
            await asyncio.sleep(0)
        if not probe.over:
            probe.dispose()
        await probe.end()
        saved = await session.load_all("k")
        found = (saved.values["v"], saved.lists["l"])
        require(found in ((1, [1]), (2, [2])), f"after a disposal it holds {found}, a part")
        await session.save("k", "v", 3)
        equal(await session.load("k", "v"), 3, "a value that was saved after a disposal")


_LAWS: tuple[tuple[str, str, Callable[[Make, DroppedErrors], Coroutine[object, object, None]]], ...] = (
    ("round trip", "what is saved is loaded, as a whole and by names", _round_trip),
    ("missing", "missing entries are None, [] or left out; a missing session does not exist", _missing),
    ("json", "values come back as JSON: tuples as lists, keys as text", _json),
    ("refused", "a value without JSON is a SessionValueError, and nothing of its save is stored", _refused),
    ("blank", "a blank key or name is an InvalidInputError", _blank),
    ("copies", "values are copied at subscription, and what is loaded is a copy", _copies),
    ("cold", "an operation takes place at each subscription, and not before", _cold),
    ("one signal", "an operation emits its one result, then completion", _one_signal),
    ("overwrite", "a save replaces its entries as a whole, and leaves the others", _overwrites),
    ("tails", "a tail keeps the items before it, and replaces all that follow", _tails),
    ("kinds", "the last save makes an entry a value or a list", _kinds),
    ("deletion", "a session exists while it has an entry", _deletion),
    ("apart", "sessions are apart, and keys lists them in order", _apart),
    ("odd keys", "any text that is not blank is a key, and a name", _odd),
    ("versions", "a save that expects another version changes nothing", _versions),
    ("writers", "changes at the same time take place one after the other", _writers),
    ("threads", "changes from several threads are all stored", _threads),
    ("disposal", "a save that is disposed is stored whole or not at all, and the store works on", _disposed),
)


def check_session(make: Callable[[], Session], *, name: str | None = None, real_time: bool = False) -> KitReport:
    """Check the stores that `make` returns; each call of it makes a new and empty one.

    The rules are the laws of `Session`, and those of a publisher for `load_all` and `save_all`.
    """
    check_factory(make, "Session", "lambda: InMemorySession()")
    kit = Kit(name or name_of(make), real_time=real_time)
    make = kit.named(make)
    for rule, law, check in _LAWS:
        kit.check(rule, law, partial(check, make))
    loads = Publisher(lambda: make().load_all("ann"), lambda: make().load_all(""), ahead=None)
    apply_rules(kit, loads, "load_all ")
    saves = Publisher(
        lambda: make().save_all("ann", {"state": 1}), lambda: make().save_all("ann", {"state": object()}), ahead=None
    )
    apply_rules(kit, saves, "save_all ")
    return kit.report()
