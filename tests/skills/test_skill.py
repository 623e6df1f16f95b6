"""`Skill`: its limits, and its text, which is read back as it was written."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx.errors import ConfigurationError, SkillError
from agentscope_rx.skills import GivenSkills, Skill, save_skill
from agentscope_rx.skills.skill import digest_of, skill_of_text, skill_text

NAMES = st.from_regex(r"[a-z0-9]{1,8}(-[a-z0-9]{1,8}){0,3}", fullmatch=True)
TEXTS = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=60).filter(str.strip)
OPTIONAL = st.none() | TEXTS


@given(
    NAMES,
    TEXTS,
    st.text(st.characters(exclude_categories=("Cs",)), max_size=100),
    OPTIONAL,
    OPTIONAL,
    st.dictionaries(TEXTS, st.text(st.characters(exclude_categories=("Cs",)), max_size=20), max_size=3),
    st.lists(st.sampled_from(["Read", "Bash(git add:*)", "mcp__x__y", "grep"]), max_size=3),
)
@pytest.mark.spec("9.3 generate() writes it back")
def test_a_skill_is_read_back_from_its_text(name, description, content, license, compatibility, metadata, tools):
    skill = Skill(
        name,
        description,
        content,
        {"a/b.txt": "x"},
        license=license,
        compatibility=compatibility,
        metadata=metadata,
        allowed_tools=tools,
    )
    assert skill_of_text(skill_text(skill), "SKILL.md", skill.resources) == skill


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("---\nname: x\n---\n", 1, "the front matter has no 'description'"),
        ("---\ndescription: x\n---\n", 1, "the front matter has no 'name'"),
        ("---\nname:\ndescription: x\n---\n", 2, "'name' is blank"),
        ("---\nname: My Skill\ndescription: x\n---\n", 2, "'My Skill' cannot name a skill"),
        ("---\nname: a--b\ndescription: x\n---\n", 2, "Try 'a-b'"),
        (f"---\nname: {'a' * 65}\ndescription: x\n---\n", 2, "needs 1 to 64"),
        ("---\nname: ../x\ndescription: x\n---\n", 2, "Try 'x'"),
        (f"---\nname: x\ndescription: {'d' * 1025}\n---\n", 3, "1,025 characters; at most 1,024"),
        ("---\nname: x\ndescription: [a]\n---\n", 3, "'description' must be a text, not a list"),
        (f"---\nname: x\ndescription: x\ncompatibility: {'c' * 501}\n---\n", 4, "at most 500"),
        ("---\nname: x\ndescription: x\nmetadata: [1]\n---\n", 4, "'metadata' must be a mapping"),
        ("---\nname: x\ndescription: x\nallowed-tools: [1]\n---\n", 4, "'allowed-tools' must be a list of texts"),
        ("# No front matter", 1, "the first line must be '---'"),
    ],
)
@pytest.mark.spec("9.3 failures name their line")
def test_a_text_that_is_no_skill_names_file_and_line(text, line, problem):
    with pytest.raises(SkillError, match=re.escape(problem)) as raised:
        skill_of_text(text, "skills/x/SKILL.md")
    assert (raised.value.file, raised.value.line) == ("skills/x/SKILL.md", line)


@pytest.mark.parametrize(
    ("text", "tools"),
    [
        ("Read Grep", ("Read", "Grep")),
        ("Read, Grep", ("Read", "Grep")),
        ("[Read, 'Bash(git add:*)']", ("Read", "Bash(git add:*)")),
        ("Bash(git add:*) Bash(jq *),Read", ("Bash(git add:*)", "Bash(jq *)", "Read")),
        ("", ()),
    ],
)
def test_allowed_tools_are_read_in_each_form(text, tools):
    skill = skill_of_text(f"---\nname: x\ndescription: y\nallowed-tools: {text}\n---\n", "SKILL.md")
    assert skill.info.allowed_tools == tools


@pytest.mark.parametrize(
    ("arguments", "options", "problem"),
    [
        (("X", "d", ""), {}, "cannot name a skill"),
        (("x", " ", ""), {}, "description of a Skill must have 1 to 1,024"),
        (("x", "d" * 1025, ""), {}, "not 1,025"),
        (("x", "d", 1), {}, "content of a Skill must be text"),
        (("x", "d", "\ud800"), {}, "lone surrogate"),
        (("x", "d", ""), {"compatibility": ""}, "compatibility of a Skill must have 1 to 500"),
        (("x", "d", ""), {"metadata": {"a": 1}}, "metadata['a'] of a Skill must be text"),
        (("x", "d", "", {"../x": ""}), {}, "has '..' in it"),
        (("x", "d", "", {"/etc/x": ""}), {}, "absolute"),
        (("x", "d", "", {"SKILL.md": ""}), {}, "is no path for a resource"),
        (("x", "d", "", {"a//b": ""}), {}, "is no path for a resource"),
        (("x", "d", "", {1: ""}), {}, "have paths as keys"),
        (("x", "d", "", {"a": 1}), {}, "is bytes or text"),
    ],
)
def test_a_skill_in_code_is_checked(arguments, options, problem):
    with pytest.raises(ConfigurationError, match=re.escape(problem)):
        Skill(*arguments, **options)


def test_a_skill_does_not_change():
    given = {"a": b"1"}
    skill = Skill("x", " d ", "c", given)
    given["a"] = b"2"
    assert (skill.resources["a"], skill.name, skill.description) == (b"1", "x", "d")
    with pytest.raises(TypeError):
        skill.resources["a"] = b""  # pyright: ignore[reportIndexIssue]
    with pytest.raises(AttributeError):
        skill.content = ""  # pyright: ignore[reportAttributeAccessIssue]


FILES = st.dictionaries(st.text(max_size=4), st.binary(max_size=4), max_size=3)


@given(FILES, FILES)
def test_a_digest_differs_if_any_file_does(one, other):
    assert (digest_of(one) == digest_of(other)) == (one == other)


def test_what_is_no_skill_is_a_typed_error(tmp_path):
    with pytest.raises(ConfigurationError, match="resources of a Skill are a dict"):
        Skill("trips", "d", "c", ["a.md"])
    with pytest.raises(ConfigurationError, match="save_skill takes a Skill"):
        save_skill("trips", tmp_path)
    with pytest.raises(ConfigurationError, match="a list of Skills"):
        GivenSkills(Skill("trips", "d", "c"))
