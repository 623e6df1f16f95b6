"""A frozen dataclass of the library behaves as the same one of the standard library."""

from __future__ import annotations

import copy
import gc
import inspect
import pickle
import sys
import threading
import typing
import weakref
from collections.abc import Callable
from dataclasses import (
    FrozenInstanceError,
    InitVar,
    asdict,
    astuple,
    dataclass,
    field,
    fields,
    replace,
)

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from agentscope_rx import frozen_values
from agentscope_rx.events.base import kinds_of_events
from agentscope_rx.frozen_values import filler, replaced, unchecked

SPECS: dict[str, Callable[[], typing.Any]] = {
    "required": field,
    "default": lambda: field(default=7),
    "factory": lambda: field(default_factory=list),
    "fixed": lambda: field(default="fixed", init=False),
    "made": lambda: field(default_factory=lambda: ["made"], init=False),
    "keyword": lambda: field(kw_only=True),
    "keyword_default": lambda: field(default=None, kw_only=True),
    "keyword_factory": lambda: field(default_factory=dict, kw_only=True, repr=False),
    "uncompared": lambda: field(default=0, compare=False),
}
ANY = typing.Any


def made(
    names: dict[str, str], post_init: bool, weakref_slot: bool, declare: Callable[..., typing.Any] = dataclass
) -> type[typing.Any]:
    """The dataclass; pickle finds it in this module."""
    body: dict[str, object] = {name: SPECS[kind]() for name, kind in names.items()}
    body |= {"__module__": __name__, "__doc__": "A value.", "__annotations__": dict.fromkeys(names, ANY)}
    body["seen"] = lambda self: type(self).__name__
    if post_init:
        first = next(iter(names))
        body["__post_init__"] = lambda self: object.__setattr__(self, first, (type(self).__name__, "changed"))
    return declare(frozen=True, slots=True, weakref_slot=weakref_slot)(type("Value", (), body))


def pair(names: dict[str, str], post_init: bool, weakref_slot: bool) -> list[type[typing.Any]]:
    return [
        made(names, post_init, weakref_slot),
        made(names, post_init, weakref_slot, frozen_values.dataclass),
    ]


@st.composite
def shapes(draw: st.DrawFn) -> dict[str, str]:
    """Names of fields with their kinds, required ones first."""
    chosen = draw(st.lists(st.sampled_from(sorted(SPECS)), min_size=1, max_size=10))
    names = draw(st.permutations(["self", "type", "cls", "object", *(f"f{i}" for i in range(8))]))
    return dict(zip(names, sorted(chosen, key=lambda kind: kind != "required"), strict=False))


def arguments(shape: dict[str, str], whole: bool) -> dict[str, object]:
    optional = ("default", "factory", "keyword_default", "keyword_factory", "uncompared")
    wanted = ("required", "keyword", *(optional if whole else ()))
    return {name: {"v": [place]} for place, (name, kind) in enumerate(shape.items()) if kind in wanted}


def attempt(call: Callable[[], object]) -> object:
    """The result, as text; or the error."""
    try:
        return repr(call())
    except Exception as error:
        return type(error), str(error)


@given(shape=shapes(), post_init=st.booleans(), weakref_slot=st.booleans(), whole=st.booleans())
def test_values_behave_as_those_of_the_standard_library(
    shape: dict[str, str], post_init: bool, weakref_slot: bool, whole: bool
):
    kinds = pair(shape, post_init, weakref_slot)
    given_ = arguments(shape, whole)
    results: list[list[object]] = []
    for cls in kinds:
        globals()["Value"] = cls
        repr_of_none_made = attempt(lambda cls=cls: repr(object.__new__(cls)))
        value, same = cls(**given_), cls(**given_)
        assert type(value) is cls
        first = next(iter(shape))
        results.append([
            inspect.signature(cls),
            attempt(lambda cls=cls: inspect.get_annotations(cls.__init__)),
            [getattr(cls, name).__qualname__ for name in ("__init__", "__repr__", "__eq__", "__hash__")],
            cls.__match_args__,
            repr(cls.__dataclass_params__),
            sorted(vars(cls).keys() - {"__classcell__", "__annotate_func__", "__annotations_cache__"}),
            repr_of_none_made,
            repr(value),
            value.seen(),
            value == same,
            value.__eq__(1),
            attempt(lambda value=value: hash(value)),
            repr(asdict(value)),
            repr(astuple(value)),
            [(each.name, each.init, each.kw_only, each.compare) for each in fields(cls)],
            attempt(lambda value=value, first=first: setattr(value, first, 1)),
            attempt(lambda value=value, first=first: delattr(value, first)),
            attempt(cls),
            attempt(lambda cls=cls: cls(1, 2)),
            attempt(lambda cls=cls: cls(unknown=1)),
            pickle.loads(pickle.dumps(value)) == value,
            copy.copy(value) == value,
            copy.deepcopy(value) == value,
            attempt(lambda value=value, first=first: replace(value, **{first: 9})),
            repr({k: v for k, v in typing.get_type_hints(cls).items() if k in shape}),
            attempt(lambda value=value: weakref.ref(value) and None),
        ])  # fmt: skip
        # with slots, some releases of the standard library have another error for what is no field
        with pytest.raises((FrozenInstanceError, TypeError)):
            value.unknown = 1
        with pytest.raises((FrozenInstanceError, TypeError)):
            del value.unknown
    for one, other in zip(*results, strict=True):
        assert one == other


@given(shape=shapes(), whole=st.booleans())
def test_replaced_is_replace(shape: dict[str, str], whole: bool):
    quick = made(shape, False, False, frozen_values.dataclass)
    value = quick(**arguments(shape, whole))
    for name in arguments(shape, True):
        assert replaced(value, **{name: "new"}) == replace(value, **{name: "new"})
    with pytest.raises(TypeError):
        replaced(value, unknown=1)


@given(shape=shapes(), whole=st.booleans())
def test_unchecked_values_differ_in_checks_alone(shape: dict[str, str], whole: bool):
    quick = made(shape, False, False, frozen_values.dataclass)
    checked = made(shape, True, False, frozen_values.dataclass)
    value = unchecked(checked)(**arguments(shape, whole))
    assert type(value) is checked
    assert repr(value) == repr(quick(**arguments(shape, whole)))


@given(shape=shapes())
def test_subclasses_get_their_fields(shape: dict[str, str]):
    given_ = arguments(shape, True)
    results: list[list[object]] = []
    for base in pair(shape, False, False):

        class Open(base):
            """With a `__dict__`."""

        class Slotted(base):
            __slots__ = ("more",)

            def __init__(self, /, **values: object) -> None:
                super().__init__(**values)
                object.__setattr__(self, "more", 1)

        for kind in (Open, Slotted):
            value, first = kind(**given_), next(iter(shape))
            assert type(value) is kind
            results.append([
                repr(value).rpartition(".")[2].partition("(")[2],
                value == kind(**given_),
                value == base(**given_),
                attempt(lambda value=value, first=first: setattr(value, first, 1)),
                attempt(lambda value=value, first=first: delattr(value, first)),
                getattr(value, "more", None),
            ])  # fmt: skip
    assert results == [results[0], results[1]] * 2


@frozen_values.dataclass(frozen=True, slots=True)
class Point:
    """A value of the library."""

    x: int
    y: int = 0
    z: int = 0
    names: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class PlainPoint:
    """A value of the library."""

    x: int
    y: int = 0
    z: int = 0
    names: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class UsersPoint(Point):
    label: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "label", self.label or "none")


@frozen_values.dataclass(frozen=True, slots=True, kw_only=True)
class Labelled(Point):
    """Another one, on top of it."""

    label: str = ""


def test_a_users_dataclass_may_extend_a_value():
    point = UsersPoint(1, label="")
    assert point == UsersPoint(1, 0, 0, [], "none")
    with pytest.raises(FrozenInstanceError):
        point.x = 2  # pyright: ignore[reportAttributeAccessIssue]
    assert pickle.loads(pickle.dumps(point)) == point
    assert replace(point, label="a").label == "a"


def test_a_value_may_extend_a_value():
    assert Labelled(1, 2, label="a") == replace(Labelled(1), y=2, label="a")
    assert str(inspect.signature(Labelled)).startswith("(x: 'int', y: 'int' = 0,")
    match Labelled(1, 2):
        case Point(x, y):
            assert (x, y) == (1, 2)


def test_a_generic_quick_class_has_aliases():
    T = typing.TypeVar("T")

    @frozen_values.dataclass(frozen=True, slots=True)
    class Box(typing.Generic[T]):
        """A value."""

        item: T
        size: int = 1
        place: int = 2

    assert Box(3) == Box(3, 1)
    assert typing.get_args(Box[int]) == (int,)


def test_pydantic_reads_and_writes_quick_values():
    plain, quick = TypeAdapter(PlainPoint), TypeAdapter(Point)
    value = Point(1, 2, names=["a"])
    assert quick.dump_json(value) == plain.dump_json(PlainPoint(1, 2, names=["a"]))
    assert quick.validate_json(quick.dump_json(value)) == value
    named = [str(each.json_schema()).replace("PlainPoint", "Point") for each in (plain, quick)]
    assert named[0] == named[1]
    with pytest.raises(ValidationError):
        quick.validate_python({"x": "one"})


def test_init_vars_reach_post_init_in_their_order():
    @frozen_values.dataclass(frozen=True, slots=True)
    class Sum:
        """A value."""

        a: InitVar[int]
        total: int = field(init=False)
        b: InitVar[int] = field(default=2, kw_only=True)
        c: InitVar[int] = 3

        def __post_init__(self, a: int, b: int, c: int) -> None:
            object.__setattr__(self, "total", (a, b, c))

    assert Sum(1).total == (1, 2, 3)
    assert Sum(1, 5, b=4).total == (1, 4, 5)


def test_post_init_sees_the_class_itself_and_a_frozen_value():
    seen: list[object] = []

    @frozen_values.dataclass(frozen=True, slots=True)
    class Seen:
        """A value."""

        a: int = 1
        b: int = 2
        c: int = 3

        def __post_init__(self) -> None:
            seen.append(type(self))
            with pytest.raises(FrozenInstanceError):
                self.a = 2  # pyright: ignore[reportAttributeAccessIssue]

    Seen()
    assert seen == [Seen]


def test_a_failing_factory_leaves_nothing_half_made():
    def fails() -> int:
        raise ValueError("no")

    @frozen_values.dataclass(frozen=True, slots=True)
    class Failing:
        """A value."""

        a: int = 1
        b: int = 2
        c: int = field(default_factory=fails)

    with pytest.raises(ValueError, match="no") as caught:
        Failing()
    halves = [each for each in gc.get_objects() if isinstance(each, Failing)]
    assert [type(each) for each in halves] in ([], [Failing])
    assert "no" in str(caught.value)


def test_values_made_on_several_threads_are_whole():
    wrong: list[object] = []

    def make() -> None:
        points = [Point(i, i, i) for i in range(2000)]
        wrong.extend(each for each in points if type(each) is not Point or each.x != each.z)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=make) for _ in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    finally:
        sys.setswitchinterval(before)
    assert wrong == []


def test_without_a_gil_init_is_the_standard_one(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(frozen_values, "_HAS_GIL", False)
    cls = made({"a": "required", "b": "factory", "c": "default"}, False, False, frozen_values.dataclass)
    assert cls(1) == unchecked(cls)(1)
    assert "frozen value" not in cls.__init__.__code__.co_filename


def test_other_classes_are_refused():
    @dataclass(slots=True)
    class Open:
        a: int

    @dataclass(frozen=True)
    class Unslotted:
        a: int

    class Inherits(Point):
        pass

    for cls, text in ((Open, "frozen"), (Unslotted, "slot"), (Inherits, "dataclass"), (int, "dataclass")):
        with pytest.raises(TypeError, match=text):
            unchecked(cls)


def test_a_class_with_its_own_init_is_filled():
    @dataclass(frozen=True, slots=True, init=False)
    class Own:
        a: int
        b: int = 2
        c: int = 3

        def __init__(self, a: int) -> None:
            fill(self, a, a + 1, a + 2)

    class Below(Own):
        pass

    fill = filler(Own)
    assert (Own(1).b, Own(1).c, Below(5).c) == (2, 3, 7)
    assert unchecked(Own)(1, 2, 3) == Own(1)
    with pytest.raises(FrozenInstanceError):
        Own(1).a = 2  # pyright: ignore[reportAttributeAccessIssue]


def methods_yet_to_compile(cls: type) -> list[str]:
    return sorted(name for name, value in vars(cls).items() if isinstance(value, frozen_values._LateMethod))


def test_methods_are_compiled_when_they_are_first_used():
    cls = made({"a": "required", "b": "factory", "c": "default"}, False, False, frozen_values.dataclass)
    assert methods_yet_to_compile(cls) == ["__eq__", "__hash__", "__init__", "__repr__"]
    value = cls(1)
    assert methods_yet_to_compile(cls) == ["__eq__", "__hash__", "__repr__"]
    assert value == cls(1) != cls(2)
    assert str(value).endswith("Value(a=1, b=[], c=7)")
    assert methods_yet_to_compile(cls) == ["__hash__"]
    with pytest.raises(TypeError, match="unhashable"):
        hash(value)
    assert methods_yet_to_compile(cls) == []


def test_methods_of_the_class_itself_stay():
    @frozen_values.dataclass(frozen=True, slots=True)
    class Named:
        """A value."""

        a: int

        def __init__(self, a: int) -> None:
            object.__setattr__(self, "a", a + 1)

        def __repr__(self) -> str:
            return "named"

    @frozen_values.dataclass(frozen=True, slots=True)
    class Same:
        """A value."""

        a: int

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 7

    @frozen_values.dataclass(frozen=True, slots=True, eq=False)
    class Alone:
        """A value."""

        a: int

    assert (repr(Named(1)), Named(1).a, Named(1) == Named(1)) == ("named", 2, True)
    assert (Same(1) == Same(2), hash(Same(1))) == (True, 7)
    assert Alone(1) != Alone(1) and {Alone(1): 1}


def test_other_dataclasses_are_left_to_the_standard_library():
    @frozen_values.dataclass(slots=True)
    class Open:
        """Changes."""

        a: int

    @frozen_values.dataclass(frozen=True, slots=True)
    class Untold:
        a: int

    assert (methods_yet_to_compile(Open), methods_yet_to_compile(Untold)) == ([], [])
    assert "(a: " in (Untold.__doc__ or "")
    changed = Open(1)
    changed.a = 2
    assert changed == Open(2)


def test_threads_make_the_first_values_at_once():
    cls = made({f"f{i}": "default" for i in range(5)}, False, False, frozen_values.dataclass)
    made_: list[object] = []
    gate = threading.Barrier(8)

    def make() -> None:
        gate.wait()
        made_.append(cls(1))

    threads = [threading.Thread(target=make) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert made_ == [cls(1)] * 8


def test_every_kind_of_event_is_quick():
    slow = [kind.__name__ for kind in kinds_of_events() if "frozen value" not in kind.__init__.__code__.co_filename]
    assert slow == []
