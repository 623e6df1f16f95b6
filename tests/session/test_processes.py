"""Several programs and threads on one root: one after the other, nothing torn, nothing half read; killed, too."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from agentscope_rx.session import Saved
from tests.session.stores import EACH, ON_DISK, Make

ROOT = Path(__file__).parent.parent.parent


def writer(kind: str, root: Path, name: str, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.session.writer", kind, str(root), name, str(count)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def check(found: Saved) -> None:
    """All of it is of one save."""
    if found != Saved():
        values: Any = found.values
        name, number, turns = values["a"]
        assert values["b"] == [name, number] and found.lists["turns"] == turns


@pytest.mark.spec("W69")
@pytest.mark.parametrize("kind", list(ON_DISK))
def test_two_programs_write_and_a_third_reads(kind: str, tmp_path: Path):
    """Writes were neither atomic nor locked."""
    programs = [writer(kind, tmp_path, name, 60) for name in ("one", "two")]
    session = ON_DISK[kind](tmp_path)
    reads = 0
    while any(program.poll() is None for program in programs):
        check(session.load_all("shared").run())
        assert set(session.keys().run()) <= {"shared", "one", "two"}
        reads += 1
    for program in programs:
        program.communicate()
        assert program.returncode == 0
    assert reads > 10
    check(session.load_all("shared").run())
    assert session.load("one", "number").run() == session.load("two", "number").run() == 59


@pytest.mark.spec("W69")
@pytest.mark.parametrize("kind", list(ON_DISK))
def test_programs_are_killed_in_the_middle(kind: str, tmp_path: Path):
    """Between data and hash file a crash made for a stale append. The lock of a dead process is free."""
    session = ON_DISK[kind](tmp_path)
    for number in range(4):
        with writer(kind, tmp_path, f"n{number}", 10_000) as program:
            assert program.stdout is not None and program.stdout.readline() == "begun\n"
            time.sleep(random.uniform(0.0, 0.05))
            program.kill()
        found = session.load_all("shared").run()
        check(found)
        turns = [*found.lists["turns"], "mine"]
        session.save_all("shared", {"a": ["x", 0, turns], "b": ["x", 0]}, {"turns": turns}).run()
        check(session.load_all("shared").run())
        if kind == "files":
            assert len(os.listdir(tmp_path / "shared")) == 5, "manifest, lock, a, b and turns"


REPORTING = """
import sys
from pathlib import Path
from agentscope_rx.session import ListTail
from tests.session.stores import ON_DISK

session = ON_DISK[sys.argv[1]](Path(sys.argv[2]))
for number in range(100_000):
    session.save_all("k", {"n": number}, {"l": ListTail([number])}).run()
    print(number, flush=True)
"""


@pytest.mark.spec("W69")
@pytest.mark.parametrize("kind", list(ON_DISK))
def test_what_was_reported_survives_a_kill(kind: str, tmp_path: Path):
    for part in range(3):
        command = [sys.executable, "-c", REPORTING, kind, str(tmp_path / str(part))]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as program:
            assert program.stdout is not None
            lines = [program.stdout.readline() for _ in range(random.randrange(1, 30))]
            program.kill()
            reported = int([*lines, *program.stdout.read().splitlines()][-1])
        saved = ON_DISK[kind](tmp_path / str(part)).load_all("k").run()
        number: Any = saved.values["n"]
        assert number in (reported, reported + 1) and saved.lists["l"] == list(range(number + 1))


@EACH
def test_threads_lose_nothing_and_read_whole_saves(make: Make, tmp_path: Path):
    session = make(tmp_path)
    problems: list[object] = []
    done = threading.Event()

    def write(name: str) -> None:
        for number in range(12):
            save = session.save_all("shared", {"a": [name, number, [number]], "b": [name, number]}, {"turns": [number]})
            save.run()
            session.save("own", f"{name} {number}", number).run()
            if number % 5 == 4:
                session.delete("shared").run()

    def read() -> None:
        while not done.is_set():
            try:
                check(session.load_all("shared").run())
                session.exists("shared").run()
                session.keys().run()
            except Exception as error:
                problems.append(error)

    writers = [threading.Thread(target=write, args=(f"w{n}",)) for n in range(4)]
    reader = threading.Thread(target=read)
    for thread in (*writers, reader):
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    reader.join()
    assert problems == []
    assert session.load_all("own").run().values == {f"w{n} {number}": number for n in range(4) for number in range(12)}
