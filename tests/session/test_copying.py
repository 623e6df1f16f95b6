"""`copy_session`: a session in another store is the same, and nothing is replaced."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentscope_rx.errors import ConfigurationError, SessionConflictError
from agentscope_rx.reactive import from_callable, just
from agentscope_rx.session import InMemorySession, JsonSession, Saved, SessionLease, copy_session
from agentscope_rx.testing import run_virtual
from tests.session.stores import STORES

WHOLE = Saved(
    {"state": {"turn": 1, "text": "\ud800 \u2028 Zoë", "big": 10**30}, "none": None},
    {"memory": [1, "two", {"3": [None]}], "empty": []},
)


@pytest.mark.parametrize("target", list(STORES))
@pytest.mark.parametrize("source", list(STORES))
def test_a_copy_is_the_same_in_every_store(source: str, target: str, tmp_path: Path):
    one, other = STORES[source](tmp_path / "one"), STORES[target](tmp_path / "other")
    one.save_all("k/1", WHOLE.values, WHOLE.lists).run()
    version = copy_session("k/1", one, other).run()
    saved = other.load_all("k/1").run()
    assert saved == WHOLE and saved.version == version is not None
    assert copy_session("k/1", other, one, to="back").run() and one.load_all("back").run() == WHOLE


def test_a_copy_replaces_nothing(tmp_path: Path):
    one, other = InMemorySession(), JsonSession(tmp_path)
    one.save("k", "n", 1).run()
    other.save("k", "n", "mine").run()
    with pytest.raises(SessionConflictError):
        copy_session("k", one, other).run()
    assert other.load_all("k").run() == Saved({"n": "mine"})


def test_a_copy_is_not_held_by_the_holder_of_the_lease():
    one, other = InMemorySession(), InMemorySession()

    async def main() -> None:
        async def copied() -> None:
            assert await copy_session("new", one, other) is None
            await one.save("new", "state", {})
            assert await copy_session("new", one, other)

        await SessionLease(one, "new").around(from_callable(copied))
        assert await other.load_all("new") == Saved({"state": {}})
        await SessionLease(other, "new").around(just(None))
        # what is no lease is copied
        await one.save("other", "lease", "of a house")
        assert await copy_session("other", one, other)
        assert await other.load("other", "lease") == "of a house"

    run_virtual(main())


def test_what_does_not_exist_is_not_copied(tmp_path: Path):
    other = JsonSession(tmp_path / "s")
    assert copy_session("k", InMemorySession(), other).run() is None and not (tmp_path / "s").exists()


def test_a_session_is_not_copied_onto_itself(tmp_path: Path):
    with pytest.raises(ConfigurationError, match="onto itself"):
        copy_session("k", JsonSession(tmp_path), JsonSession(tmp_path), to="k")


def test_a_path_in_the_place_of_a_store_names_open_session(tmp_path: Path):
    for stores in ((JsonSession(tmp_path), "x.db"), ("x.db", JsonSession(tmp_path))):
        with pytest.raises(ConfigurationError, match="open_session"):
            copy_session("k", *stores)  # type: ignore[arg-type]


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text("abc", min_size=1), values, max_size=3), st.lists(values, max_size=4))
@settings(max_examples=30)
def test_whatever_is_saved_survives_the_way_there_and_back(
    tmp_path_factory: pytest.TempPathFactory, given_values: dict[str, object], items: list[object]
):
    folder = tmp_path_factory.mktemp("s")
    one, files = STORES["sqlite"](folder / "one"), JsonSession(folder / "files")
    one.save_all("k", given_values, {"list": items}).run()
    copy_session("k", one, files).run()
    copy_session("k", files, one, to="back").run()
    assert repr(one.load_all("back").run().values) == repr(one.load_all("k").run().values)
    assert one.load_all("back").run() == one.load_all("k").run()
