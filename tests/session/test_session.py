"""What the stores do beyond the laws of the port, which tests/testing/test_session_kit.py checks of each."""

from __future__ import annotations

import asyncio
import json
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx.errors import InvalidInputError, SessionError, SessionValueError
from agentscope_rx.messages import Msg
from agentscope_rx.session import Saved, Session, Unchanging
from agentscope_rx.testing import run_virtual
from tests.session.stores import STORES


@pytest.fixture(params=list(STORES))
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Session:
    return STORES[request.param](tmp_path / "sessions")


def test_values_are_taken_when_the_save_is_subscribed_to(session: Session):
    async def main() -> object:
        value, items = {"n": 1}, [[1]]
        saving = session.save_all("k", {"v": value}, {"l": items}).as_task()
        await asyncio.sleep(0)
        value["n"] = 2
        items[0].append(2)
        await saving
        return await session.load_all("k")

    assert run_virtual(main()) == Saved({"v": {"n": 1}}, {"l": [[1]]})


@pytest.mark.spec("case 139", "case 140")
@pytest.mark.parametrize("before", [[], [1], [1, 2, 3]])
@pytest.mark.parametrize("after", [[], [1], [2], [1, 2, 3, 4], [1, 9, 3], [9, 2, 3], [1, 2, 9], [1, 2], [1, 2, 3]])
def test_a_list_grows_shrinks_and_changes_anywhere(session: Session, before: list[object], after: list[object]):
    """JsonSessionNewApiTest, ListHashUtilTest."""
    session.save_list("k", "l", before).run()
    session.save_list("k", "l", after).run()
    assert session.load_list("k", "l").run() == after


def test_the_last_save_makes_an_entry_a_value_or_a_list(session: Session):
    session.save("k", "x", [1]).run()
    assert session.load("k", "x").run() == [1]
    with pytest.raises(InvalidInputError, match=r"'x' of session 'k' is a single value. Read it with load\."):
        session.load_list("k", "x").run()
    session.save_list("k", "x", [1]).run()
    with pytest.raises(InvalidInputError, match=r"'x' of session 'k' is a list. Read it with load_list\."):
        session.load("k", "x").run()
    # the same text, but not the same thing
    session.save("k", "x", 1).run()
    session.save_list("k", "x", [1]).run()
    assert session.load_list("k", "x").run() == [1]
    session.save("k", "x", 1).run()
    assert session.load("k", "x").run() == 1
    session.save("k", "x", None).run()
    assert session.load("k", "x").run() is None and session.exists("k").run()
    with pytest.raises(InvalidInputError, match="a value and a list in one save"):
        session.save_all("k", {"x": 1}, {"x": []}).run()
    assert session.load_all("k").run() == Saved({"x": None}, {})


@pytest.mark.spec("case 142")
@pytest.mark.parametrize("blank", ["", " ", "\t\n ", "\u3000"])
def test_blank_keys_and_names_are_errors_of_the_flow(session: Session, blank: str):
    """Case 142, SimpleSessionKeyTest#testBlankSessionId."""
    for operation in (
        session.save(blank, "n", 1),
        session.save_all(blank, {}),
        session.save_list(blank, "n", []),
        session.load(blank, "n"),
        session.load_list(blank, "n"),
        session.load_all(blank),
        session.exists(blank),
        session.delete(blank),
        session.remove(blank, "n"),
    ):
        with pytest.raises(InvalidInputError, match="session key must not be blank"):
            operation.run()
    for operation in (
        session.save("k", blank, 1),
        session.save_list("k", blank, []),
        session.load("k", blank),
        session.load_list("k", blank),
        session.load_all("k", ["a", blank]),
        session.remove("k", blank),
    ):
        with pytest.raises(InvalidInputError, match="entry name must not be blank"):
            operation.run()
    assert session.keys().run() == []


@pytest.mark.spec("case 142")
@pytest.mark.parametrize("wrong", [None, 3, b"k", Path("k")])
def test_keys_and_names_are_text(session: Session, wrong: Any):
    """A key of None."""
    with pytest.raises(InvalidInputError, match="session key must be a str"):
        session.save(wrong, "n", 1).run()
    with pytest.raises(InvalidInputError, match="entry name must be a str"):
        session.save("k", wrong, 1).run()
    with pytest.raises(InvalidInputError, match="not the single name 'state'"):
        session.load_all("k", "state").run()


@pytest.mark.parametrize("items", ["text", b"bytes", {"a": 1}, (n for n in [1]), 3, None, {1, 2}])
def test_a_list_is_a_sequence(session: Session, items: Any):
    with pytest.raises(InvalidInputError, match="'l' of session 'k' takes a list of items, not"):
        session.save_list("k", "l", items).run()


def test_the_view_of_a_memory_and_a_tuple_are_lists(session: Session):
    message = Msg.user("Hello")
    session.save_list("k", "l", (json.loads(message.to_json()),)).run()
    (loaded,) = session.load_list("k", "l").run()
    assert Msg.from_json(json.dumps(loaded)) == message


def looped() -> list[object]:
    inner: list[object] = [0]
    inner.append({"again": inner})
    return inner


def nested(levels: int) -> list[object]:
    value: list[object] = []
    for _ in range(levels - 1):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("wrong", "path", "why"),
    [
        (object(), "$", "no form for object"),
        ({"a": [1, {"b": {2, 3}}]}, "$.a[1].b", "no form for set"),
        ({"a b": b"x"}, "$['a b']", "no form for bytes"),
        ([[1.0, float("nan")]], "$[0][1]", "no number nan"),
        ({"x": -float("inf")}, "$.x", "no number -inf"),
        ({"x": {(1, 2): 3}}, "$.x", r"its key \(1, 2\) is no text"),
        ({"x": {float("inf"): 3}}, "$.x", "no number inf"),
        ({"x": 10**5000}, "$.x", "digits"),
        ({"x": looped()}, "$.x[1].again[1].again", "contains itself"),
        (nested(202), "$[0][0]", "more than 200 levels"),
        (nested(100_000), "$[0][0]", "more than 200 levels"),
        ([*[{}] * 300, nested(202)], "$[300][0]", "more than 200 levels"),
        (Msg.user("x"), "$", "no form for Msg"),
    ],
)
def test_a_value_without_json_is_named_and_the_old_one_stays(session: Session, wrong: object, path: str, why: str):
    session.save_all("k", {"v": "old"}, {"l": ["old"]}).run()
    with pytest.raises(SessionValueError, match=why) as caught:
        session.save_all("k", {"other": 1, "v": wrong}).run()
    error = caught.value
    assert (error.key, error.name) == ("k", "v") and error.path.startswith(path)
    assert "'k'" in str(error) and "'v'" in str(error) and isinstance(error, (SessionError, ValueError))
    with pytest.raises(SessionValueError) as caught:
        session.save_all("k", {"v": "new"}, {"l": ["new", wrong]}).run()
    assert caught.value.name == "l" and caught.value.path.startswith(path.replace("$", "$[1]", 1))
    assert session.load_all("k").run() == Saved({"v": "old"}, {"l": ["old"]}), "all or nothing"


def test_what_is_nested_as_deep_as_is_allowed_is_read_back(session: Session):
    session.save_all("k", {"v": nested(200), "wide": [{}] * 1000}, {"l": [nested(200)]}).run()
    assert session.load_all("k").run() == Saved({"v": nested(200), "wide": [{}] * 1000}, {"l": [nested(200)]})


class Colour(StrEnum):
    RED = "red"


class Number(IntEnum):
    ONE = 1


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=()))
    | st.sampled_from([Colour.RED, Number.ONE, "\ud83d\ude00", "\ud800", "\r\n", "\x85\u2028", "\x00"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text() | st.integers() | st.booleans() | st.none() | st.floats(-9, 9), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(values, st.lists(values, max_size=4))
def test_what_is_loaded_is_what_json_makes_of_it(session: Session, value: object, items: list[object]):
    session.save_all("k", {"v": value}, {"l": items}).run()
    loaded = session.load_all("k").run()
    assert repr(loaded.values["v"]) == repr(json.loads(json.dumps(value)))
    assert repr(loaded.lists["l"]) == repr(json.loads(json.dumps(items)))
    # a dict may have the keys 1 and "1": JSON, too, has both, and a reader takes the last
    session.save_list("k", "l", loaded.lists["l"]).run()
    assert session.load_list("k", "l").run() == loaded.lists["l"]


def test_the_json_of_an_unchanging_item_is_made_once(session: Session):
    async def main() -> None:
        value = {"a": 1}
        item = Unchanging(value)
        await session.save_list("ann", "memory", [item])
        line = item.line
        value["a"] = 2
        await session.save_list("ann", "memory", [item, {"b": 2}])
        assert item.line is line
        assert await session.load_list("ann", "memory") == [{"a": 1}, {"b": 2}]
        with pytest.raises(SessionValueError, match=r"\$\[0\]"):
            await session.save_list("ann", "memory", [Unchanging({"x": object()})])

    run_virtual(main())
