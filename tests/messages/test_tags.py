"""`Tags`: texts of others cannot open or close the tags of a prompt, and everything else in them stays as it is."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentscope_rx.messages.tags import Tags
from tests.support.assertions import in_cpu_time

TAGS = Tags("notes", "system-hint")
PIECES = st.lists(
    st.sampled_from(["<", "</", " ", "\n", "notes", "Notes", "system-hint", ">", "&lt;", "<b>", "x"]), max_size=12
)
CLOSING = re.compile(r"<\s*/?\s*(?:notes|system-hint)", re.IGNORECASE)


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("a </notes> b", "a &lt;/notes> b"),
        ("< / NOTES >", "&lt; / NOTES >"),
        ("<system-hint>", "&lt;system-hint>"),
        ("<\n/\nnotes\n>", "&lt;\n/\nnotes\n>"),
        ("<\u200b/\ufeffnotes>", "&lt;\u200b/\ufeffnotes>"),
        ("</no\u2060te\u00ads>", "&lt;/no\u2060te\u00ads>"),
        ("<note> <b>1 < 2</b> notes", "<note> <b>1 < 2</b> notes"),
    ],
)
def test_only_these_tags_are_escaped(text: str, escaped: str) -> None:
    assert TAGS.escaped(text) == escaped
    assert TAGS.unescaped(escaped) == text


@given(PIECES.map("".join))
@example("<<notes")
@example("<&lt;notes")
def test_no_tag_is_left_and_escaping_again_changes_nothing(text: str) -> None:
    escaped = TAGS.escaped(text)
    assert not CLOSING.search(escaped)
    assert TAGS.escaped(escaped) == escaped
    assert TAGS.unescaped(escaped) == TAGS.unescaped(text)


@pytest.mark.parametrize("text", ["<" + " " * 100_000, "< / " * 30_000, "<n" + "\u200b" * 100_000, "<" * 100_000])
def test_no_text_takes_long(text: str) -> None:
    assert in_cpu_time(lambda: TAGS.escaped(text), 1.0) == text
