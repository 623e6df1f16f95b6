"""`SubAgent` in code and in files: every field, every wrong value with its file and line, hostile front matter."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentscope_rx import ReActAgent, UsageLimits
from agentscope_rx.errors import ConfigurationError, SubAgentFileError, WorkspaceError
from agentscope_rx.permissions.rule_set import RuleSet
from agentscope_rx.sub_agents import (
    FolderSubAgents,
    SubAgent,
    SubAgentCatalog,
    SubagentsHook,
    WorkspaceSubAgents,
    sub_agent_of_text,
    usual_sub_agents,
)
from agentscope_rx.sub_agents.declaration_file import starting_text
from agentscope_rx.testing import ScriptedModel
from tests.sub_agents.parts import declare
from tests.support.assertions import in_cpu_time

FULL = """---
name: fact-finder
description: Finds facts.
tools: search, read_file
without_tools: [write_file]
model: openai:gpt-5-mini
permissions:
  deny: ["read_file(secrets/**)"]
  ask: [search]
  mode: plan
max_iters: 4
limits:
  model_calls: 20
  deadline: 60.5
spawns: true
workspace: none
---
You find facts.
"""


def read(text: str) -> SubAgent:
    return sub_agent_of_text(text, "subagents/x.md", "x")


def test_a_file_has_all_fields():
    assert read(FULL) == SubAgent(
        "fact-finder",
        "Finds facts.",
        "You find facts.",
        tools=["search", "read_file"],
        without_tools=["write_file"],
        model="openai:gpt-5-mini",
        permissions={"deny": ["read_file(secrets/**)"], "ask": ["search"], "mode": "plan"},
        max_iters=4,
        limits=UsageLimits(model_calls=20, deadline=60.5),
        spawns=True,
        workspace="none",
    )


def test_a_file_needs_a_description_and_a_prompt_only():
    declared = read("---\ndescription: Does it.\n---\nDo it.\n")
    assert declared == SubAgent("x", "Does it.", "Do it.")
    assert (declared.tools, declared.model, declared.permissions, declared.spawns) == (None, None, None, False)
    assert read("---\ndescription: a\nmodel: inherit\ntools:\n---\nx").model is None
    assert read("---\ndescription: a\ntools: []\n---\nx").tools == ()


@pytest.mark.parametrize(
    ("lines", "line", "text"),
    [
        ("maxIters: 3", 3, "there is no key 'maxIters'. Did you mean 'max_iters'?"),
        ("disallowed-tools: x", 3, "There are: name, description, tools"),
        ("max_iters: many", 3, "max_iters must be"),
        ("max_iters: 0", 3, "max_iters must be"),
        ("max_iters: true", 3, "max_iters must be"),
        ("spawns: sure", 3, "spawns must be True or False"),
        ("workspace: isolated", 3, "'shared' or 'none'"),
        ("tools: {a: b}", 3, "'tools' must be a text"),
        ("tools: [1, 2]", 3, "'tools' must be a list of texts"),
        ("permissions: all", 3, "'permissions' must be a mapping"),
        ("permissions:\n  allow: [write_file]", 3, "allow nothing"),
        ("permissions:\n  allow: write_file", 3, "allow"),
        ("permissions:\n  deni: [a]", 3, "Did you mean 'deny'?"),
        ("permissions:\n  mode: yolo", 3, "mode must be"),
        ("permissions:\n  deny: ['(']", 3, "("),
        ("limits:\n  tokens: 5", 3, "limits have no 'tokens'. Did you mean"),
        ("limits:\n  model_calls: -1", 3, "model_calls must be"),
        ("limits:\n  cost: 5", 3, "limits have no 'cost'"),
        ("limits: 3", 3, "'limits' must be a mapping"),
        ("name: Not Good", 3, "Try 'not-good'"),
        ("name: ../../etc/passwd", 3, "cannot name a sub-agent"),
        ("description: again", 3, "there twice"),
        ("agent: x", 3, "there is no key 'agent'"),
    ],
    ids=lambda value: str(value)[:30].replace("\n", " "),
)
def test_a_wrong_value_has_its_file_and_line(lines: str, line: int, text: str):
    with pytest.raises(SubAgentFileError) as caught:
        read(f"---\ndescription: a\n{lines}\n---\nDo it.\n")
    error = caught.value
    assert (error.file, error.line, error.sub_agent) == ("subagents/x.md", line, "x")
    assert text in str(error) and "subagents/x.md, line 3" in str(error)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Do it.", "first line must be"),
        ("---\nname: x\n---\nDo it.", "no 'description'"),
        ("---\ndescription:\n---\nDo it.", "'description' is blank"),
        ("---\ndescription: a\n---\n \n", "no prompt"),
        ("---\ndescription: a\n", "no end"),
        (f"---\ndescription: {'x' * 2000}\n---\nDo it.", "at most 1,024"),
        ("---\na: &a [x]\nb: [*a, *a, *a, *a, *a, *a, *a, *a, *a, *a, *a]\n---\nx", "aliases"),
        ("---\n" + "a: " + "[" * 50 + "\n---\nx", "deep"),
        ("---\ndescription: !!python/object/apply:os.system ['x']\n---\nx", "tags"),
        ("---\ndescription: a\nx: '" + "y" * 20_000 + "'\n---\nx", "16,384"),
    ],
    ids=["none", "missing", "blank", "prompt", "end", "long", "aliases", "deep", "tags", "size"],
)
def test_front_matter_that_cannot_be_used(text: str, problem: str):
    with pytest.raises(SubAgentFileError, match=problem):
        in_cpu_time(lambda: read(text), 1.0)


@given(st.text(max_size=300))
@settings(max_examples=150, deadline=None)
def test_any_text_is_a_sub_agent_or_an_error_of_a_file(text: str):
    for whole in (text, f"---\ndescription: a\n{text}\n---\nx"):
        with suppress(SubAgentFileError):
            assert read(whole).prompt


def test_a_file_to_begin_with_can_be_used():
    declared = read(starting_text("trip-planner", "Plans: trips # by rail"))
    assert (declared.name, declared.description) == ("trip-planner", "Plans: trips # by rail")


@pytest.mark.parametrize(
    ("arguments", "options", "text"),
    [
        (("Bad Name", "d"), {}, "Try 'bad-name'"),
        ((7, "d"), {}, "name of a SubAgent"),
        (("a", " "), {}, "description"),
        (("a", "d", 7), {}, "prompt"),
        (("a", "d"), {"tools": "search"}, "list of names"),
        (("a", "d"), {"tools": [7]}, "list of names"),
        (("a", "d"), {"model": 7}, "model of sub-agent 'a'"),
        (("a", "d"), {"model": " "}, "blank"),
        (("a", "d"), {"limits": 7}, "UsageLimits"),
        (("a", "d"), {"permissions": {"allow": ["x"]}}, "allow nothing"),
        (("a", "d"), {"permissions": RuleSet.of(allow=["x"])}, "allow nothing"),
        (("a", "d"), {"permissions": 7}, "are rules"),
        (("a", "d"), {"agent": ScriptedModel}, "is an agent"),
        (("a", "d"), {"agent": lambda: None, "tools": ["x"]}, "give tools to that agent"),
    ],
    ids=lambda value: str(value)[:20] if isinstance(value, str) else "",
)
def test_a_declaration_in_code_is_checked(arguments, options, text: str):
    with pytest.raises(ConfigurationError, match=text):
        SubAgent(*arguments, **options)


# --- sources ----------------------------------------------------------------------------------------------------------


def test_what_is_wrong_in_one_file_leaves_the_others(tmp_path: Path):
    folder = tmp_path / "subagents"
    declare(folder, "good")
    declare(folder, "same", name="good")
    (folder / "bad.md").write_text("nothing")
    (folder / "bytes.md").write_bytes(b"---\ndescription: \xff\n---\nx")
    (folder / "zero.md").write_bytes(b"---\0")
    (folder / "huge.md").write_text("x\n" * 100_000)
    (folder / "folder.md").mkdir()
    (folder / "link.md").symlink_to("/etc/passwd")
    (folder / ".hidden.md").write_text("nothing")
    (folder / "notes.txt").write_text("nothing")
    found = SubAgentCatalog(WorkspaceSubAgents(tmp_path)).read()
    assert list(found.by_name) == ["good"]
    problems = {error.file: error.problem for error in found.problems}
    assert set(problems) == {
        f"subagents/{name}.md" for name in ("bad", "bytes", "zero", "huge", "folder", "link", "same")
    }
    assert "links are not followed" in problems["subagents/link.md"]
    assert "UTF-8" in problems["subagents/bytes.md"] and "65,536 bytes" in problems["subagents/huge.md"]
    assert "declares the name 'good', too" in problems["subagents/same.md"]


def test_a_folder_that_is_a_link_or_leads_out_is_not_read(tmp_path: Path):
    outside = tmp_path / "outside"
    declare(outside, "evil")
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "subagents").symlink_to(outside)
    found = SubAgentCatalog(WorkspaceSubAgents(inside)).read()
    assert not found.by_name and len(found.problems) == 1
    with pytest.raises(WorkspaceError):
        WorkspaceSubAgents(inside, "../outside")


def test_an_earlier_source_hides_a_later_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    declare(tmp_path / "home/.agentscope/subagents", "a", description="of the user")
    declare(tmp_path / "home/.agentscope/subagents", "b")
    declare(tmp_path / "subagents", "a", description="of the workspace")
    code = SubAgent("b", "of code")
    found = SubAgentCatalog(*usual_sub_agents(tmp_path), code).read()
    assert [(name, each.source) for name, each in found.by_name.items()] == [("a", "workspace"), ("b", "code")]
    hidden = [(one.name, one.source, by.source) for one, by in found.shadowed]
    assert hidden == [("a", "user", "workspace"), ("b", "user", "code")]


def test_files_are_read_again_when_they_change(tmp_path: Path):
    path = declare(tmp_path, "a")
    catalog = SubAgentCatalog(FolderSubAgents(tmp_path))
    first = catalog.read()
    assert catalog.read() is first
    declare(tmp_path, "a", "Do it again.")
    second = catalog.read()
    assert second.by_name["a"].declared.prompt == "Do it again."
    (tmp_path / "bad.md").write_text("x")
    third = catalog.read()
    assert third.by_name == second.by_name and len(third.problems) == 1 and catalog.read() is third
    path.unlink()
    assert not catalog.read().by_name


def test_a_folder_that_is_replaced_is_found_again(tmp_path: Path):
    folder = tmp_path / "f"
    catalog = SubAgentCatalog(folder)
    assert not catalog.read().by_name
    declare(folder, "a")
    assert list(catalog.read().by_name) == ["a"]
    os.rename(folder, tmp_path / "old")
    declare(folder, "b")
    assert list(catalog.read().by_name) == ["b"]


def test_a_source_that_fails_leaves_the_others(tmp_path: Path):
    class Broken(FolderSubAgents):
        def scan(self):
            raise RuntimeError("no disk")

    found = SubAgentCatalog(Broken(tmp_path), SubAgent("a", "An a.")).read()
    assert list(found.by_name) == ["a"] and "RuntimeError: no disk" in str(found.problems[0])
    with pytest.raises(ConfigurationError, match="Sub-agents come from"):
        SubAgentCatalog(7)  # pyright: ignore[reportArgumentType]


def test_a_model_in_code_is_checked_with_its_agent() -> None:
    hook = SubagentsHook(SubAgent("finder", "Finds facts.", "You find facts.", model="gpt-5-mini"))
    with pytest.raises(ConfigurationError, match="A model is named provider:name"):
        ReActAgent("Friday", ScriptedModel("Hi."), hooks=[hook])
