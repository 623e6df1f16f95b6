"""`PermissionRules.decide`: each line of its table, paths and commands in many spellings, proposals, `check`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentscope_rx.errors import ApprovalError, ConfigurationError
from agentscope_rx.messages import ToolUseBlock
from agentscope_rx.permissions import PermissionRule, PermissionRules
from agentscope_rx.testing import call
from agentscope_rx.tools import Effects, Toolkit, preset, renamed, tool
from agentscope_rx.tools.backends import BubblewrapBackend
from agentscope_rx.tools.files import FileTools, Workspace
from agentscope_rx.tools.shell import PythonTool, ShellTool
from tests.permissions.parts import Desk
from tests.support.assertions import in_cpu_time

WRITE = {"path": "src/a.py", "content": ""}


@pytest.mark.parametrize(
    ("rules", "verdict"),
    [
        ({}, "ask"),
        ({"allow": ["write_file"]}, "allow"),
        ({"allow": ["write_*"], "ask": ["write_file(src/**)"]}, "ask"),
        ({"allow": ["write_file"], "ask": ["write_file"], "deny": ["*(src/**)"]}, "deny"),
        ({"allow": ["write_file(docs/**)"]}, "ask"),
        ({"mode": "accept_edits"}, "allow"),
        ({"mode": "workspace"}, "allow"),
        ({"mode": "plan"}, "deny"),
        ({"mode": "plan", "allow": ["write_file"]}, "deny"),
        ({"mode": "workspace", "ask": ["write_file"]}, "ask"),
        ({"mode": "workspace", "deny": ["write_file(*.py)"]}, "deny"),
    ],
)
def test_deny_before_ask_before_allow_before_the_mode(tmp_path: Path, rules: dict, verdict: str):
    assert Desk(tmp_path, **rules).verdict("write_file", **WRITE) == verdict


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("plan", {"read_file": "allow", "write_file": "deny", "delete_file": "deny", "bash": "deny", "sign": "deny"}),
        ("ask", {"read_file": "allow", "write_file": "ask", "delete_file": "ask", "bash": "ask", "clock": "allow"}),
        ("accept_edits", {"write_file": "allow", "delete_file": "ask", "bash": "ask", "pay": "ask", "copy": "ask"}),
        (
            "workspace",
            {"write_file": "allow", "delete_file": "allow", "bash": "ask", "run_command": "ask", "pay": "ask"},
        ),
    ],
)
def test_the_modes(tmp_path: Path, mode: str, expected: dict[str, str]):
    desk = Desk(tmp_path, mode=mode)
    given: dict[str, dict[str, object]] = {
        "read_file": {"path": "src/a"},
        "write_file": WRITE,
        "delete_file": {"path": "src/a"},
        "bash": {"command": "ls"},
        "run_command": {"command": "git log"},
        "pay": {"amount": 1},
        "sign": {"name": "x"},
        "copy": {"source": "a", "destination": "b"},
        "clock": {},
    }
    assert {name: desk.verdict(name, **given[name]) for name in expected} == expected


def test_an_allow_lifts_a_mark_unless_the_tool_always_asks(tmp_path: Path):
    desk = Desk(tmp_path, allow=["pay", "sign"])
    assert desk.verdict("pay", amount=1) == "allow" and desk.verdict("sign", name="x") == "ask"


def test_a_tool_that_works_elsewhere_is_not_inside(tmp_path: Path):
    desk = Desk(tmp_path / "one", mode="workspace")
    (tmp_path / "two").mkdir()
    elsewhere = Toolkit([FileTools(Workspace(tmp_path / "two"))]).get("write_file")
    within = Toolkit([FileTools(Workspace(tmp_path / "one" / "src"))]).get("write_file")
    assert desk.rules.decide(call("write_file", **WRITE), elsewhere).verdict == "ask"
    assert desk.rules.decide(call("write_file", **WRITE), within).verdict == "allow"


def test_paths_are_relative_to_the_workspace_of_the_rules(tmp_path: Path):
    desk = Desk(tmp_path, allow=["write_file(src/**)"], deny=["*(src/secret/**)"])
    within = Toolkit([FileTools(Workspace(tmp_path / "src"))]).get("write_file")
    decide = lambda path: desk.rules.decide(call("write_file", path=path, content=""), within).verdict  # noqa: E731
    assert decide("a.py") == "allow" and decide("secret/a.py") == "deny"


DENIED_PATHS = [
    "secrets/a", "secrets", "./secrets//a", "Secrets/A", "SECRETS/a", "src/../secrets/a", "ｓecrets/a",
    "se\u200bcrets/a", "secrets./a", "secrets\\a",
    "src\\..\\secrets\\a", "%73ecrets/a", "src/%2e%2e/secrets/a", "link/a", "src/in/a",
]  # fmt: skip


@pytest.mark.parametrize("path", DENIED_PATHS)
def test_a_denied_path_is_denied_in_every_spelling(tmp_path: Path, path: str):
    desk = Desk(tmp_path, deny=["*(secrets/**)"], allow=["*"])
    (tmp_path / "link").symlink_to("secrets")
    (tmp_path / "src" / "in").symlink_to(tmp_path / "secrets")
    for name in ("write_file", "fs_write_file"):
        assert desk.verdict(name, path=path, content="") == "deny"
    assert desk.verdict("copy", source="src/a", destination=path) == "deny"
    assert desk.verdict("copy", source=str(tmp_path / path), destination="src/a") == "deny"
    assert desk.verdict("copy", source=f"file://{tmp_path}/{path}", destination="src/a") == "deny"


@pytest.mark.parametrize("path", ["~/secrets/a", "$HOME/x", "%HOME%/x", "src/a\0b", "src/a\nb", "x" * 40_000])
def test_a_path_that_cannot_be_read_is_never_allowed_by_a_rule(tmp_path: Path, path: str):
    desk = Desk(tmp_path, deny=["*(secrets/**)"], allow=["*"])
    assert desk.verdict("copy", source=path, destination="src/a") == "ask"
    desk = Desk(tmp_path, allow=["copy(**)"])
    assert desk.verdict("copy", source=path, destination="src/a") == "ask"


@pytest.mark.parametrize(
    ("path", "verdict"),
    [
        ("src/a.py", "allow"), ("./src//a.py", "allow"), ("src", "allow"), ("SRC/a.py", "ask"), ("src2/a.py", "ask"),
        ("src/../src/a.py", "ask"), ("src/../notes/a", "ask"), ("src\\a.py", "ask"), ("", "ask"), (".", "ask"),
        ("src/link/a", "ask"), ("src/inner/a", "allow"), ("%73rc/a.py", "ask"), ("ｓrc/a.py", "ask"),
    ],
)  # fmt: skip
def test_an_allowed_path_is_read_narrowly(tmp_path: Path, path: str, verdict: str):
    desk = Desk(tmp_path, allow=["copy(src/**)"])
    (tmp_path / "src" / "link").symlink_to("../notes")
    (tmp_path / "src" / "inner").symlink_to("app")
    assert desk.verdict("copy", source=path, destination="src/b") == verdict
    assert desk.verdict("copy", source="src/b", destination=path) == verdict


def test_absolute_paths_below_the_workspace_are_read(tmp_path: Path):
    desk = Desk(tmp_path, allow=["copy(src/**)"])
    assert desk.verdict("copy", source=f"{tmp_path}/src/a", destination="src/b") == "allow"
    assert desk.verdict("copy", source=f"{tmp_path}/src/../src/a", destination="src/b") == "ask"
    assert desk.verdict("copy", source=f"{tmp_path}2/src/a", destination="src/b") == "ask"


def test_without_a_workspace_a_path_may_end_below_any_folder(tmp_path: Path):
    rules = PermissionRules(deny=["*(secrets/**)"], allow=["copy(src/**)", "copy(a)"])
    decide = lambda path: rules.decide(call("copy", source=path, destination="src/b"), copy_tool).verdict  # noqa: E731

    @tool
    def copy_tool(source: str, destination: str) -> str:
        """Copies."""
        return ""

    assert decide("/home/me/project/secrets/a") == "deny" and decide("../project/secrets/a") == "deny"
    assert decide("src/a") == "allow" and decide("/src/a") == "ask"


def test_a_search_above_a_denied_path_is_denied(tmp_path: Path):
    desk = Desk(tmp_path, deny=["*(secrets/**)"])
    assert desk.verdict("grep", pattern="x") == "deny", "the default path is the whole workspace"
    assert desk.verdict("grep", pattern="x", path="src") == "allow"
    assert desk.verdict("move_file", path=".", target="src/x") == "deny"
    floats = Desk(tmp_path, deny=["*(*.pem)"])
    assert floats.verdict("grep", pattern="x", path="src") == "deny", "there may be one at any depth"
    # the tool's own workspace keeps it out
    kept_out = Toolkit([FileTools(Workspace(tmp_path, deny=["*.pem"]))]).get("grep")
    assert floats.rules.decide(call("grep", pattern="x"), kept_out).verdict == "allow"


def test_presets_defaults_and_lists_are_paths_too(tmp_path: Path):
    desk = Desk(tmp_path, deny=["*(secrets/**)"], allow=["*"])

    @tool
    def pack(paths: list[str], into: int = 1) -> str:
        """Packs."""
        return ""

    @tool(effects=Effects(paths=("where",)))
    def show(where: str = "secrets/a") -> str:
        """Shows."""
        return ""

    kit = Toolkit([pack, show, *preset(Toolkit([FileTools(desk.workspace)]), {"write_file": {"path": "secrets/a"}})])
    decide = lambda block: desk.rules.decide(block, kit.get(block.name)).verdict  # noqa: E731
    assert decide(call("pack", paths=["src/a", "secrets/a"])) == "deny"
    assert decide(call("pack", paths=["src/a"])) == "allow"
    assert decide(call("show")) == "deny" and decide(call("show", where="src/a")) == "allow"
    assert decide(call("write_file", path="src/a", content="")) == "deny"


def test_paths_and_commands_within_values_are_found(tmp_path: Path):
    @tool
    def apply(edits: list[dict[str, str]], options: dict[str, object] | None = None) -> str:
        """Applies."""
        return ""

    desk = Desk(tmp_path, deny=["*(secrets/**)"], allow=["*"])
    decide = lambda **given: desk.rules.decide(call("apply", **given), apply).verdict  # noqa: E731
    assert decide(edits=[{"path": "src/a"}, {"path": "Secrets/a"}]) == "deny"
    assert decide(edits=[], options={"deep": [{"file_path": "secrets/a"}]}) == "deny"
    assert decide(edits=[], options={"command": "cat s*/a"}) == "ask"
    assert decide(edits=[{"path": "src/a"}]) == "allow"
    narrow = Desk(tmp_path, allow=["apply(src/**)"])
    assert narrow.rules.decide(call("apply", edits=[{"path": "src/a"}]), apply).verdict == "allow"
    assert narrow.rules.decide(call("apply", edits=[{"path": "src/a"}, {"path": "b"}]), apply).verdict == "ask"


def test_effects_are_declared_at_registration_too(tmp_path: Path):
    @tool(requires_approval=True)
    def put(where: str) -> str:
        """Puts."""
        return ""

    kit = Toolkit()
    kit.register(put, effects=Effects(paths=("where",)), always_asks=True)
    desk = Desk(tmp_path, deny=["put(secrets/**)"], allow=["put"])
    assert desk.rules.decide(call("put", where="secrets/a"), kit.get("put")).verdict == "deny"
    assert desk.rules.decide(call("put", where="src/a"), kit.get("put")).verdict == "ask"
    with pytest.raises(ConfigurationError, match="effects must be"):
        Toolkit().register(put, effects=("where",))


def test_a_renamed_tool_keeps_its_denials(tmp_path: Path):
    desk = Desk(tmp_path, deny=["delete_file", "bash"], allow=["tidy"])
    from tests.permissions.parts import bash

    kit = Toolkit([*renamed(FileTools(desk.workspace), {"delete_file": "tidy"}), *renamed(bash, {"bash": "run_it"})])
    assert desk.rules.decide(call("tidy", path="src/a"), kit.get("tidy")).verdict == "deny"
    assert desk.rules.decide(call("run_it", command="ls"), kit.get("run_it")).verdict == "deny"


ALLOWED_COMMANDS = ["git log", "git log -n 3", "git   log", "'git' log", 'git log "a b"']
OTHER_COMMANDS = [
    "git status", "git", "git log; ls", "git log && ls", "git log | cat", "git log > a", "git log $(ls)",
    "git log `ls`", "git log\nls", "A=1 git log",
    "/usr/bin/git log", "./git log", "git log ../x", "git log /etc/passwd", "git log ~/x",
    "git log {a,b}", "git log *", "", " ", "git log 'x", "gıt log", "git\u00a0log", "git log .git/config",
    "git log $HOME", "git -c core.pager=sh log", "git log\r", "git log \0", "x" * 20_000,
]  # fmt: skip


@pytest.mark.parametrize("name", ["run_command", "bash"])
@pytest.mark.parametrize("command", ALLOWED_COMMANDS + OTHER_COMMANDS)
def test_commands_are_allowed_by_their_words(tmp_path: Path, name: str, command: str):
    desk = Desk(tmp_path, allow=["run_command(git log *)", "bash(git log *)"])
    paths_matter = name == "run_command" or not any(each in command for each in ("/etc", "../", ".git/"))
    wanted = "allow" if command in ALLOWED_COMMANDS else "ask"
    assert desk.verdict(name, command=command) == wanted or not paths_matter


@pytest.mark.parametrize("cwd", ["..", "/", "~", "src/../.."])
def test_a_command_elsewhere_is_not_the_one_that_is_allowed(tmp_path: Path, cwd: str):
    desk = Desk(tmp_path, allow=["run_command(git log *)"])
    assert desk.verdict("run_command", command="git log", cwd=cwd) == "ask"
    assert desk.verdict("run_command", command="git log", cwd="src") == "allow"


DENIED_COMMANDS = [
    "rm -rf /", "/bin/rm x", "RM x", "git status; rm -rf /", "ls && rm x", "ls\nrm x", "$(rm x)", "`rm x`", "env rm x",
    "sudo -u root rm x", "xargs rm", "sh -c 'rm x'", 'sh -c "rm x"', "r''m x", 'r""m x', "r\\m x", "A=1 rm x", "(rm x)",
    "{ rm x; }", "find . -exec rm {} +", "if true; then rm x; fi", "x" * 70_000,
]  # fmt: skip


@pytest.mark.parametrize("command", DENIED_COMMANDS)
def test_a_denied_program_is_denied_wherever_it_stands(tmp_path: Path, command: str):
    desk = Desk(tmp_path, deny=["*(command: rm *)"], allow=["*"])
    assert desk.verdict("run_command", command=command) == "deny"
    assert desk.verdict("bash", command=command) == "deny"


def test_what_may_be_a_denied_command_is_asked_about(tmp_path: Path):
    desk = Desk(tmp_path, deny=["*(command: rm *)"], allow=["*"])
    assert desk.verdict("bash", command="$(echo cm0geA== | base64 -d)") == "ask"
    assert desk.verdict("run_python", code="import os; os.remove('x')") == "ask"
    assert desk.verdict("bash", command="ls -la") == "allow"


def test_paths_in_commands_are_read_as_words(tmp_path: Path):
    desk = Desk(tmp_path, deny=["*(secrets/**)"], allow=["*"])
    for command in ("cat secrets/a", "cat ./Secrets/a", "tee --output=secrets/a", "cp -tsecrets a", "cat 'secrets/a'"):
        assert desk.verdict("bash", command=command) == "deny", command
    assert desk.verdict("bash", command="cat s*/a") == "ask"
    assert desk.verdict("bash", command="cat src/a") == "allow"


def test_a_command_with_too_many_words_hides_no_path(tmp_path: Path):
    desk = Desk(tmp_path, deny=["*(secrets/**)"], allow=["*"])
    many = " ".join(f"w{number}" for number in range(2_000))
    decide = lambda name, **given: in_cpu_time(lambda: desk.verdict(name, **given), 1.0)  # noqa: E731
    assert decide("bash", command=f"cat {many} secrets/a") == "deny"
    assert decide("bash", command=f"cat {'-' + 'x' * 60_000}") == "ask"
    assert decide("bash", command=f"cat {'-' + 'x' * 90_000}") == "deny", "it is not searched"
    assert decide("copy", source=["src/a"] * 5_000, destination="b") == "ask"


def test_the_librarys_own_folder_is_never_written(tmp_path: Path):
    desk = Desk(tmp_path, allow=["*"], mode="workspace")
    for path in (".agentscope/permissions.json", "./.AgentScope/x", "src/../.agentscope/x", ".agent\u200bscope/x"):
        assert desk.verdict("write_file", path=path, content="") == "deny"
        assert desk.verdict("copy", source="src/a", destination=path) == "deny"
        assert desk.verdict("bash", command=f"tee {path}") == "deny"
    open_workspace = Toolkit([FileTools(Workspace(tmp_path, deny=()))]).get("write_file")
    block = call("write_file", path=".agentscope/permissions.json", content="")
    assert desk.rules.decide(block, open_workspace).verdict == "deny"


def test_a_failing_rule_of_a_tool_is_an_error(tmp_path: Path):
    def broken(arguments: object) -> bool:
        raise ValueError("no idea")

    @tool(requires_approval=broken)
    def odd() -> str:
        """Odd."""
        return ""

    with pytest.raises(ApprovalError, match="no idea"):
        PermissionRules().decide(call("odd"), odd)


def test_an_unknown_tool_is_asked_about():
    rules = PermissionRules(deny=["gone(secrets/**)"], allow=["known"])
    assert rules.decide(call("known"), None).verdict == "allow"
    assert rules.decide(call("gone", path="secrets/a"), None).verdict == "deny"
    assert rules.decide(ToolUseBlock("c", "else", {}), None).verdict == "ask"


# --- proposals --------------------------------------------------------------------------------------------------------


def test_proposals_go_from_narrow_to_wide(tmp_path: Path):
    desk = Desk(tmp_path)
    assert desk.proposals("write_file", path="src/app/a.py", content="x") == [
        'write_file(arguments: {"content": "x", "path": "src/app/a.py"})',
        "write_file(src/app/a.py)",
        "write_file(src/app/**)",
        "write_file",
    ]
    assert desk.proposals("write_file", path="a.py", content="")[1:] == ["write_file(a.py)", "write_file"]
    assert desk.proposals("move_file", path="src/app/a", target="src/b")[1:] == ["move_file(src/**)", "move_file"]
    assert desk.proposals("run_command", command="git log -n 3")[1:] == [
        "run_command(git log -n 3)",
        "run_command(git log *)",
    ]
    assert desk.proposals("bash", command="ls -la")[1:] == ["bash(ls -la)", "bash(ls *)"]
    assert desk.proposals("pay", amount=1) == ['pay(arguments: {"amount": 1})', "pay"]


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("run_command", {"command": "python a.py"}),
        ("bash", {"command": "sh -c 'ls'"}),
        ("bash", {"command": "make"}),
        ("bash", {"command": "pytest tests"}),
        ("bash", {"command": "npm run build"}),
        ("bash", {"command": "./tool"}),
        ("bash", {"command": "ls; ls"}),
        ("run_python", {"code": "print(1)"}),
        ("sign", {"name": "x"}),
    ],
)
def test_what_may_run_any_program_is_not_proposed(tmp_path: Path, name: str, given: dict):
    proposed = Desk(tmp_path).proposals(name, **given)
    assert [rule for rule in proposed if "arguments" not in rule] == []
    assert given.get("command") in (None, "./tool") or proposed == []


def test_what_is_denied_asked_about_or_allowed_has_no_proposals(tmp_path: Path):
    desk = Desk(tmp_path, deny=["*(secrets/**)"], ask=["delete_file"], allow=["pay"])
    assert desk.proposals("write_file", path="secrets/a", content="") == []
    assert desk.proposals("delete_file", path="src/a") == []
    assert desk.proposals("pay", amount=1) == []
    assert desk.proposals("read_file", path="src/a") == []


def test_proposals_do_not_cross_a_denial(tmp_path: Path):
    desk = Desk(tmp_path, deny=["write_file(src/app/keys/**)"])
    assert desk.proposals("write_file", path="src/app/a", content="")[1:] == ["write_file(src/app/a)"]
    assert desk.proposals("write_file", path="notes/a", content="")[1:] == [
        "write_file(notes/a)",
        "write_file(notes/**)",
    ]


def test_every_proposal_allows_the_call(tmp_path: Path):
    for name, given in [
        ("write_file", {"path": "src/app/a.py", "content": "x"}),
        ("bash", {"command": "git log 'a b'"}),
        ("copy", {"source": f"{tmp_path}/src/a", "destination": "src/app/b"}),
    ]:
        desk = Desk(tmp_path)
        block = call(name, **given)
        for rule in desk.rules.propose(block, desk.toolkit.get(name)):
            assert Desk(tmp_path, allow=[str(rule)]).decision(block).verdict == "allow"
            assert desk.rules.covers(rule, block, desk.toolkit.get(name))


# --- check ------------------------------------------------------------------------------------------------------------


def test_rules_are_checked_against_a_toolkit(tmp_path: Path):
    desk = Desk(tmp_path, deny=["mcp_*", "*(secrets/**)"], allow=["write_file(src/**)", "bash(git log *)", "clock"])
    desk.rules.check(desk.toolkit)
    for rule, problem in [
        ("write_fil(src/**)", "Did you mean 'write_file'?"),
        ("nothing_like_it", "There are: bash, "),
        ("clock(src/**)", "is about paths, and the tool has none"),
        ("pay(command: ls)", "runs none"),
    ]:
        with pytest.raises(ConfigurationError) as caught:
            PermissionRules(allow=[rule]).check(desk.toolkit)
        assert problem in str(caught.value)
    PermissionRules(allow=["inner_tool"]).check(desk.toolkit, "inner_tool")
    with pytest.raises(ConfigurationError, match="check takes a Toolkit"):
        PermissionRules().check([])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"deny": "write_file"}, "takes a list"),
        ({"mode": "accept_edit"}, "Did you mean 'accept_edits'"),
        ({"ask": 3}, "list"),
    ],
)
def test_wrong_rules_say_what_is_wrong(given: dict, problem: str):
    with pytest.raises(ConfigurationError, match=problem):
        PermissionRules(**given)


def test_rules_show_what_they_are():
    rules = PermissionRules(deny=["a"], allow=["b", "b"], mode="accept_edits")
    assert repr(rules) == "<PermissionRules 1 deny, 0 ask, 1 allow, mode 'accept_edits'>"
    assert rules.allow == (PermissionRule("b"),)
    rules.mode = "plan"
    assert rules.mode == "plan"
    assert os.sep == "/"


@pytest.mark.parametrize(
    ("network", "deny", "verdicts"),
    [(False, (), ["allow", "allow"]), (True, (), ["ask", "ask"]), (False, ("run_command(rm *)",), ["deny", "allow"])],
)
def test_what_a_sandbox_confines_is_inside_the_workspace(
    tmp_path: Path, network: bool, deny: tuple[str, ...], verdicts: list[str]
):
    workspace = Workspace(tmp_path)
    try:
        backend = BubblewrapBackend(workspace, network=network)
    except ConfigurationError as error:
        pytest.skip(str(error))
    toolkit = Toolkit([ShellTool(backend=backend, allow_any=True), PythonTool(backend=backend, allow=True)])
    rules = PermissionRules(mode="workspace", deny=deny, workspace=workspace)
    calls = [call("run_command", command="ls | wc -l; rm -f notes"), call("run_python", code="print(1)")]
    assert [rules.decide(each, toolkit.get(each.name)).verdict for each in calls] == verdicts
