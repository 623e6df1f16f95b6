"""`run_skill_script`: off until asked for, approved for one version, run from the bytes that were hashed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from agentscope_rx import Approve, ReActAgent
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.events import ActingChunkEvent
from agentscope_rx.messages import ToolUseBlock
from agentscope_rx.permissions import PermissionRules, PermissionsHook
from agentscope_rx.skills import PackageSkills, Skill, SkillScripts, SkillsHook, UserSkills, WorkspaceSkills
from agentscope_rx.testing import ScriptedModel, call
from agentscope_rx.tools.backends import BubblewrapBackend
from tests.skills.parts import asked, friday, installed, load, put, put_skill, read, texts

REPORT = """
import os, sys
from helper import GREETING
print(GREETING, sys.argv[1:], os.getcwd() == os.path.realpath(sys.argv[0]), os.environ.get("SECRET"))
print(sorted(os.listdir(os.environ["SKILL_DIR"])), os.path.basename(os.getcwd()))
"""


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SECRET", "s3cret")
    put_skill(tmp_path / "home" / "skills", "tools")
    put(
        tmp_path / "home" / "skills" / "tools",
        {
            "scripts/report.py": REPORT,
            "scripts/helper.py": "GREETING = 'hello'\n",
            "scripts/go.sh": 'echo "shell $1"; exit 3\n',
            "scripts/sleep.py": "import time\nprint('begun', flush=True)\ntime.sleep(60)\n",
            "notes.txt": "x",
        },
    )
    for name in ("work", "tmp"):
        (tmp_path / name).mkdir()
    # other tests make their copies elsewhere
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    return tmp_path / "work"


def hook(work: Path, **options) -> SkillsHook:
    options.setdefault("requires_approval", False)
    return SkillsHook(UserSkills(work.parent / "home" / "skills"), run_scripts=SkillScripts(work, **options))


def version(hook: SkillsHook, name: str = "tools") -> str:
    (loaded,) = asked(hook, load(name))
    found = re.search(r"Their version is ([0-9a-f]{32})\.", loaded)
    assert found, loaded
    return found[1]


def script(path: str, version: str, *args: str, name: str = "tools") -> ToolUseBlock:
    return call("run_skill_script", name=name, path=path, version=version, args=list(args))


def copies() -> list[str]:
    return [each for each in os.listdir(tempfile.gettempdir()) if each.startswith("agentscope-rx-home-")]


def test_scripts_are_not_run_unless_asked_for(work: Path):
    plain = SkillsHook(UserSkills(work.parent / "home" / "skills"))
    assert [each.name for each in plain.tools()] == ["load_skill", "read_skill_file"]
    assert "version" not in asked(plain, load("tools"))[0]


def test_a_script_runs_in_the_workspace(work: Path):
    hooked = hook(work)
    known = version(hooked)
    report, shell = asked(
        hooked, script("scripts/report.py", known, "a b", "*"), script("./scripts/go.sh", known, "$HOME;x")
    )
    assert report == ("hello ['a b', '*'] False None\n['SKILL.md', 'notes.txt', 'scripts'] work\n(exit code 0)")
    assert shell == "shell $HOME;x\n(exit code 3)"
    assert not copies() and not list(work.iterdir())


def test_a_script_runs_in_a_sandbox(work: Path):
    """The files of the skill get there without a mount, and nothing else of the user does."""
    try:
        backend = BubblewrapBackend(work)
    except ConfigurationError as error:
        pytest.skip(str(error))
    text = (
        "import os, socket\nfrom helper import GREETING\n"
        f"print(GREETING, os.path.exists({str(work.parent / 'home')!r}))\n"
        "open('made.txt', 'w').write('x')\n"
        "try: socket.create_connection(('127.0.0.1', 9), 1)\nexcept OSError as error: print('no network')\n"
    )
    put(work.parent / "home" / "skills" / "tools", {"scripts/look.py": text})
    hooked = SkillsHook(
        UserSkills(work.parent / "home" / "skills"),
        run_scripts=SkillScripts(backend=backend, requires_approval=False),
    )
    assert "It runs in a sandbox. There is no network." in hooked.tools()[2].description
    known = version(hooked)
    look, shell = asked(hooked, script("scripts/look.py", known), script("scripts/go.sh", known, "x"))
    assert look == "hello False\nno network\n(exit code 0)" and shell == "shell x\n(exit code 3)"
    assert (work / "made.txt").read_text() == "x"


@pytest.mark.parametrize("zipped", [False, True], ids=["folder", "zip"])
def test_a_script_of_a_package_runs(tmp_path: Path, zipped: bool):
    work = tmp_path / "work"
    work.mkdir()
    with installed(tmp_path, zipped=zipped):
        hooked = SkillsHook(
            PackageSkills(),
            run_scripts=SkillScripts(work, requires_approval=False),
            on_problem=lambda error: None,
        )
        known = version(hooked, "hello")
        assert asked(hooked, script("scripts/hi.py", known, name="hello")) == ["hi from a package\n(exit code 0)"]


def test_a_call_waits_for_approval(work: Path):
    hooked = hook(work, requires_approval=True)
    known = version(hooked)
    agent, _ = friday(hooked, script("scripts/report.py", known), "Done.")
    (pending,) = agent.call("Go.").run().pending_calls
    assert dict(pending.input) == {"name": "tools", "path": "scripts/report.py", "version": known, "args": []}
    agent.call(Approve(pending)).run()
    assert texts(agent)[0].startswith("hello []")


def test_permissions_are_asked_about_scripts(work: Path):
    """A rule for the exact call holds for one version; no mode but a rule lets a script run without asking."""
    hooked = hook(work, requires_approval=True)
    known = version(hooked)
    run = script("scripts/go.sh", known)

    def ends(**rules) -> str:
        agent = ReActAgent(
            "Friday",
            ScriptedModel(load("tools"), read("tools", "notes.txt"), run, "Done."),
            hooks=[hooked, PermissionsHook(PermissionRules(workspace=work, **rules))],
        )
        reply = agent.call("Go.").run()
        assert ["Do it." in each or each == "x" for each in texts(agent)[:2]] == [True, True]
        return "asked" if reply.pending_calls else texts(agent)[2]

    exact = {"tool": "run_skill_script", "arguments": dict(run.input)}
    assert ends(allow=[exact]) == ends(allow=["run_skill_script"]) == "shell \n(exit code 3)"
    assert "denies it" in ends(deny=["run_skill_script"], allow=[exact])
    assert "only tools that read" in ends(mode="plan")
    for rules in ({"mode": "accept_edits"}, {"mode": "workspace"}, {"deny": ["*(notes.txt)"], "allow": [exact]}):
        assert ends(**rules) == "asked"
    put(work.parent / "home" / "skills" / "tools", {"scripts/go.sh": "echo changed"})
    assert "a file of it has changed" in ends(allow=[exact])
    run = script("scripts/go.sh", version(hook(work)))
    assert ends(allow=[exact]) == "asked"


@pytest.mark.parametrize("changed", ["scripts/report.py", "scripts/helper.py", "SKILL.md", "scripts/new.py"])
def test_a_changed_skill_asks_again(work: Path, changed: str):
    hooked = hook(work, requires_approval=True)
    known = version(hooked)
    agent, model = friday(
        hooked,
        script("scripts/report.py", known),
        "One.",
        script("scripts/report.py", known),
        "Two.",
        script("scripts/report.py", known),
        "Three.",
    )
    (pending,) = agent.call("Go.").run().pending_calls
    agent.call(Approve(pending, remember="arguments")).run()
    assert agent.call("Again.").run().text == "Two."
    assert [each.partition(" ")[0] for each in texts(agent)] == ["hello", "hello"]
    skill = work.parent / "home" / "skills" / "tools"
    text = "---\nname: tools\ndescription: Other.\n---\n" if changed == "SKILL.md" else "GREETING = print('changed')\n"
    put(skill, {changed: text})
    assert agent.call("Again.").run().text == "Three."
    assert "a file of it has changed" in texts(agent)[-1] and "changed\n" not in texts(agent)[-1]
    new = version(hook(work))
    agent, _ = friday(hooked, script("scripts/report.py", new), memory=agent.memory)
    assert [each.name for each in agent.call("Again.").run().pending_calls] == ["run_skill_script"]
    assert model.requests


def test_what_runs_is_what_was_hashed(work: Path, monkeypatch: pytest.MonkeyPatch):
    """A change between the check and the start has no effect: the copy of the checked bytes runs."""
    hooked = hook(work)
    known = version(hooked)
    digest = sys.modules["agentscope_rx.skills.scripts"].digest_of

    def digest_then_change(files):
        found = digest(files)
        put(work.parent / "home" / "skills" / "tools", {"scripts/report.py": "print('evil')\n"})
        return found

    monkeypatch.setattr("agentscope_rx.skills.scripts.digest_of", digest_then_change)
    assert asked(hooked, script("scripts/report.py", known))[0].startswith("hello")


@pytest.mark.parametrize(
    ("path", "args", "text"),
    [
        ("scripts/gone.py", [], "has no script 'scripts/gone.py'. Its scripts: scripts/go.sh, scripts/helper.py"),
        ("../../../etc/passwd", [], "has no script"),
        ("notes.txt", [], "notes.txt cannot be run: its extension is none of .bash, .cjs"),
        ("scripts/go.sh", ["\0"], "hold a NUL character"),
        ("scripts/go.sh", ["x" * 100_001], "more than 100,000 characters"),
    ],
)
def test_what_cannot_run_says_why(work: Path, path: str, args: list[str], text: str):
    hooked = hook(work)
    result = asked(hooked, script(path, version(hooked), *args))[0]
    assert text in result and not copies()


def test_a_script_that_takes_too_long_is_ended(work: Path):
    hooked = hook(work, timeout=1.0)
    (result,) = asked(hooked, script("scripts/sleep.py", version(hooked)))
    assert result.startswith("Error: It did not finish within 1 s") and "begun" in result and not copies()


def processes() -> list[str]:
    """The processes that run a script of a copy."""
    found: list[str] = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = each.read_bytes()
            found += [str(each)] if os.fsencode(tempfile.gettempdir()) in words else []
    return found


def test_a_disposed_call_leaves_no_copy_and_no_process(work: Path):
    hooked = hook(work)
    known = version(hooked)

    async def running() -> None:
        agent, _ = friday(hooked, script("scripts/sleep.py", known), "Done.")
        async with contextlib.aclosing(aiter(agent.stream("Go."))) as events:  # pyright: ignore[reportArgumentType]
            async for event in events:
                if isinstance(event, ActingChunkEvent):
                    assert processes() and copies()
                    break
        assert not processes() and not agent.running

    async def beginning(moment: int) -> None:
        agent, _ = friday(hooked, script("scripts/sleep.py", known), "Done.")
        waiting = asyncio.ensure_future(agent.call("Go."))
        for _ in range(moment):
            await asyncio.sleep(0)
        waiting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await waiting

    asyncio.run(running())
    for moment in (1, 5, 20, 60, 200):
        asyncio.run(beginning(moment))
    assert asked(hooked, script("scripts/go.sh", known)) == ["shell \n(exit code 3)"]
    assert not copies() and not processes()


def test_an_interrupted_script_is_ended(work: Path):
    hooked = hook(work)
    known = version(hooked)

    async def main() -> None:
        agent, _ = friday(hooked, script("scripts/sleep.py", known), "Done.")
        async for event in agent.stream("Go."):
            if isinstance(event, ActingChunkEvent):
                agent.interrupt()
        assert not processes() and not copies() and not agent.running
        assert len(texts(agent)) == 1

    asyncio.run(main())


def test_interpreters_can_be_added_and_taken_out(work: Path):
    put(work.parent / "home" / "skills" / "tools", {"a.cat": "miaow\n"})
    hooked = hook(work, interpreters={".cat": [str(shutil.which("cat"))], ".py": None, ".no": ["no-such-program"]})
    known = version(hooked)
    cat, python = asked(hooked, script("a.cat", known), script("scripts/report.py", known))
    assert cat == "miaow\n(exit code 0)" and "cannot be run: its extension is none of" in python
    put(work.parent / "home" / "skills" / "tools", {"a.no": ""})
    assert "There is no program 'no-such-program' here" in asked(hooked, script("a.no", version(hooked)))[0]


def test_programs_of_the_workspace_are_no_interpreters(work: Path, monkeypatch: pytest.MonkeyPatch):
    put(work, {"bin/sh": "#!/bin/sh\necho fake\n"})
    (work / "bin" / "sh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{work}/bin{os.pathsep}{os.environ['PATH']}")
    hooked = hook(work)
    assert asked(hooked, script("scripts/go.sh", version(hooked)))[0].startswith("shell")


def test_a_skill_in_code_may_have_scripts(work: Path):
    hooked = SkillsHook(
        Skill("code", "Has code.", "Run it.", {"a.py": "print('from code')"}),
        run_scripts=SkillScripts(work, requires_approval=lambda arguments: arguments["path"] != "a.py"),
    )
    assert asked(hooked, script("a.py", version(hooked, "code"), name="code")) == ["from code\n(exit code 0)"]


def test_a_workspace_skill_cannot_be_changed_after_approval(work: Path):
    put_skill(work / "skills", "mine")
    put(work / "skills" / "mine", {"run.py": "print('good')"})
    hooked = SkillsHook(WorkspaceSkills(work), run_scripts=SkillScripts(work))
    known = version(hooked, "mine")
    agent, _ = friday(hooked, script("run.py", known, name="mine"), "Done.")
    (pending,) = agent.call("Go.").run().pending_calls
    put(work / "skills" / "mine", {"run.py": "print('evil')"})
    agent.call(Approve(pending)).run()
    assert "a file of it has changed" in texts(agent)[0] and "evil" not in texts(agent)[0]


@pytest.mark.parametrize(
    "options",
    [
        {"timeout": 0},
        {"max_output": 1},
        {"interpreters": {"py": ["python"]}},
        {"interpreters": {".rb": "ruby"}},
        {"interpreters": {".rb": []}},
        {"requires_approval": 1},
        {"env": {"HOME": "/"}},
        {"backend": 1},
    ],
)
def test_wrong_options_are_refused(tmp_path: Path, options):
    with pytest.raises(ConfigurationError):
        SkillScripts(tmp_path, **options)
    with pytest.raises(ConfigurationError, match="run_scripts takes"):
        SkillsHook(tmp_path, run_scripts=tmp_path)  # pyright: ignore[reportArgumentType]
