"""The command line in this process, with a scripted model: what it prints and how it ends."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from agentscope_rx import ExecutionConfig, ModelError, ToolUseBlock, fold
from agentscope_rx.cli.main import main
from agentscope_rx.errors import EmptyResponseError
from agentscope_rx.events import ErrorEvent, PostCallEvent, event_from_json, events_schema
from agentscope_rx.testing import ScriptedModel
from agentscope_rx.testing.scripted_model import HANG, call

Captured = pytest.CaptureFixture[str]
pytestmark = pytest.mark.usefixtures("bare")


def test_ask_calls_tools_and_answers(bare: Path, capsys: Captured) -> None:
    (bare / "notes.txt").write_text("The ferry is called Aurora.\n")
    model = ScriptedModel(call("read_file", path="notes.txt"), ["It is ", "Aurora."])
    assert main(["ask", "What", "is", "it?"], model=model) == 0
    out, err = capsys.readouterr()
    assert out.startswith(
        '-> read_file(path="notes.txt")\n<-      1\tThe ferry is called Aurora.\nIt is Aurora.\n-- 2 turns, 1 tool'
    )
    assert err == ""
    assert [schema.name for schema in model.requests[0].tools] == [
        "read_file",
        "list_directory",
        "glob",
        "grep",
        "current_time",
    ]
    assert [message.text for message in model.requests[0].messages][1:] == ["What is it?"]


def test_a_search(bare: Path, capsys: Captured) -> None:
    (bare / "notes.txt").write_text("Aurora\n")
    assert main(["ask", "Where?"], model=ScriptedModel(call("grep", pattern="Aurora"), "There.")) == 0
    assert "\n<- notes.txt:1: Aurora\nThere.\n" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["-"], []])
def test_the_question_may_come_from_stdin(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("  How\nmuch?\n"))
    model = ScriptedModel("Much.")
    assert main(["ask", *arguments, "--system", ""], model=model) == 0
    assert [message.text for message in model.requests[0].messages] == ["How\nmuch?"]


def test_json_lines_read_back_and_fold_to_the_answer(capsys: Captured) -> None:
    model = ScriptedModel(call("current_time"), "It is 42 ☃.")
    assert main(["ask", "6 * 7?", "--json"], model=model) == 0
    out, err = capsys.readouterr()
    events = [event_from_json(line) for line in out.splitlines()]
    folded = fold(events)
    assert folded.message is not None
    assert folded.message.text == "It is 42 ☃."
    assert [event.seq for event in events] == list(range(len(events)))
    assert len(folded.history) == 4
    assert err == ""


def test_json_lines_are_json_in_any_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii", write_through=True))
    assert main(["ask", "?", "--json"], model=ScriptedModel("naïve ☃")) == 0
    last = event_from_json(raw.getvalue().splitlines()[-1])
    assert isinstance(last, PostCallEvent)
    assert last.message.text == "naïve ☃"


def test_quiet_prints_the_answer_alone(capsys: Captured) -> None:
    assert main(["ask", "?", "-q"], model=ScriptedModel(call("current_time"), "Two.")) == 0
    assert capsys.readouterr().out == "Two.\n"


@pytest.mark.parametrize("flag", ["--json", "--quiet", "--system="])
def test_a_run_that_fails_is_one_line_and_status_1(flag: str, capsys: Captured) -> None:
    model = ScriptedModel(EmptyResponseError(model="m"), execution_config=ExecutionConfig(max_attempts=1))
    assert main(["ask", "?", flag], model=model) == 1
    out, err = capsys.readouterr()
    assert err == "agentscope-rx: error: Model m answered without content (finish reason: none).\n"
    if flag == "--json":
        last = event_from_json(out.splitlines()[-1])
        assert isinstance(last, ErrorEvent)
        assert last.error_type == "EmptyResponseError"
    else:
        assert out == ""


def test_an_unknown_error_is_named(capsys: Captured) -> None:
    assert main(["ask", "?"], model=ScriptedModel(RuntimeError("a\nbug"))) == 1
    assert capsys.readouterr().err == "agentscope-rx: error: RuntimeError: a bug\n"


def test_tracebacks_on_demand(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTSCOPE_RX_DEBUG", "1")
    assert main(["ask", "?"], model=ScriptedModel(RuntimeError("a bug"))) == 1
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["--json", "--system="])
def test_a_timeout_disposes_the_run_and_is_status_124(flag: str, capsys: Captured) -> None:
    assert main(["ask", "?", "--timeout", "0.01", flag], model=ScriptedModel(["Well", HANG])) == 124
    out, err = capsys.readouterr()
    assert err == "agentscope-rx: error: The run did not finish within 0.01 s\n"
    if flag == "--json":
        events = [event_from_json(line) for line in out.splitlines()]
        assert events[-1].seq == len(events) - 1
        assert events[-1].run_id == events[0].run_id
        assert json.loads(out.splitlines()[-1])["error_type"] == "OutOfTimeError"
    else:
        assert out.startswith("Well")
        assert out.endswith("\n")


def test_max_iters_ends_with_a_summary(capsys: Captured) -> None:
    model = ScriptedModel(call("current_time"), "No more.")
    assert main(["ask", "?", "--max-iters", "1"], model=model) == 0
    assert "asking for a summary\nNo more.\n-- max iterations, " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["ask", "?", "--max-iters", "0"], "--max-iters"),
        (["ask", "?", "--max-iters", "x"], "--max-iters"),
        (["ask", "?", "--timeout", "-1"], "--timeout"),
        (["ask", "?", "--timeout", "inf"], "--timeout"),
        (["ask", "?", "--json", "--quiet"], "not allowed with"),
        (["sing"], "invalid choice"),
        ([], "required: COMMAND"),
    ],
)
def test_usage_errors_are_status_2(arguments: list[str], complaint: str, capsys: Captured) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert complaint in capsys.readouterr().err


def test_without_a_question_nothing_begins(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(" \n"))
    assert main(["ask"]) == 2
    assert capsys.readouterr().err.startswith("agentscope-rx: error: There is no question.")


def test_version(capsys: Captured) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("agentscope-rx 0.")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_every_command_and_flag(shell: str, capsys: Captured) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for word in ("ask", "chat", "setup-local", "events-schema", "base-url", "max-iters", "zsh"):
        assert word in script


def test_bash_completes_flags_with_the_script(capsys: Captured, tmp_path: Path) -> None:
    assert main(["completion", "bash"]) == 0
    script = tmp_path / "completion.bash"
    script.write_text(capsys.readouterr().out)
    typed = 'COMP_WORDS=(agentscope-rx ask --ba); COMP_CWORD=2; _shtab_agentscope_rx; echo "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", f'source "{script}"; {typed}'], capture_output=True, text=True, timeout=30)
    assert (done.stdout.split(), done.stderr) == (["--base-url"], "")


@pytest.mark.parametrize("words", ["ask --permissions ru", "skills check ru", "sessions list ru"])
def test_bash_completes_paths(words: str, capsys: Captured, tmp_path: Path) -> None:
    assert main(["completion", "bash"]) == 0
    script = tmp_path / "completion.bash"
    script.write_text(capsys.readouterr().out)
    (tmp_path / "rules.json").touch()
    typed = f'COMP_WORDS=(agentscope-rx {words}); COMP_CWORD=3; _shtab_agentscope_rx; echo "${{COMPREPLY[@]}}"'
    command = ["bash", "-c", f'source "{script}"; {typed}']
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, cwd=tmp_path)
    assert done.stdout.split() == ["rules.json"]


def test_completion_without_its_package_names_the_extra(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "bash"]) == 2
    assert "agentscope-rx[cli]" in capsys.readouterr().err


def test_the_schema_of_events_is_printed(capsys: Captured) -> None:
    assert main(["events-schema"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == events_schema() and err == ""
    assert main(["ask", "--json", "hi"], model=ScriptedModel("hello")) == 0
    for line in capsys.readouterr().out.splitlines():
        Draft202012Validator(events_schema()).validate(json.loads(line))


# --- tools of the user's ----------------------------------------------------------------------------------------------

TOOLS = '''
from agentscope_rx import Toolkit, tool

@tool
def one() -> str:
    """One."""
    return "1"

def two(x: int) -> int:
    """Two."""
    return 2 * x

class Box:
    @tool
    def three(self) -> str:
        """Three."""
        return "3"

box = Box()
several = [one, two]
kit = Toolkit([one, box], parallel=False)
number = 7
read_file = tool(name="read_file")(two)
class inner:
    deep = two
'''


@pytest.fixture
def offered(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (bare / "offered.py").write_text(TOOLS)
    monkeypatch.setattr(sys, "path", list(sys.path))
    sys.modules.pop("offered", None)


@pytest.mark.usefixtures("offered")
@pytest.mark.parametrize(
    ("spec", "names"),
    [
        ("offered:one", ["one"]),
        ("offered:two", ["two"]),
        ("offered:inner.deep", ["two"]),
        ("offered:box", ["three"]),
        ("offered:several", ["one", "two"]),
        ("offered:kit", ["one", "three"]),
    ],
)
def test_tools_of_every_kind(spec: str, names: list[str]) -> None:
    model = ScriptedModel("ok")
    assert main(["ask", "?", "--no-builtin-tools", "--tools", spec], model=model) == 0
    assert [schema.name for schema in model.requests[0].tools] == names


@pytest.mark.usefixtures("offered")
def test_tools_add_up() -> None:
    model = ScriptedModel("ok")
    assert main(["ask", "?", "--tools", "offered:box", "--tools", "offered:two"], model=model) == 0
    assert [schema.name for schema in model.requests[0].tools][:3] == ["three", "two", "read_file"]


@pytest.mark.usefixtures("offered")
@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ("offered", "takes module:attribute"),
        (":x", "takes module:attribute"),
        ("nowhere:x", "There is no module 'nowhere'."),
        ("offered:oen", "'offered' has no 'oen'. Did you mean one?"),
        ("offered:number", "7 is not a tool"),
        ("offered:Box", "Box"),
        ("offered:read_file", "names a tool 'read_file', which is the name of a built-in tool"),
        ("broken:x", "importing it failed with ZeroDivisionError: division by zero"),
        ("needy:x", "There is no module 'absent', which needy needs"),
    ],
)
def test_bad_tools_are_one_line_and_status_2(spec: str, complaint: str, bare: Path, capsys: Captured) -> None:
    (bare / "broken.py").write_text("1 / 0\n")
    (bare / "needy.py").write_text("import absent\n")
    assert main(["ask", "?", "--tools", spec], model=ScriptedModel("ok")) == 2
    err = capsys.readouterr().err
    assert complaint in err
    assert err.count("\n") == 1


# --- chat -------------------------------------------------------------------------------------------------------------


def test_chat_remembers(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("I am Ada.\n\nWho am I?\n"))
    model = ScriptedModel("Hello.", "Ada.")
    assert main(["chat", "--system", ""], model=model) == 0
    assert [message.text for message in model.requests[1].messages] == ["I am Ada.", "Hello.", "Who am I?"]
    assert capsys.readouterr().out.count("-- 1 turn") == 2


def test_chat_from_a_pipe_ends_at_the_first_failure(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("one\ntwo\n"))
    model = ScriptedModel(ModelError("bad day"), "never asked")
    assert main(["chat"], model=model) == 1
    assert model.unplayed == 1
    assert capsys.readouterr().err == "agentscope-rx: error: bad day\n"


def test_a_call_of_an_unknown_tool_is_no_failure(capsys: Captured) -> None:
    model = ScriptedModel(ToolUseBlock("c", "rm"), "Sorry.")
    assert main(["ask", "?"], model=model) == 0
    assert "<- Error: There is no tool 'rm'." in capsys.readouterr().out
