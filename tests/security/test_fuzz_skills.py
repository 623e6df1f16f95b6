"""Skills and front matter made of anything: a value, or an error of ours that names the file."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx.errors import FrontMatterError, SkillError
from agentscope_rx.skills import Skill, front_matter_text, read_front_matter, skill_of_zip
from agentscope_rx.skills.skill import skill_of_text, skill_text
from tests.security.wires import damaged
from tests.skills.test_storing import zipped

pytestmark = pytest.mark.fuzz

seeds = st.integers(min_value=0, max_value=2**64)
PIECES = st.sampled_from(
    ["---\n", "name: x\n", "a: ", "- ", "  ", "\n", "&a ", "*a", "[", "]", "{", "}", "? ", "'", '"', "|\n", ">\n", "# ",
     "!!python/name:os.system", "!", "<<: ", "%YAML 1.1\n", "...\n", "\t", "\r", "\x85", "\u2028", "\ufeff", "é", "\0"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=40).map("".join))
def test_front_matter_of_any_pieces_is_read_or_refused(text: str):
    for whole in (text, f"---\n{text}\n---\nbody"):
        try:
            read = read_front_matter(whole, "f.md")
        except FrontMatterError as error:
            assert error.line  # noqa: PT017
            continue
        again = read_front_matter(front_matter_text(read.values, read.body), "f.md")
        assert (again.values, again.body) == (read.values, read.body)


@given(seeds)
def test_a_damaged_skill_is_one_or_an_error_of_ours(seed: int):
    source = random.Random(seed)
    text = skill_text(Skill("trip", "Trips.", "Go.\n", license="MIT", metadata={"a": "b"}, allowed_tools=["Read"]))
    try:
        found = skill_of_text(damaged(text.encode(), source).decode(errors="replace"), "SKILL.md")
    except SkillError as error:
        str(error).encode()
    else:
        assert skill_of_text(skill_text(found), "SKILL.md") == found


@given(seeds)
def test_a_damaged_zip_file_is_a_skill_or_an_error_of_ours(seed: int):
    data = zipped([("trip/SKILL.md", skill_text(Skill("trip", "Trips.", "Go.\n"))), ("trip/a", "x" * 300)])
    try:
        skill_of_zip(damaged(data, random.Random(seed)))
    except SkillError as error:
        str(error).encode()
