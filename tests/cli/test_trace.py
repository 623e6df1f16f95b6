"""`trace`: what it prints of a log, and what it says of one that it cannot read."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentscope_rx.cli.main import main
from agentscope_rx.events import Event
from tests.console.example_log import LOG
from tests.console.logs import busy_log

from .conftest import Cli
from .processes import SECONDS, Start
from .scripted_server import Server, calls, says

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch, bare: Path) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        patch.setenv("COLUMNS", "100")
        time.tzset()
        yield
    time.tzset()


def written(events: list[Event], path: str = "run.jsonl") -> str:
    Path(path).write_text("".join(f"{event.to_json()}\n" for event in events), encoding="utf-8")
    return path


def test_a_timeline_is_printed(capsys: Captured) -> None:
    assert main(["trace", written(busy_log())]) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0] == "2026-09-21 14:13:20  run run1" and err == ""
    assert any(line.split()[0] == "broken()" and "failed: ValueError: because" in line for line in lines)
    assert lines[-1].startswith("slowest  scripted 1.20 s") and "\x1b" not in out


def test_flags_choose_what_is_printed(capsys: Captured) -> None:
    log = written(busy_log())
    assert main(["trace", log, "--run", "run2", "--depth", "1", "--width", "60"]) == 0
    out = capsys.readouterr().out
    assert "run run2" in out and "Friday" not in out and "slow(" not in out and "tokens   650 in, 20 out" in out
    assert main(["trace", log, "--events"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(busy_log()) and lines[0].split()[:3] == ["0.000", "Friday", "pre_call"]
    assert any(line.split()[:3] == ["3.000", "Friday", "retry"] for line in lines)


def test_json_holds_the_whole_timeline(capsys: Captured) -> None:
    Path("prices.json").write_text('{"scripted": {"input": 1.0, "output": 10.0}}')
    assert main(["trace", written(busy_log()), "--json", "--prices", "prices.json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ended"] is True and found["totals"]["usage"]["input_tokens"] == 2362
    assert found["totals"]["cost"] == pytest.approx(0.003762)
    model = found["lanes"][0]["lanes"][0]["lanes"][0]
    assert (model["kind"], model["first_chunk"], model["state"]) == ("model", 0.7, "done")


def test_a_picture_is_written(capsys: Captured) -> None:
    log = written(busy_log())
    assert main(["trace", log, "--svg", "run.svg", "--depth", "3"]) == 0
    assert capsys.readouterr() == ("", "")
    assert main(["trace", log, "--svg", "-", "--depth", "3"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("<svg ") and Path("run.svg").read_text(encoding="utf-8") == out
    assert main(["trace", log, "--svg", "-", "--width", "500"]) == 0
    assert ' width="500"' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--svg", "none/run.svg"], "there is no folder none"),
        (["--svg", "."], "--svg . cannot be written: Is a directory"),
        (["--svg", "run.svg", "--width", "20"], "at least 400 pixels, not 20"),
    ],
)
def test_a_picture_that_cannot_be_written_is_reported(flags: list[str], said: str, capsys: Captured) -> None:
    assert main(["trace", written(busy_log()), *flags]) == 2
    assert said in capsys.readouterr().err


def test_a_picture_does_not_replace_the_log(capsys: Captured) -> None:
    log = written(busy_log())
    before = Path(log).read_bytes()
    Path("link.svg").symlink_to(log)
    for name in (log, f"./{log}", "link.svg"):
        assert main(["trace", log, "--svg", name]) == 2
        assert f"--svg {name} would replace the log" in capsys.readouterr().err
    assert Path(log).read_bytes() == before


def test_a_log_that_is_cut_off_is_shown(capsys: Captured) -> None:
    data = Path(written(busy_log())).read_bytes()
    Path("cut.jsonl").write_bytes(data[: len(data) // 2])
    assert main(["trace", "cut.jsonl"]) == 0
    out, err = capsys.readouterr()
    assert "no end yet" in out
    assert err.startswith("agentscope-rx: The last line of cut.jsonl, ") and err.endswith(" was not finished.\n")


def test_a_stream_of_server_sent_events_is_a_log(capsys: Captured) -> None:
    main(["trace", written(busy_log())])
    plain = capsys.readouterr().out
    frames = [f"id: {e.seq}\nevent: {e.type}\ndata: {e.to_json()}\n\n:\n" for e in busy_log()]
    Path("sse.txt").write_text("".join(frames), encoding="utf-8")
    assert main(["trace", "sse.txt"]) == 0
    assert capsys.readouterr().out.splitlines()[2:] == plain.splitlines()[2:]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["none.jsonl"], "There is no file none.jsonl. A log is recorded by: agentscope-rx ask"),
        (["folder"], "folder is a directory. Name a log in it, such as folder/run.jsonl."),
        (["empty"], "There are no events in empty. With --follow"),
        (["text"], "text is not a log of events. Line 1 of the log of events text cannot be read."),
        (["run.jsonl", "--run", "ru3"], "There is no run 'ru3' in run.jsonl. It has 2, such as run"),
        (["run.jsonl", "--prices", "text"], "--prices text must have the form"),
        (["run.jsonl", "--prices", "none"], "--prices none cannot be read"),
        (["run.jsonl", "--prices", "half"], "model.output: Field required."),
    ],
    ids=lambda each: each[-1] if isinstance(each, list) else "",
)
def test_what_cannot_be_read_is_a_line_and_status_2(arguments: list[str], text: str, capsys: Captured) -> None:
    Path("folder").mkdir()
    Path("empty").write_text("\n")
    Path("text").write_text("Hello\n")
    Path("half").write_text('{"model": {"input": 1}}')
    written(busy_log())
    assert main(["trace", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == "" and text in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("no JSON", "Line 6 of the log of events run.jsonl cannot be read. This is not a line of JSON"),
        ('{"v":99,"type":"pre_call"}', "It was written by a newer release: update agentscope-rx."),
        ('{"v":1,"type":"new"}', "If a newer release has written it, update agentscope-rx."),
    ],
)
def test_what_is_before_a_wrong_line_is_shown(line: str, text: str, capsys: Captured) -> None:
    written(busy_log()[:5])
    with open("run.jsonl", "a") as file:
        file.write(f"{line}\n{busy_log()[5].to_json()}\n")
    assert main(["trace", "run.jsonl"]) == 1
    out, err = capsys.readouterr()
    assert "scripted" in out and text in err


@pytest.mark.parametrize("width", ["0", "x"])
def test_a_width_is_a_number(width: str, capsys: Captured) -> None:
    with pytest.raises(SystemExit):
        main(["trace", "run.jsonl", "--width", width])
    assert "is not a whole number of at least 1" in capsys.readouterr().err


def test_old_logs_are_shown(capsys: Captured) -> None:
    old = Path(__file__).parents[1] / "events" / "logs" / "version_0.jsonl"
    assert main(["trace", str(old)]) == 0
    assert "Researcher" in capsys.readouterr().out


def test_the_page_shows_what_is_printed(capsys: Captured) -> None:
    assert main(["trace", str(LOG), "--width", "92"]) == 0
    shown = "".join(line.rstrip() + "\n" for line in capsys.readouterr().out.splitlines())
    page = Path(__file__).parents[2] / "docs" / "guides" / "command-line.md"
    assert shown in page.read_text(encoding="utf-8")


# --- as a process -----------------------------------------------------------------------------------------------------


def test_what_ask_prints_is_a_log(cli: Cli, server: Server, tmp_path: Path) -> None:
    (tmp_path / "ferry.txt").write_text("Name: Aurora\n")
    server.answers += [calls("read_file", path="ferry.txt"), says("It is ", "Aurora.")]
    asked = cli("ask", "Which?", "--model", "openai:m", "--base-url", server.url, "--json")
    done = cli("trace", "-", input=asked.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert 'read_file(path="ferry.txt")' in done.stdout and "2 model calls, 1 tool call" in done.stdout


def test_the_reader_may_leave(environment: dict[str, str], tmp_path: Path) -> None:
    log = written(busy_log() * 200, str(tmp_path / "run.jsonl"))
    command = [sys.executable, "-m", "agentscope_rx", "trace", "--events", log]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as popen:
        assert popen.stdout is not None and popen.stderr is not None
        popen.stdout.readline()
        popen.stdout.close()
        assert popen.stderr.read() == b"" and popen.wait(SECONDS) == 141


WRITER = "import sys\nfor line in sys.stdin:\n    open(sys.argv[1], 'a').write(line)\n"


def test_follow_ends_with_the_run(environment: dict[str, str], tmp_path: Path) -> None:
    log = tmp_path / "grows.jsonl"
    log.touch()
    lines = [f"{event.to_json()}\n".encode() for event in busy_log()]
    command = [sys.executable, "-m", "agentscope_rx", "trace", "--follow", str(log)]
    with (
        subprocess.Popen([sys.executable, "-c", WRITER, str(log)], stdin=subprocess.PIPE) as writer,
        subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as popen,
    ):
        assert writer.stdin is not None and popen.stdout is not None
        for line in lines:
            writer.stdin.write(line)
            writer.stdin.flush()
            # (what is written is shown before the next line is)
            assert popen.stdout.readline()
        writer.stdin.close()
        rest = popen.stdout.read().decode()
        assert popen.wait(SECONDS) == 0 and writer.wait(SECONDS) == 0
    assert "4 model calls" in rest


def test_follow_at_a_terminal_and_ctrl_c(terminal: Start, tmp_path: Path) -> None:
    log = tmp_path / "grows.jsonl"
    written(busy_log()[:8], str(log))
    trace = terminal("trace", "--follow", str(log), model=())
    trace.until("slow")
    with open(log, "a", encoding="utf-8") as file:
        file.write("".join(f"{event.to_json()}\n" for event in busy_log()[8:20]))
    trace.until("Researcher")
    trace.popen.send_signal(signal.SIGINT)
    # the cursor is there again, and what is known so far is printed
    trace.until("\x1b[?25h")
    trace.until("slowest")
    assert trace.wait() == 130 and "Traceback" not in trace.seen


def test_colours_are_for_terminals_without_no_color(terminal: Start, tmp_path: Path, cli: Cli) -> None:
    log = written(busy_log(), str(tmp_path / "run.jsonl"))
    assert "\x1b[" in terminal("trace", log, model=()).until("slowest")
    assert "\x1b" not in cli("trace", log).stdout


def test_completion_completes_the_file(cli: Cli) -> None:
    script = cli("completion", "bash").stdout
    assert "trace" in script and "_shtab_agentscope_rx_trace_pos_0_COMPGEN=_shtab_compgen_files" in script
