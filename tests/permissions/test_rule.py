"""`PermissionRule`: its text, its JSON, and the errors of what cannot be a rule."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.permissions import PermissionRule

FORMS = [
    ("write_file", PermissionRule("write_file")),
    ("mcp_*", PermissionRule("mcp_*")),
    ("*", PermissionRule("*")),
    ("write_file(src/**)", PermissionRule("write_file", path="src/**")),
    ("write_file( src/a b (1).txt )", PermissionRule("write_file", path="src/a b (1).txt")),
    ("run_command(git log *)", PermissionRule("run_command", command="git log *")),
    ("bash(git log *)", PermissionRule("bash", command="git log *")),
    ("my_shell(command: git log *)", PermissionRule("my_shell", command="git log *")),
    ("bash(path: src/**)", PermissionRule("bash", path="src/**")),
    ("write_file({src,docs}/**)", PermissionRule("write_file", path="{src,docs}/**")),
    ('fetch(arguments: {"url": "x"})', PermissionRule("fetch", arguments={"url": "x"})),
    ("fetch(arguments: {})", PermissionRule("fetch", arguments={})),
    ("run_command(grep ';' *)", PermissionRule("run_command", command="grep ';' *")),
    ("bash(docker pull app:*)", PermissionRule("bash", command="docker pull app:*")),
]


@pytest.mark.parametrize(("text", "rule"), FORMS, ids=[text for text, _ in FORMS])
def test_the_text_of_a_rule(text: str, rule: PermissionRule):
    assert PermissionRule.parse(text) == PermissionRule.of(text) == rule == PermissionRule.of(rule)
    assert PermissionRule.parse(str(rule)) == rule
    assert PermissionRule.of(json.loads(json.dumps(rule.to_json()))) == rule


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("", "cannot be read"),
        ("write_file(src/**", "cannot be read"),
        ("write file", "cannot be read"),
        ("write_file()", "nothing in its parentheses"),
        ("write_file(path: )", "nothing in its parentheses"),
        ("write_file(/etc/**)", "absolute"),
        ("write_file(../x)", "'..'"),
        ("write_file(~/x)", "absolute"),
        ("run_command(*)", "'run_command' alone"),
        ("run_command(git 'log)", "cannot be read"),
        ("run_command(./evil *)", "may be able to change"),
        ("fetch(arguments: {)", "no JSON"),
        ("fetch(arguments: [1])", "must be an object"),
        ({"tool": "a", "paht": "x"}, "Did you mean 'path'"),
        ({"tool": "a", "path": "x", "command": "y"}, "path and command"),
        ({"tool": "a", "path": 3}, "a pattern"),
        ({"tool": ""}, "begins with a tool"),
        (3, "not 3"),
        ("write_file(paths: src/**)", "Did you mean 'path: '?"),
        ("bash(Command: git log)", "Did you mean 'command: '?"),
        ("run_command(git log; rm *)", "has ';' in it"),
        ("run_command(cat * | sh)", "has '|' in it"),
        ("*(command: make > *)", "has '>' in it"),
        ("bash(rm:*)", "Did you mean 'rm *'"),
    ],
)
def test_what_is_no_rule_says_why(given: object, problem: str):
    with pytest.raises(ConfigurationError) as caught:
        PermissionRule.of(given)
    assert problem in str(caught.value)


NAMES = st.from_regex(r"[a-z_*]{1,12}", fullmatch=True)
PATTERNS = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1, max_size=20)


@given(NAMES, PATTERNS, st.sampled_from(["path", "command"]))
def test_text_and_json_give_the_same_rule_again(tool: str, pattern: str, kind: str):
    try:
        rule = PermissionRule(tool, **{kind: pattern})
    except ConfigurationError:
        return
    assert PermissionRule.of(json.loads(json.dumps(rule.to_json()))) == rule


@given(NAMES, st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5) | st.none(), max_size=3))
def test_rules_of_exact_arguments_survive_json(tool: str, arguments: dict[str, object]):
    rule = PermissionRule(tool, arguments=arguments)
    assert PermissionRule.of(json.loads(json.dumps(rule.to_json()))) == rule
