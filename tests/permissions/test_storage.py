"""Permissions kept with a workspace: what is loaded, what is saved, what is wrong in a file."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.permissions import PermissionRules
from agentscope_rx.testing import call
from agentscope_rx.tools import Toolkit

FILE = ".agentscope/permissions.json"


def written(folder: Path, text: str) -> Path:
    (folder / ".agentscope").mkdir(exist_ok=True)
    (folder / FILE).write_text(text)
    return folder


def test_rules_are_kept_with_the_workspace(tmp_path: Path):
    rules = PermissionRules.load(tmp_path, deny=["bash"], mode="accept_edits")
    assert not (tmp_path / FILE).exists()
    rules.add("write_file(src/**)")
    rules.add({"tool": "fetch", "arguments": {"url": "x"}}, "ask")
    assert json.loads((tmp_path / FILE).read_text()) == {
        "version": 1,
        "deny": [],
        "ask": ['fetch(arguments: {"url": "x"})'],
        "allow": ["write_file(src/**)"],
    }
    again = PermissionRules.load(tmp_path)
    assert [*map(str, again.allow)] == ["write_file(src/**)"] and again.mode == "ask" and again.deny == ()
    again.remove("write_file(src/**)")
    assert PermissionRules.load(tmp_path).allow == ()
    with pytest.raises(ConfigurationError, match="There is no rule 'bash' in deny"):
        rules.remove("bash", "deny")


def test_denials_of_both_hold_and_the_codes_mode_wins(tmp_path: Path):
    written(tmp_path, '{"version": 1, "mode": "workspace", "deny": ["one"], "allow": ["*"]}')
    rules = PermissionRules.load(tmp_path, deny=["two"])
    assert rules.mode == "workspace" and PermissionRules.load(tmp_path, mode="ask").mode == "ask"
    assert [rules.decide(call(name), None).verdict for name in ("one", "two", "three")] == ["deny", "deny", "allow"]


def test_a_file_that_is_not_trusted_can_only_restrict(tmp_path: Path):
    written(tmp_path, '{"version": 1, "mode": "workspace", "deny": ["one"], "ask": ["two"], "allow": ["*"]}')
    rules = PermissionRules.load(tmp_path, trusted=False)
    assert rules.mode == "ask" and rules.allow == () and len(rules.deny) == len(rules.ask) == 1
    with pytest.raises(ConfigurationError, match=r"PermissionRules\.load"):
        rules.save()
    written(tmp_path, '{"version": 1, "mode": "plan"}')
    assert PermissionRules.load(tmp_path, trusted=False).mode == "plan"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "line 1, is no JSON"),
        ('{\n"version": 1\nx}', "line 3, is no JSON"),
        ("[]", "must be an object"),
        ("{}", 'needs "version": 1'),
        ('{"version": 2}', "line 1, has version 2"),
        ('{"version": true}', "needs"),
        ('{\n"version": 1,\n"alow": []}', "line 3, has no 'alow'. Did you mean 'allow'?"),
        ('{\n"version": 1,\n"allow": "*"}', "line 3, has 'allow' that is no list"),
        ('{\n"version": 1,\n"allow": [\n"ok",\n"write_file(../x)"\n]}', "line 5, has a rule that cannot be used"),
        ('{\n"version": 1,\n"ask": [\n{"tool": "a", "paht": "x"}]}', "line 4, has a rule that cannot be used"),
        ('{\n"version": 1,\n"mode": "wild"}', "line 3, cannot be used: mode must be"),
        ('{"version": 1, "allow": [3]}', "not 3"),
        ("\ufeff{}", "is no JSON"),
        ("[" * 100_000, "is no JSON"),
    ],
)
def test_what_is_wrong_in_a_file_is_named_with_its_line(tmp_path: Path, text: str, problem: str):
    written(tmp_path, text)
    with pytest.raises(ConfigurationError) as caught:
        PermissionRules.load(tmp_path)
    assert problem in str(caught.value) and "permissions.json" in str(caught.value)


def test_a_file_that_is_no_text_or_a_link_is_refused(tmp_path: Path):
    written(tmp_path, "")
    (tmp_path / FILE).write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError, match="is no JSON"):
        PermissionRules.load(tmp_path)
    (tmp_path / FILE).unlink()
    (tmp_path / "elsewhere.json").write_text('{"version": 1, "allow": ["*"]}')
    (tmp_path / FILE).symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        PermissionRules.load(tmp_path)
    (tmp_path / FILE).unlink()
    (tmp_path / ".agentscope").rmdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / ".agentscope").symlink_to("outside")
    with pytest.raises(ConfigurationError):
        PermissionRules.load(tmp_path).add("write_file")
    assert [*(tmp_path / "outside").iterdir()] == []


def test_rules_may_be_kept_in_another_file(tmp_path: Path):
    file = tmp_path / "rules.json"
    PermissionRules.load(tmp_path, file=file).add("write_file")
    assert not (tmp_path / ".agentscope").exists()
    assert [*map(str, PermissionRules.load(tmp_path, file=file).allow)] == ["write_file"]


def test_a_rule_that_cannot_be_saved_is_not_in_force(tmp_path: Path):
    rules = PermissionRules.load(tmp_path)
    (tmp_path / ".agentscope").write_text("a file in the place of the folder")
    with pytest.raises(ConfigurationError, match="cannot be written"):
        rules.add("write_file")
    assert rules.allow == ()


def test_rules_are_added_from_any_thread(tmp_path: Path):
    rules = PermissionRules.load(tmp_path)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda number: rules.add(f"tool_{number}"), range(40)))
    assert len(rules.allow) == len(PermissionRules.load(tmp_path).allow) == 40


def test_rules_that_were_not_loaded_stay_in_memory():
    rules = PermissionRules()
    rules.add("write_file", "deny")
    assert rules.decide(call("write_file"), None).verdict == "deny"


def test_what_was_changed_in_the_file_meanwhile_stays(tmp_path: Path):
    rules = PermissionRules.load(tmp_path)
    rules.add("read_file")
    PermissionRules.load(tmp_path).add("delete_file", "deny")
    rules.add("write_file")
    assert [*map(str, rules.deny)] == ["delete_file"], "it is in force with the next change"
    kept = PermissionRules.load(tmp_path)
    assert [*map(str, kept.deny)] == ["delete_file"] and [*map(str, kept.allow)] == ["read_file", "write_file"]
    PermissionRules.load(tmp_path).remove("read_file")
    rules.save()
    assert [*map(str, PermissionRules.load(tmp_path).allow)] == ["write_file"]
    (tmp_path / FILE).unlink()
    rules.save()
    assert [*map(str, PermissionRules.load(tmp_path).deny)] == ["delete_file"], "a file that is gone loses no rule"


def test_a_file_that_became_invalid_is_not_overwritten(tmp_path: Path):
    rules = PermissionRules.load(tmp_path)
    rules.add("read_file")
    (tmp_path / FILE).write_text("{")
    for change in (rules.save, lambda: rules.add("write_file")):
        with pytest.raises(ConfigurationError, match="is no JSON"):
            change()
    assert (tmp_path / FILE).read_text() == "{" and [*map(str, rules.allow)] == ["read_file"]


@pytest.mark.parametrize(
    "text", ['{"version": 1, "deny": ["a"], "deny": []}', '{"version": 1, "deny": [{"tool": "a", "tool": "b"}]}']
)
def test_a_key_that_is_there_twice_is_refused(tmp_path: Path, text: str):
    written(tmp_path, text)
    with pytest.raises(ConfigurationError, match="twice in one object"):
        PermissionRules.load(tmp_path)


def test_trust_is_given_by_true_alone(tmp_path: Path):
    with pytest.raises(ConfigurationError, match="trusted must be True or False"):
        PermissionRules.load(tmp_path, trusted="no")  # type: ignore[arg-type]


def test_rules_given_as_a_policy_name_their_policy():
    with pytest.raises(ConfigurationError, match=r"approval=rules\.policy"):
        Toolkit(approval=PermissionRules())  # type: ignore[arg-type]
