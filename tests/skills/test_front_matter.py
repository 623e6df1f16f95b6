"""Front matter: what is written is read back, and hostile YAML is refused with its file and line (§9.3)."""

from __future__ import annotations

import contextlib
import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx.errors import FrontMatterError, InvalidInputError, MissingExtraError
from agentscope_rx.skills.front_matter import MAX_CODE_POINTS, front_matter_text, read_front_matter
from tests.support.assertions import in_cpu_time

FILE = "skills/trip/SKILL.md"
TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=40)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**17), 10**17) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
).filter(lambda value: _depth(value) <= 8)
BODIES = st.text(st.characters(exclude_categories=("Cs",)), max_size=80)


def _depth(value: object) -> int:
    inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    return 1 + max(map(_depth, inner), default=0)


@given(st.dictionaries(TEXTS, VALUES, min_size=1, max_size=4), BODIES)
def test_what_is_written_is_read_back(values, body):
    read = read_front_matter(front_matter_text(values, body), FILE)
    assert (read.values, read.body) == (values, body)


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e15, max_value=1e15))
def test_numbers_are_never_read_as_other_numbers(number):
    read = read_front_matter(front_matter_text({"n": number}, ""), FILE)
    assert read.values["n"] == number or read.values["n"] == read.text("n")


@given(st.text(max_size=300) | st.text(alphabet="---\n:&*![]{}?|>'\"%#, ab1.\t", max_size=300))
def test_any_text_gives_values_or_a_typed_error(text):
    for whole in (text, f"---\n{text}\n---\n"):
        refused: FrontMatterError | None = None
        try:
            assert isinstance(read_front_matter(whole, FILE).values, dict)
        except FrontMatterError as error:
            refused = error
        if refused is not None:
            assert refused.file == FILE and refused.line
            assert str(refused).startswith(f"{FILE}, line {refused.line}: ")


def test_values_lines_and_texts_as_written():
    read = read_front_matter(
        "---\r\nname: trip\nday: 2024-01-01\nzip: 0123\nno: no\non: TRUE\nversion: &v 1.10\nsame: *v\n"
        "metadata:\n  version: 1.10\n  big: 1e400\n  inner: [1]\n  none:\nlist: [a, b]\n---  \r\n# Body\n---\n",
        FILE,
    )
    assert read.values["day"] == "2024-01-01" and read.values["zip"] == "0123" and read.values["no"] == "no"
    assert read.values["on"] is True and read.values["version"] == read.values["same"] == 1.1
    assert (read.text("version"), read.text("same"), read.text("gone")) == ("1.10", "1.10", None)
    assert read.texts("metadata") == {"version": "1.10", "big": "1e400", "inner": "[1]", "none": ""}
    assert read.texts("gone") == {} and read.items("list", re.compile(r"\S+")) == ("a", "b")
    assert read.items("name", re.compile(r"\S+")) == ("trip",) and read.items("gone", re.compile("x")) == ()
    assert (read.lines["name"], read.lines["metadata"], read.body_line, read.body) == (2, 9, 16, "# Body\n---\n")


def test_a_byte_order_mark_is_left_out():
    assert read_front_matter("\ufeff---\na: 1\n---\nb", FILE).body == "b"


LAUGHS = "a: &a [lol]\n" + "".join(f"b{n}: &b{n} [{', '.join(['*a'] * 9)}]\n" for n in range(9))


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("name: x\n", 1, "the first line must be '---'"),
        ("---\nname: x\n", 1, "has no end: add a line '---'"),
        ("---\n---\n", 2, "must be a mapping, not nothing"),
        ("---\n- a\n---\n", 2, "must be a mapping, not a list"),
        ("---\na: 1\nb: 2\na: 3\n---\n", 4, "the key 'a' is there twice"),
        ("---\na:\n  b: 1\n  b: 2\n---\n", 4, "the key 'b' is there twice"),
        ("---\na: !!python/object/apply:os.system ['id']\n---\n", 2, "tags such as"),
        ("---\na: !!python/name:os.system\n---\n", 2, "tags such as"),
        ("---\na: !!str x\n---\n", 2, "tags such as"),
        ("---\n! a: x\n---\n", 2, "tags such as '!'"),
        (f"---\n{LAUGHS}---\n", 4, "more than 10 aliases"),
        ("---\na: &a [*a]\n---\n", 2, "stands within its own anchor"),
        ("---\na: *b\n---\n", 2, "there is no anchor &b"),
        (f"---\nx: 1\na: {'[' * 50}\n---\n", 3, "nested more than 10 deep"),
        (f"---\na: {'{b: ' * 50}\n---\n", 2, "nested more than 10 deep"),
        ("---\n? [a]\n: 1\n---\n", 2, "a key must be a text"),
        ("---\nname: x\ndescription: use: this\n---\n", 3, "this is no valid YAML: mapping values"),
        ("---\na: 1\nb: \x07\n---\n", 3, "this is no valid YAML"),
        ("---\na: 1\n...\n%YAML 1.1\n", 1, "has no end"),
        ('---\na: "\\ud800"\n---\n', 2, "lone surrogate"),
        (f"---\na: {'x' * MAX_CODE_POINTS}\n---\n", 1, "at most 16,384 are allowed"),
    ],
)
@pytest.mark.spec("9.3 limits of front matter")
def test_hostile_front_matter_is_refused(text, line, problem):
    with pytest.raises(FrontMatterError, match=re.escape(problem)) as raised:
        read_front_matter(text, FILE)
    assert (raised.value.file, raised.value.line) == (FILE, line)


@pytest.mark.parametrize(
    "unit", ["[", "{a: ", "? ", "- ", "&a ", "*a ", "a: 'b\n", "\u00e9: ", "{a, ", "!", "%", "a:\n ", "# x\n", "\t"]
)
def test_hostile_text_takes_bounded_time(unit):
    text = f"---\n{(unit * MAX_CODE_POINTS)[: MAX_CODE_POINTS - 10]}\n---\n"

    def read() -> None:
        with contextlib.suppress(FrontMatterError):
            read_front_matter(text, FILE)

    in_cpu_time(read, 5)


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda read: read.required("gone"), "line 1: the front matter has no 'gone'"),
        (lambda read: read.required("blank"), "line 2: 'blank' is blank"),
        (lambda read: read.required("long", 3), "line 3: 'long' has 5 characters; at most 3"),
        (lambda read: read.text("list"), "line 4: 'list' must be a text, not a list"),
        (lambda read: read.texts("long"), "line 3: 'long' must be a mapping of names to texts, not a text"),
        (lambda read: read.items("numbers", re.compile("x")), "line 5: 'numbers' must be a list of texts"),
    ],
)
def test_values_of_other_kinds_are_refused_with_their_line(call, problem):
    read = read_front_matter("---\nblank: ''\nlong: abcde\nlist: [a]\nnumbers: [1]\n---\n", FILE)
    with pytest.raises(FrontMatterError, match=re.escape(f"{FILE}, {problem}")):
        call(read)


def test_values_that_yaml_has_no_form_for_are_refused():
    with pytest.raises(InvalidInputError, match="Front matter takes texts"):
        front_matter_text({"a": object()}, "")


def test_a_missing_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(MissingExtraError, match=r"agentscope-rx\[skills\]") as caught:
        read_front_matter("---\na: 1\n---\n", "f")
    assert caught.value.extra == "skills"
