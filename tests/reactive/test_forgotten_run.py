"""A flow taken for its result, or for a list, says what to do; it never hangs."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterable

import pytest
from reactivex import operators as ops

from agentscope_rx.reactive import Flow, defer, from_iterable, just


@pytest.mark.parametrize("source", [just(1), defer(lambda: just(1)), from_iterable([1, 2]).pipe(ops.map(str))])
def test_a_plain_for_is_refused(source: Flow[object]) -> None:
    assert not isinstance(source, Iterable)
    with pytest.raises(TypeError, match="not iterable"):
        list(source)  # pyright: ignore[reportArgumentType, reportUnknownArgumentType]
    with pytest.raises(TypeError, match=r"not iterable|not a container"):
        _ = 1 in source  # pyright: ignore[reportOperatorIssue]


def test_slices_are_those_of_observables() -> None:
    assert from_iterable([1, 2, 3])[1].run() == 2


def test_an_attribute_of_a_missing_result_names_the_fix() -> None:
    with pytest.raises(AttributeError, match=r"'text'.* has not begun: .*await it, or run\(\) it"):
        _ = just("x").text  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]
    assert not hasattr(just("x"), "text") and not hasattr(just("x"), "__len__")


def test_its_repr_says_that_nothing_has_begun() -> None:
    assert repr(defer(lambda: just(1))) == "<Deferred, not begun: await it, run() it or subscribe to it>"


def test_copies_still_work() -> None:
    assert copy.copy(just(1)).run() == 1
    with pytest.raises((pickle.PicklingError, AttributeError, TypeError)):
        pickle.dumps(defer(lambda: just(1)))
