"""A corpus of types and signatures: what a tool says of each, and which arguments it takes, is what pydantic says.

The documented differences are all that is taken out of pydantic's answer before it is compared: no titles (but for
properties of that name), and at the root nothing beside type, properties, required, additionalProperties and $defs.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import inspect
import json
import pathlib
import typing
import uuid
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    Required,
    TypeVar,
    Union,
)

import annotated_types
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import (
    AfterValidator,
    AnyUrl,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    RootModel,
    SecretStr,
    Strict,
    StringConstraints,
    Tag,
    TypeAdapter,
    ValidationError,
    create_model,
    validate_call,
)
from pydantic.dataclasses import dataclass as pydantic_dataclass
from pydantic.json_schema import PydanticJsonSchemaWarning
from typing_extensions import TypeAliasType, TypedDict

from agentscope_rx.errors import ToolDefinitionError
from agentscope_rx.tools import FunctionTool, InvalidArgumentsError
from agentscope_rx.tools.schemas.check import SchemaCheck
from agentscope_rx.tools.schemas.lenient import misread, without_nulls
from tests.support.assertions import stable_id

T = TypeVar("T")


# --- types of our own ---------------------------------------------------------------------------------------------


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Word(enum.StrEnum):
    YES = "yes"
    NO = "no"


class Mixed(enum.Enum):
    ONE = 1
    TWO = "two"


@dataclass
class Point:
    x: int
    y: int = 0
    tags: list[str] = field(default_factory=list)


class Address(BaseModel):
    """Where a person lives."""

    street: str
    zip: str = Field(pattern=r"^\d{5}$", description="Five digits.")


class Person(BaseModel):
    name: str
    title: str = "Dr."
    address: Address | None = None
    tags: list[str] = []


class Node(BaseModel):
    value: int
    children: list[Node] = []


class Left(BaseModel):
    right: Right | None = None


class Right(BaseModel):
    left: Left | None = None


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str


class Aliased(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    from_: str = Field(alias="from")
    count: int = Field(1, validation_alias="howMany")


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    a: int


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int


class StrictModel(BaseModel):
    model_config = ConfigDict(strict=True)
    a: int


class StrictRecord(BaseModel):
    model_config = ConfigDict(strict=True)
    at: datetime.date
    id: uuid.UUID
    point: Point


class Box(BaseModel, Generic[T]):
    content: T
    more: list[T] = []


class Numbers(RootModel[list[int]]):
    """Some numbers."""


class Described(BaseModel):
    model_config = ConfigDict(use_attribute_docstrings=True)
    a: int
    """The a."""


@dataclass
class Line:
    start: Point
    end: Point


@pydantic_dataclass
class Checked:
    a: Annotated[int, Field(gt=0)]


class Movie(TypedDict):
    title: str
    year: NotRequired[int]


class Partial(TypedDict, total=False):
    name: Required[str]
    age: int


class Pair(NamedTuple):
    a: int
    b: str = "b"


UserId = NewType("UserId", int)
Json = TypeAliasType("Json", "dict[str, Json] | list[Json] | str | int | float | bool | None")


def even(value: int) -> int:
    if value % 2:
        raise ValueError("must be even")
    return value


def split(value: object) -> object:
    return value.split(",") if isinstance(value, str) else value


def kind_of(value: Any) -> str:
    return value.get("kind", "") if isinstance(value, dict) else getattr(value, "kind", "")


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]
Called = Annotated[Annotated[Cat, Tag("cat")] | Annotated[Dog, Tag("dog")], Discriminator(kind_of)]
UUID = "12345678-1234-5678-1234-567812345678"
MISSING = inspect.Parameter.empty

# (the type, values that fit, values that do not)
TYPES: list[tuple[Any, list[Any], list[Any]]] = [
    # plain
    (int, [1, "2", 3.0], ["x", 1.5, None, [1]]),
    (float, [1, 1.5, "2.5"], ["x", None, {}]),
    (bool, [True, "false", 0, "yes"], ["maybe", 2, None]),
    (str, ["a", ""], [1, None, ["a"]]),
    (bytes, ["abc"], [1, None]),
    (None, [None], [0, ""]),
    (Any, [1, None, {"a": [1]}], []),
    (object, [1, "a", [None]], []),
    (dict, [{}, {"a": 1}], [[], "x"]),
    (list, [[], [1, "a"]], [{}, 1]),
    # numbers and text with bounds
    (Annotated[int, Field(ge=1, le=9)], [1, 9, "5"], [0, 10]),
    (Annotated[int, Field(gt=0, multiple_of=5)], [5, 10], [0, 7]),
    (Annotated[float, annotated_types.Gt(0)], [0.1], [0, -1]),
    (Annotated[str, Field(min_length=2, max_length=3)], ["ab", "abc"], ["a", "abcd"]),
    (Annotated[str, Field(pattern="^a+$")], ["aa"], ["b", ""]),
    (Annotated[str, StringConstraints(strip_whitespace=True, to_upper=True, min_length=1)], [" a "], ["  "]),
    (Annotated[list[int], Field(min_length=1, max_length=2)], [[1], [1, 2]], [[], [1, 2, 3]]),
    (Annotated[int, AfterValidator(even)], [2, "4"], [3]),
    (Annotated[list[str], BeforeValidator(split)], ["a,b", ["c"]], [3]),
    (Annotated[int, Strict()], [1], ["1", 1.5]),
    (Annotated[int, Field(description="d", examples=[1, 2])], [1], ["x"]),
    (Annotated[Annotated[int, Field(ge=1)], Field(le=5)], [1, 5], [0, 6]),
    # optional and unions
    (int | None, [1, None, "2"], ["x"]),
    (Optional[str], ["a", None], [1]),  # noqa: UP045
    (int | str, [1, "a", "1"], [None, []]),
    (Union[int, float, None], [1, 1.5, None], ["x"]),  # noqa: UP007
    (int | list[int], [1, [1, 2]], ["x", ["x"]]),
    (Address | str, [{"street": "a", "zip": "12345"}, "x"], [{"street": "a"}, 1]),
    (Cat | Dog, [{"kind": "cat"}, {"kind": "dog", "name": "x"}], [{"kind": "dog"}, {"kind": "cow"}]),
    (Pet, [{"kind": "cat", "lives": 1}, {"kind": "dog", "name": "x"}], [{"kind": "dog"}, {"kind": "cow"}, {}]),
    (Called, [{"kind": "cat"}], [{"kind": "cow"}, 1]),
    (list[Pet], [[{"kind": "cat"}], []], [[{"kind": "cow"}]]),
    (Pet | None, [None, {"kind": "cat"}], [{"kind": "cow"}]),
    (Annotated[int | str, Field(union_mode="left_to_right")], ["1", "a"], [[]]),
    # enums and literals
    (Colour, ["red"], ["green", None]),
    (Level, [1, 2], [3, "x"]),
    (Word, ["yes"], ["maybe"]),
    (Mixed, [1, "two"], [2]),
    (Literal["a"], ["a"], ["b"]),
    (Literal["a", "b"], ["a", "b"], ["c", None]),
    (Literal[1, "a", None], [1, "a", None], [2]),
    # told as text, and takes none: so it is with pydantic
    (Literal[Colour.RED], [], ["red", "blue"]),
    (list[Colour], [["red", "blue"]], [["green"]]),
    # what JSON writes as text or numbers
    (datetime.datetime, ["2026-01-02T03:04:05Z", 0], ["soon"]),
    (datetime.date, ["2026-01-02"], ["2026-13-01"]),
    (datetime.time, ["03:04:05"], ["25:00"]),
    (datetime.timedelta, ["P1D", 60], ["long"]),
    (uuid.UUID, [UUID], ["x"]),
    (decimal.Decimal, ["1.50", 2, 1.5], ["x"]),
    (pathlib.Path, ["/tmp/a"], [1]),
    (AnyUrl, ["https://example.org/a"], ["no url"]),
    (IPv4Address, ["127.0.0.1"], ["localhost"]),
    (SecretStr, ["abc"], [1]),
    (typing.Pattern[str], ["a+"], ["("]),
    # containers
    (list[int], [[], [1, "2"]], [["x"], {}]),
    (set[int], [[1, 1, 2]], [["x"]]),
    (frozenset[str], [["a"]], [[1]]),
    (tuple[int, str], [[1, "a"]], [[1], [1, "a", 2]]),
    (tuple[int, ...], [[], [1, 2]], [["x"]]),
    (tuple[()], [[]], [[1]]),
    (deque[int], [[1]], [["x"]]),
    (Sequence[int], [[1, 2]], [["x"], 1]),
    (Mapping[str, int], [{"a": 1}], [{"a": "x"}]),
    (dict[str, list[dict[str, int]]], [{"a": [{"b": 1}]}], [{"a": {"b": 1}}]),
    (dict[int, str], [{"1": "a"}], [{"x": "a"}]),
    (dict[Literal["a", "b"], int], [{"a": 1}], [{"c": 1}]),
    (OrderedDict[str, int], [{"a": 1}], [{"a": "x"}]),
    (list[list[list[int]]], [[[[1]]]], [[[1]]]),
    (list[tuple[str, int | None]], [[["a", None]]], [[["a"]]]),
    # models
    (Address, [{"street": "a", "zip": "12345"}], [{"street": "a", "zip": "1"}, {}, "x"]),
    (
        Person,
        [{"name": "a"}, {"name": "a", "address": {"street": "b", "zip": "12345"}}],
        [{"name": "a", "address": {}}],
    ),
    (list[Person], [[], [{"name": "a"}]], [[{}]]),
    (dict[str, Address], [{"a": {"street": "b", "zip": "12345"}}], [{"a": 1}]),
    (Node, [{"value": 1, "children": [{"value": 2}]}], [{"value": 1, "children": [{}]}]),
    (Left, [{}, {"right": {"left": {"right": None}}}], [{"right": 1}]),
    (Aliased, [{"from": "a"}, {"from": "a", "howMany": 2}, {"from_": "a"}], [{"howMany": 1}]),
    (Closed, [{"a": 1}], [{"a": 1, "b": 2}]),
    (Open, [{"a": 1, "b": 2}], [{"b": 2}]),
    (StrictModel, [{"a": 1}], [{"a": "1"}]),
    (Box[int], [{"content": 1, "more": [2]}], [{"content": "x"}]),
    (Box[Box[str]], [{"content": {"content": "a"}}], [{"content": "a"}]),
    (Numbers, [[1, 2]], [["x"], {}]),
    (Described, [{"a": 1}], [{}]),
    (type("Sub", (Address,), {"__annotations__": {"city": str}, "__module__": __name__}), [], [{"street": "a"}]),
    # dataclasses, typed dicts, named tuples
    (Point, [{"x": 1}, {"x": 1, "y": 2, "tags": ["a"]}], [{"y": 1}, {"x": "x"}]),
    (Line, [{"start": {"x": 1}, "end": {"x": 2}}], [{"start": {"x": 1}}]),
    (Checked, [{"a": 1}], [{"a": 0}]),
    (Movie, [{"title": "a"}, {"title": "a", "year": 1}], [{"year": 1}, {"title": 1}]),
    (Partial, [{"name": "a"}, {"name": "a", "age": 1}], [{"age": 1}]),
    (list[Movie], [[{"title": "a"}]], [[{}]]),
    (Pair, [[1, "a"], [1], {"a": 1}], [["x"], []]),
    # names for types
    (UserId, [1], ["x"]),
    (Json, [{"a": [1, None, {"b": "c"}]}, 1.5], []),
    (Annotated["int | None", Field(description="text")], [1, None], ["x"]),
    # strict, and yet JSON: a date is text there, a tuple an array
    (Annotated[datetime.date, Strict()], ["2026-01-02"], [0, "x"]),
    (Annotated[tuple[int, ...], Strict()], [[1]], ["x"]),
    (Annotated[Colour, Strict()], ["red"], ["green"]),
    (StrictRecord, [{"at": "2026-01-02", "id": UUID, "point": {"x": 1}}], [{"at": "2026-01-02", "id": 1, "point": {}}]),
]

DEFAULTS: list[tuple[Any, Any]] = [
    (int, 3),
    (str, ""),
    (bool, False),
    (float, 1.5),
    (int | None, None),
    (str | None, "a"),
    (Colour, Colour.RED),
    (Level, Level.HIGH),
    (Literal["a", "b"], "b"),
    (list[int], [1, 2]),
    (list[int], ()),
    (dict[str, int], {}),
    (tuple[int, str], (1, "a")),
    (datetime.date, datetime.date(2026, 1, 2)),
    (datetime.timedelta, datetime.timedelta(hours=1)),
    (uuid.UUID, uuid.UUID(UUID)),
    (decimal.Decimal, decimal.Decimal("1.5")),
    (pathlib.Path, pathlib.Path("/tmp")),
    (Point, Point(1)),
    (Address, Address(street="a", zip="12345")),
    (Movie, {"title": "a"}),
    (Annotated[int, Field(ge=1)], 5),
    (set[str], frozenset({"a"})),
    (object, object()),
    (Any, len),
]


# --- the comparison -----------------------------------------------------------------------------------------------

KEYS = ("type", "properties", "required", "additionalProperties", "$defs")


def untitled(part: Any, names: bool = False) -> Any:
    """Without titles; written anew here, from what JSON schema says, to be no copy of what it checks."""
    if isinstance(part, dict):
        return {
            key: untitled(value, key in ("properties", "$defs") and not names)
            if key not in ("default", "enum", "const", "examples", "mapping")
            else value
            for key, value in part.items()
            if names or key != "title"
        }
    return [untitled(each) for each in part] if isinstance(part, list) else part


@pytest.fixture(autouse=True)
def _quiet(recwarn: pytest.WarningsRecorder):
    # pydantic warns of defaults that JSON cannot write: ours are left out in silence
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PydanticJsonSchemaWarning)
        yield


def by_pydantic(fields: dict[str, Any]) -> dict[str, Any]:
    model = create_model("Anything", __config__=ConfigDict(extra="forbid"), **fields)
    schema = untitled(model.model_json_schema())
    schema.setdefault("properties", {})
    return {key: schema[key] for key in KEYS if key in schema}


def function_of(annotation: Any, default: Any = MISSING) -> Callable[..., object]:
    def function(x):
        return x

    function.__annotations__ = {"x": annotation}
    if default is not MISSING:
        function.__defaults__ = (default,)
    return function


def plain(value: object) -> object:
    """A value to be compared: some have no equality of their own."""
    return (type(value), repr(value))


def outcome(validate: Callable[[Any], object], value: Any) -> object:
    try:
        return plain(validate(json.loads(json.dumps(value))))
    except (ValidationError, InvalidArgumentsError):
        return "refused"


NAMES = [f"{number}-{str(kind)[:60]}" for number, (kind, *_) in enumerate(TYPES)]


def of_json(adapter: TypeAdapter[Any]) -> Callable[[Any], object]:
    """What pydantic makes of a value as JSON, which is what arguments are."""
    return lambda value: adapter.validate_json(json.dumps(value))


def test_the_corpus_is_large():
    assert len(TYPES) + len(DEFAULTS) + len(SIGNATURES) >= 130


@pytest.mark.spec("case 93", "case 103")
@pytest.mark.parametrize(("annotation", "good", "bad"), TYPES, ids=NAMES)
def test_a_type_is_told_as_pydantic_tells_it(annotation: Any, good: list[Any], bad: list[Any]):
    """§22.6 case 93 ($ref in nested schemas), case 103."""
    made = FunctionTool(function_of(annotation))
    assert json.loads(json.dumps(made.parameters)) == by_pydantic({"x": (annotation, ...)})
    # it is a schema that others can read
    check = SchemaCheck(made.parameters)
    for value in good:
        # JSON schema is as strict as JSON: what pydantic converts need not fit; what is refused by both is consistent
        check.problems({"x": value})


@pytest.mark.spec("case 99", "case 100", "case 103")
@pytest.mark.parametrize(("annotation", "good", "bad"), TYPES, ids=NAMES)
def test_a_type_takes_what_pydantic_takes(annotation: Any, good: list[Any], bad: list[Any]):
    """Typed conversion, its edges, and what is refused."""
    made, adapter = FunctionTool(function_of(annotation)), TypeAdapter(annotation)
    for value in [*good, *bad]:
        ours = outcome(lambda given: made.validate({"x": given})["x"], value)
        assert ours == outcome(of_json(adapter), value)
        assert (ours == "refused") == (value in bad and value not in good), value


JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-3, 12),
        st.floats(-2, 10, allow_nan=False),
        st.sampled_from(["", "a", "b", "red", "yes", "cat", "dog", "1", "2026-01-02", "12345", UUID, "a,b"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["a", "b", "x", "y", "kind", "name", "value", "title", "street", "zip", "content", "from"]),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=6,
)


@settings(max_examples=200)
@given(number=st.integers(0, len(TYPES) - 1), value=JSON)
def test_law_any_json_is_taken_or_refused_as_pydantic_does(number: int, value: Any):
    made, adapter = corpus()[number]
    ours = outcome(lambda given: [made.validate({"x": given})["x"]], value)
    theirs = outcome(of_json(adapter), [value])
    if misread({"x": value}, made.parameters):
        # (what of it says nothing may be taken out before)
        assert ours == "refused" or misread(without_nulls({"x": value}, made.parameters), made.parameters) == []
        return
    if theirs == "refused":
        # a null that says nothing is taken out, at any depth
        heard: Any = without_nulls({"x": value}, made.parameters)
        theirs = outcome(of_json(adapter), [heard.get("x")])
    # what pydantic takes as a Python value it may refuse as JSON: False for a timedelta
    assert ours in (theirs, outcome(adapter.validate_python, [value]))


_CORPUS: list[tuple[FunctionTool[Any, Any], TypeAdapter[Any]]] = []


def corpus() -> list[tuple[FunctionTool[Any, Any], TypeAdapter[Any]]]:
    if not _CORPUS:
        _CORPUS.extend((FunctionTool(function_of(each)), adapter_of(each)) for each, *_ in TYPES)
    return _CORPUS


def adapter_of(annotation: Any) -> TypeAdapter[Any]:
    """pydantic's own view of a list of it; a TypedDict takes no other keys, as it does within a tool's arguments."""
    return TypeAdapter(list[annotation], config=ConfigDict(extra="forbid"))


@pytest.mark.spec("case 104")
@pytest.mark.parametrize(("annotation", "default"), DEFAULTS, ids=stable_id)
def test_a_default_is_described_as_pydantic_does(annotation: Any, default: Any):
    """An explicit null for what has a default and takes none counts as not given."""
    made = FunctionTool(function_of(annotation, default))
    assert json.loads(json.dumps(made.parameters)) == by_pydantic({"x": (annotation, default)})
    assert made.validate({}) == {}
    if outcome(of_json(TypeAdapter(annotation)), None) == "refused":
        assert made.validate({"x": None}) == {}


def nulls(
    person: Person,
    points: dict[str, Point] = {},  # noqa: B006
    pet: Pet | None = None,
    level: int = 1,
    open: Open | None = None,
):
    return everything(locals())


ADA = {"name": "Ada"}


@pytest.mark.spec("case 104")
@pytest.mark.parametrize(
    ("given", "stays"),
    [
        ({"person": ADA, "level": None}, {"person": ADA}),
        ({"person": {**ADA, "title": None, "tags": None}}, {"person": ADA}),
        ({"person": ADA, "points": {"a": {"x": 1, "y": None}}}, {"person": ADA, "points": {"a": {"x": 1}}}),
        ({"person": ADA, "pet": {"kind": "cat", "lives": None}}, {"person": ADA, "pet": {"kind": "cat"}}),
        # null is a value here
        ({"person": {**ADA, "address": None}, "pet": None}, {"person": {**ADA, "address": None}, "pet": None}),
    ],
)
def test_a_null_that_says_nothing_counts_as_not_given(given: dict[str, Any], stays: dict[str, Any]):
    """§22.6 case 104 (ExplicitNullOptionalField), at any depth."""
    made = FunctionTool(nulls)
    assert {n: plain(v) for n, v in made.validate(given).items()} == {
        n: plain(v) for n, v in made.validate(stays).items()
    }


@pytest.mark.spec("case 104")
@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"person": None}, "person: Input should be"),
        ({"person": {"name": None}}, "person.name: Input should be a valid string; given null"),
        ({"person": ADA, "points": {"a": None}}, "points.a: Input should be"),
        ({"person": ADA, "points": {"a": {"x": None}}}, "points.a.x: Input should be a valid integer; given null"),
        ({"person": ADA, "nothing": None}, "nothing: is not an argument of this tool"),
        ({"person": {**ADA, "title": None}, "level": "x"}, "level: Input should be a valid integer"),
    ],
)
def test_a_null_that_may_not_be_stays_an_error(given: dict[str, Any], says: str):
    """§22.6 case 104 (ExplicitNullRequiredField, UnknownNullFieldStillFails)."""
    with pytest.raises(InvalidArgumentsError) as caught:
        FunctionTool(nulls).validate(given)
    assert [problem[: len(says)] for problem in caught.value.problems] == [says]


# --- signatures -----------------------------------------------------------------------------------------------------


def everything(local: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in local.items() if name not in ("self", "cls")}


def nothing():
    return everything(locals())


def one(a: int):
    return everything(locals())


def several(a: int, b: str, c: float = 1.5, d: bool = False):
    return everything(locals())


def only_positional(a: int, b: str = "b", /):
    return everything(locals())


def only_by_name(*, a: int, b: str = "b"):
    return everything(locals())


def all_kinds(a: int, /, b: int, *, c: int, d: int = 4):
    return everything(locals())


def optional(a: int | None, b: str | None = None, c: Optional[list[int]] = None):  # noqa: UP045
    return everything(locals())


def models(who: Person, where: Address | None = None, both: Sequence[Person | Address] = ()):
    return everything(locals())


def shared(a: Address, b: Address, c: tuple[Address, ...] = ()):
    return everything(locals())


def recursive(tree: Node, left: Left):
    return everything(locals())


def quoted(a: "int", b: "list[Later]"):  # noqa: UP037
    return everything(locals())


class Later(BaseModel):
    z: int


def pets(pet: Pet, others: Sequence[Pet] = ()):
    return everything(locals())


def generic(a: Box[int], b: Box[str], c: Box[Point] | None = None):
    return everything(locals())


def tables(rows: list[dict[str, int | str | None]], columns: tuple[str, ...] = ()):
    return everything(locals())


def odd_names(model_config: str, schema: int, json: bool, copy: str = "", _hidden: int = 1, title: str = ""):
    return everything(locals())


def constrained(n: Annotated[int, Field(ge=0, le=10)], text: Annotated[str, Field(min_length=1)] = "x"):
    return everything(locals())


def said(a: Annotated[int, Field(description="The a.")], b: Annotated[str, Field(description="The b.")] = "b"):
    return everything(locals())


def times(at: datetime.datetime, every: datetime.timedelta = datetime.timedelta(1), id: uuid.UUID | None = None):
    return everything(locals())


def records(movie: Movie, pair: Pair, point: Point = Point(0), partial: Partial | None = None):
    return everything(locals())


def enums(colour: Colour, level: Level = Level.LOW, word: Word = Word.NO, only: Literal["x", 1] = 1):
    return everything(locals())


async def coroutine(a: int, b: tuple[str, ...] = ()):
    return everything(locals())


def generator(a: int, b: dict[str, Any] | None = None):
    yield everything(locals())


class Holder:
    def method(self, a: int, b: Point = Point(1)):
        return everything(locals())

    @classmethod
    def of_class(cls, a: int, b: str = ""):
        return everything(locals())

    @staticmethod
    def static(a: int, b: Colour = Colour.BLUE):
        return everything(locals())

    def __call__(self, a: int, b: Level):
        return everything(locals())


SIGNATURES: list[tuple[Callable[..., Any], dict[str, Any], dict[str, Any]]] = [
    (nothing, {}, {"a": 1}),
    (one, {"a": "1"}, {"a": "x"}),
    (several, {"a": 1, "b": "x", "d": "yes"}, {"a": 1}),
    (only_positional, {"a": 1}, {"a": 1, "b": 2}),
    (only_by_name, {"a": 1, "b": "c"}, {"b": "c"}),
    (all_kinds, {"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 2, "d": 3}),
    (optional, {"a": None, "c": [1]}, {"b": "x"}),
    (models, {"who": {"name": "a"}, "both": [{"street": "a", "zip": "12345"}]}, {"who": {}}),
    (shared, {"a": {"street": "a", "zip": "12345"}, "b": {"street": "b", "zip": "54321"}}, {"a": {}}),
    (recursive, {"tree": {"value": 1}, "left": {"right": {}}}, {"tree": {"value": 1, "children": [1]}, "left": {}}),
    (quoted, {"a": 1, "b": [{"z": 2}]}, {"a": 1, "b": [{}]}),
    (pets, {"pet": {"kind": "cat"}}, {"pet": {"kind": "cow"}}),
    (generic, {"a": {"content": 1}, "b": {"content": "b"}, "c": {"content": {"x": 1}}}, {"a": {}, "b": {}}),
    (tables, {"rows": [{"a": 1, "b": None}], "columns": ["a"]}, {"rows": [{"a": []}]}),
    (odd_names, {"model_config": "m", "schema": 1, "json": True, "_hidden": 2}, {"model_config": "m"}),
    (constrained, {"n": 10}, {"n": 11}),
    (said, {"a": 1}, {"a": "x"}),
    (times, {"at": "2026-01-02T00:00:00Z", "every": "PT5M"}, {"at": "soon"}),
    (records, {"movie": {"title": "a"}, "pair": [1, "x"]}, {"movie": {}, "pair": [1]}),
    (enums, {"colour": "red", "level": 2}, {"colour": "green"}),
    (coroutine, {"a": 1, "b": ["x"]}, {"a": 1, "b": "x"}),
    (generator, {"a": 1, "b": {"x": 1}}, {"a": 1, "b": [1]}),
    (Holder().method, {"a": 1, "b": {"x": 5}}, {"a": 1, "b": {}}),
    (Holder.of_class, {"a": 1}, {"a": None}),
    (Holder.static, {"a": 1, "b": "red"}, {"a": 1, "b": 2}),
    (Holder(), {"a": 1, "b": 2}, {"a": 1, "b": 3}),
]


def hints(function: Callable[..., Any]) -> dict[str, Any]:
    plain = function if hasattr(function, "__name__") else type(function).__call__
    found = typing.get_type_hints(plain, include_extras=True)
    parameters = inspect.signature(function).parameters.values()
    return {each.name: (found[each.name], ... if each.default is MISSING else each.default) for each in parameters}


@pytest.mark.parametrize(("function", "good", "bad"), SIGNATURES, ids=lambda each: getattr(each, "__name__", ""))
def test_a_signature_is_told_as_pydantic_tells_it(function: Any, good: dict[str, Any], bad: dict[str, Any]):
    # names that pydantic keeps for itself are aliases in the model that is compared
    fields = {
        f"p{number}": (kind, Field(default, alias=name))
        for number, (name, (kind, default)) in enumerate(hints(function).items())
    }
    made = FunctionTool(function, name="made")
    assert json.loads(json.dumps(made.parameters)) == by_pydantic(fields)
    assert list(made.parameters) == [key for key in KEYS if key in made.parameters]


@pytest.mark.parametrize(("function", "good", "bad"), SIGNATURES, ids=lambda each: getattr(each, "__name__", ""))
def test_a_signature_takes_what_pydantic_takes(function: Any, good: dict[str, Any], bad: dict[str, Any]):
    made = FunctionTool(function, name="made")
    values = made.validate(good)
    adapters = {name: TypeAdapter(kind) for name, (kind, _) in hints(function).items()}
    assert {n: plain(v) for n, v in values.items()} == {n: plain(of_json(adapters[n])(v)) for n, v in good.items()}
    with pytest.raises(InvalidArgumentsError):
        made.validate(bad)
    if function in (several, only_by_name, models, optional, records, enums):
        assert plain(function(**values)) == plain(validate_call(function)(**good))


# --- docstrings ---------------------------------------------------------------------------------------------------


def google(a: int, b: str = "b", *, c: Annotated[int, Field(description="From the type.")] = 1):
    """Do it.

    At length.

    Args:
        a (int): The a.
        b: The b,
            on two lines.
        c: Not this.

    Returns:
        Nothing.

    Raises:
        ValueError: Never.
    """


def numpy(a: int, b: str = "b", *, c: Annotated[int, Field(description="From the type.")] = 1):
    """Do it.

    At length.

    Parameters
    ----------
    a : int
        The a.
    b : str, optional
        The b,
        on two lines.
    c : int
        Not this.

    Returns
    -------
    None
    """


def rest(a: int, b: str = "b", *, c: Annotated[int, Field(description="From the type.")] = 1):
    """Do it.

    At length.

    :param a: The a.
    :type a: int
    :param b: The b,
        on two lines.
    :param c: Not this.
    :returns: Nothing.
    :raises ValueError: Never.
    """


@pytest.mark.parametrize("function", [google, numpy, rest])
def test_three_docstring_styles_equal_pydantic_fields(function: Callable[..., object]):
    made = FunctionTool(function)
    assert made.description == "Do it.\n\nAt length."
    assert made.parameters == by_pydantic(
        {
            "a": (int, Field(description="The a.")),
            "b": (str, Field("b", description="The b,\non two lines.")),
            "c": (int, Field(1, description="From the type.")),
        }
    )


# --- what differs, on purpose ---------------------------------------------------------------------------------------


def test_a_parameter_keeps_its_name_under_any_alias():
    def f(x: Annotated[int, Field(alias="y")], z: int = Field(3, alias="w")) -> None: ...

    made = FunctionTool(f)
    assert list(made.parameters["properties"]) == ["x", "z"]  # pyright: ignore
    assert made.validate({"x": 1}) == {"x": 1, "z": 3}


@pytest.mark.parametrize("stars", ["*items: int", "**options: int", "a: int, *items: int, **options: str"])
def test_stars_are_refused_with_what_to_write_instead(stars: str):
    """AgentScope Python's include_var_positional and include_var_keyword have no counterpart: name every argument."""
    scope: dict[str, Any] = {}
    exec(f"def f({stars}): ...", scope)
    with pytest.raises(ToolDefinitionError, match=r"know every argument by name\. Replace it by a parameter"):
        FunctionTool(scope["f"])
