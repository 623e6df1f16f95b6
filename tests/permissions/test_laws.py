"""Laws of decisions: deny over ask over allow over the mode; a rule that restricts allows no more; order is nothing."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx.messages import ToolUseBlock
from agentscope_rx.permissions import PermissionRule, PermissionRules
from agentscope_rx.testing import call
from tests.permissions.parts import toolkit_in, workspace_in

WORKSPACE = workspace_in(Path(tempfile.mkdtemp()))
TOOLKIT = toolkit_in(WORKSPACE)
RANK = {"allow": 0, "ask": 1, "deny": 2}

TOOLS = ["write_file", "fs_write_file", "move_file", "grep", "copy", "run_command", "bash", "run_python", "pay", "sign"]
PARTS = st.sampled_from(["src", "Src", "secrets", "notes", "app", "a.py", "b", "..", ".", ".agentscope", "~", "link"])
PATHS = st.lists(PARTS, min_size=1, max_size=4).map("/".join)
COMMANDS = st.lists(
    st.sampled_from(
        ["git", "log", "push", "-C", "rm", "-rf", "sh", "-c", "secrets/a", "src", ";", "|", "'", "$(", "*"]
    ),
    min_size=1,
    max_size=6,
).map(" ".join)
GLOBS = st.lists(st.sampled_from(["src", "secrets", "*", "**", "*.py", "a*", "{a,b}"]), min_size=1, max_size=3)


def calls_of(name: str) -> st.SearchStrategy[ToolUseBlock]:
    if name in ("run_command", "bash"):
        return st.builds(lambda command: call(name, command=command), COMMANDS)
    if name in ("move_file", "copy"):
        first, second = ("path", "target") if name == "move_file" else ("source", "destination")
        return st.builds(lambda a, b: call(name, **{first: a, second: b}), PATHS, PATHS)
    if name == "grep":
        return st.builds(lambda path: call(name, pattern="x", path=path), PATHS)
    plain = {"run_python": {"code": "1"}, "pay": {"amount": 1}, "sign": {"name": "x"}}
    if name in plain:
        return st.just(ToolUseBlock("c", name, plain[name]))
    return st.builds(lambda path: call(name, path=path, content=""), PATHS)


CALLS = st.sampled_from(TOOLS).flatmap(calls_of)
NAMES = st.sampled_from([*TOOLS, "*", "*_file", "fs_*"])
RULE = st.one_of(
    NAMES.map(PermissionRule),
    st.builds(lambda name, parts: PermissionRule(name, path="/".join(parts)), NAMES, GLOBS),
    st.builds(
        lambda name, command: PermissionRule(name, command=command),
        NAMES,
        st.sampled_from(["git log *", "git push", "rm *", "git * x", "sh -c *"]),
    ),
)
LISTS = st.lists(RULE, max_size=4)
MODES = st.sampled_from(["plan", "ask", "accept_edits", "workspace"])
SETS = st.fixed_dictionaries({"deny": LISTS, "ask": LISTS, "allow": LISTS, "mode": MODES})


def decided(rules: dict, block: ToolUseBlock):
    return PermissionRules(workspace=WORKSPACE, **rules).decide(block, TOOLKIT.get(block.name))


def rank(rules: dict, block: ToolUseBlock) -> int:
    return RANK[decided(rules, block).verdict]


@given(SETS, RULE, st.sampled_from(["deny", "ask"]), CALLS)
def test_a_rule_that_restricts_never_allows_more(rules: dict, rule: PermissionRule, kind: str, block: ToolUseBlock):
    assert rank({**rules, kind: [*rules[kind], rule]}, block) >= rank(rules, block)


@given(SETS, RULE, CALLS)
def test_a_rule_that_allows_never_restricts(rules: dict, rule: PermissionRule, block: ToolUseBlock):
    before, after = rank(rules, block), rank({**rules, "allow": [*rules["allow"], rule]}, block)
    assert after <= before and (before != RANK["deny"] or after == before)


@given(SETS, CALLS, st.randoms(use_true_random=False))
def test_the_order_of_rules_does_not_matter(rules: dict, block: ToolUseBlock, random):
    lists = {name: random.sample(rules[name], len(rules[name])) for name in ("deny", "ask", "allow")}
    shuffled = {**rules, **lists}
    assert decided(rules, block).verdict == decided(shuffled, block).verdict


@given(SETS, CALLS)
def test_what_a_rule_allows_it_covers_too(rules: dict, block: ToolUseBlock):
    """So the same rule denies at least what it allows: narrow reading within wide reading."""
    for rule in rules["allow"]:
        allowing = decided({"allow": [rule]}, block)
        if allowing.verdict == "allow" and allowing.rule is not None:
            assert decided({"deny": [rule]}, block).verdict == "deny"


@given(SETS, CALLS)
def test_plan_denies_all_but_reading_and_modes_only_widen(rules: dict, block: ToolUseBlock):
    tool = TOOLKIT.get(block.name)
    ranks = [rank({**rules, "mode": mode}, block) for mode in ("plan", "ask", "accept_edits", "workspace")]
    assert ranks == sorted(ranks, reverse=True)
    assert tool is not None and (tool.read_only or ranks[0] == RANK["deny"])


@given(SETS, CALLS)
def test_a_proposal_allows_its_call_and_nothing_denied(rules: dict, block: ToolUseBlock):
    own = PermissionRules(workspace=WORKSPACE, **rules)
    for rule in own.propose(block, TOOLKIT.get(block.name)):
        assert rule.runs_any is None
        assert decided({**rules, "allow": [*rules["allow"], rule]}, block).verdict == "allow"
