"""Whatever is done, in any order, every store holds what a plain dict would; those on disk also when opened anew."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.session import Saved, Session
from tests.session.stores import STORES

KEYS = ["ann", "Ann", "..", "k" * 300]
NAMES = ["state", "State", "memory"]
items = st.sampled_from([1, "a", {"b": [2]}, None])
lists = st.lists(items, max_size=5)
# the last list saved, changed somewhere: appended to, cut, edited
edits = st.tuples(st.sampled_from(["append", "cut", "edit", "same"]), st.integers(0, 5), items)
keys, names = st.sampled_from(KEYS), st.sampled_from(NAMES)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("save"), keys, names, items),
        st.tuples(st.just("list"), keys, names, lists),
        st.tuples(st.just("edit"), keys, names, edits),
        st.tuples(st.just("all"), keys, st.dictionaries(names, items, max_size=2), st.dictionaries(names, lists)),
        st.tuples(st.just("remove"), keys, names),
        st.tuples(st.just("delete"), keys),
        st.tuples(st.just("bad"), keys, names),
        st.tuples(st.just("reopen")),
    ),
    max_size=25,
)


def edited(old: list[Any], edit: tuple[str, int, Any]) -> list[Any]:
    kind, index, item = edit
    if kind == "append":
        return [*old, item]
    if kind == "cut":
        return old[:index]
    return [item if kind == "edit" and n == index else each for n, each in enumerate(old)]


def apply(model: dict[str, Saved], session: Session, step: tuple[Any, ...]) -> None:
    kind, key, *rest = (*step, "")
    state = copy.deepcopy(model.get(key, Saved()))
    if kind in ("remove", "delete"):
        name = rest[0]
        there = key in model if kind == "delete" else name in {**state.values, **state.lists}
        flow = session.delete(key) if kind == "delete" else session.remove(key, name)
        assert flow.run() is there
        state = Saved() if kind == "delete" else without(state, [name])
    elif kind == "bad":
        with pytest.raises(ValueError):
            session.save_all(key, {rest[0]: 1}, {"x": [{1, 2}]}).run()
    elif kind != "reopen":
        values: dict[str, Any] = {rest[0]: rest[1]} if kind == "save" else rest[0] if kind == "all" else {}
        given_lists: dict[str, Any] = rest[1] if kind == "all" else {}
        if kind in ("list", "edit"):
            old = state.lists.get(rest[0], [])
            given_lists = {rest[0]: rest[1] if kind == "list" else edited(old, rest[1])}
        if set(values) & set(given_lists):
            with pytest.raises(InvalidInputError):
                session.save_all(key, values, given_lists).run()
        else:
            assert session.save_all(key, values, given_lists).run() == session.load_all(key).run().version
            state = without(state, [*values, *given_lists])
            state = Saved({**state.values, **values}, {**state.lists, **given_lists})
    model.pop(key, None)
    if state != Saved():
        model[key] = state


def without(state: Saved, gone: list[str]) -> Saved:
    return Saved(
        {name: value for name, value in state.values.items() if name not in gone},
        {name: value for name, value in state.lists.items() if name not in gone},
    )


@pytest.fixture(params=list(STORES))
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@given(steps)
@settings(max_examples=60)
def test_a_session_is_a_dict(kind: str, tmp_path_factory: pytest.TempPathFactory, done: list[tuple[Any, ...]]):
    root = tmp_path_factory.mktemp("sessions")
    session = STORES[kind](root)
    model: dict[str, Saved] = {}
    for step in done:
        apply(model, session, step)
        if step == ("reopen",) and kind != "memory":
            session = STORES[kind](root)
        assert session.keys().run() == sorted(model)
        for key in KEYS:
            found = session.load_all(key).run()
            assert found == model.get(key, Saved()) and (found.version is None) is (key not in model)
            assert session.exists(key).run() is (key in model)
    if kind == "files":
        # nothing lies about
        expected = sum(2 + len(saved.values) + len(saved.lists) for saved in model.values())
        assert sum(path.is_file() for path in Path(root).rglob("*")) == expected
