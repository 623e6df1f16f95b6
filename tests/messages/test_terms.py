"""Texts as terms of a full-text index: names in code have their parts as words, too."""

from __future__ import annotations

import pytest

from agentscope_rx.messages.terms import MAX_TERMS, Term, index_terms, match_of, query_terms


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("getUserName", "getusername get user name"),
        ("HTTPServer", "httpserver http server"),
        ("read_userFile", "read_userfile read user file"),
        ("snake_case", "snake_case"),
        ("Paris ABC iPad", "paris abc ipad i pad"),
        ("喝咖啡Now", "喝咖 咖啡 啡 now"),
    ],
)
def test_parts_of_names_are_terms(text: str, terms: str):
    assert index_terms(text, names=True) == terms


def test_names_stay_whole_unless_asked_for():
    assert index_terms("getUserName") == "getusername"
    assert match_of("getUserName") == '"getusername"'


def test_a_name_finds_its_parts_and_itself():
    assert match_of("Where is getUserName?", names=True) == '"getusername" OR "get user name"'
    assert query_terms("咖") == [Term("咖", is_prefix=True)]


def test_a_long_query_has_its_first_and_last_terms():
    terms = query_terms(" ".join(f"word{n} nameOf{n}" for n in range(1000)), names=True)
    assert len(terms) == MAX_TERMS
    assert terms[0] == Term("word0")


def test_characters_of_a_query_are_terms_on_request():
    assert match_of("咖啡 bar", names=True) == '"咖啡" OR "咖" * OR "啡" * OR "bar"'
    assert match_of("咖啡 bar") == '"咖啡" OR "bar"'
    assert match_of("咖", names=True) == match_of("咖") == '"咖" *'
