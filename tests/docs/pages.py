"""The pages of README and docs as data: their fenced blocks, and a runner that does what a reader would do.

| block                                   | is                                                                     |
|-----------------------------------------|------------------------------------------------------------------------|
| ` ```python title="agent.py" `          | saved as that file, in the folder of the page                          |
| ` ```python title="pydantic-ai" `       | shown only: code of another library (tests/docs/peers.py runs it)      |
| ` ```python `                           | run, in one module for the page; `await` may stand at top level        |
| ` ```text ` that follows such a block   | what it prints; `...` stands for any text, as in doctest               |
| ` ```console `                          | commands behind `$ `, each followed by what it prints                  |
| `<!-- answers: [...] -->` before one    | what the model answers: texts, and `{"tool": {arguments}}` for a call  |

A command that ends with ` &` stays in the background once it has printed what stands below it; `$ kill %1` stops it, as
does the end of the page. `--port 8000` there is a free port of this machine in truth.

An answer may be a list of texts and calls. Without answers the model calls the first tool and repeats its result.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import doctest
import inspect
import io
import json
import os
import re
import socket
import subprocess
import sys
import types
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.openai_server import OpenAIServer

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
TUTORIAL = DOCS / "tutorial"

BLOCK = re.compile(
    r"(?:^<!-- answers: (?P<answers>.*?) -->\n\n?)?"
    r"^```(?P<language>\w+)(?: title=\"(?P<title>[^\"]*)\")?[^\n]*\n(?P<text>.*?)^```",
    re.M | re.S,
)
NOT_RUN = ("pip ", "python -m venv", "source ", "export ", "cd ", "make ", "git ", "docker ")
"""Commands that set up a machine, or that this environment has carried out."""


@dataclass(frozen=True, slots=True)
class Block:
    language: str
    title: str
    text: str
    line: int
    answers: list[object] = field(default_factory=list)
    follows: bool = False
    """Nothing but blank lines stand between this block and the one before."""


def blocks_of(text: str) -> list[Block]:
    found: list[Block] = []
    end = 0
    for match in BLOCK.finditer(text):
        found.append(
            Block(
                language=match["language"],
                title=match["title"] or "",
                text=match["text"],
                line=text.count("\n", 0, match.start("text")),
                answers=json.loads(match["answers"]) if match["answers"] else [],
                follows=not text[end : match.start()].strip(),
            )
        )
        end = match.end()
    return found


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


class PageRunner:
    """Carries out the blocks of a page in `folder`, with a model on `server`."""

    def __init__(self, page: Path, folder: Path, server: OpenAIServer) -> None:
        self.page = page
        self.folder = folder
        self.server = server
        self.module = types.ModuleType(f"page_{page.stem.replace('-', '_')}")
        self.ports: dict[str, str] = {}
        """Ports that the page names, and those that stand for them."""
        self.background: list[subprocess.Popen[bytes]] = []

    def run(self) -> None:
        # tools look up their annotations there
        sys.modules[self.module.__name__] = self.module
        try:
            self._run()
        finally:
            del sys.modules[self.module.__name__]
            self._stop_background()

    def _run(self) -> None:
        blocks = blocks_of(self.page.read_text(encoding="utf-8"))
        for block, after in zip(blocks, [*blocks[1:], None], strict=True):
            where = f"{self.page.name}:{block.line}"
            if block.title and "." not in block.title:
                continue
            self.server.answers.extend(block.answers)
            if block.language == "console":
                self._commands(block, where)
            elif block.title:
                (self.folder / block.title).parent.mkdir(parents=True, exist_ok=True)
                (self.folder / block.title).write_text(block.text, encoding="utf-8")
            elif block.language == "python":
                printed = self._python(block, where)
                if after is not None and after.language == "text" and after.follows:
                    compare(after.text, printed, where)

    def _python(self, block: Block, where: str) -> str:
        code = compile("\n" * block.line + block.text, str(self.page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            result = eval(code, self.module.__dict__)
            if inspect.iscoroutine(result):
                asyncio.run(_finish(result))
        return printed.getvalue()

    def _commands(self, block: Block, where: str) -> None:
        for part in re.split(r"^\$ ", block.text, flags=re.M)[1:]:
            command, _, expected = part.partition("\n")
            while command.endswith("\\"):
                more, _, expected = expected.partition("\n")
                command = f"{command}\n{more}"
            if command.startswith(NOT_RUN):
                continue
            if command.startswith("kill "):
                self._stop_background()
            elif command.endswith(" &"):
                self._start(command.removesuffix(" &"), expected, f"{where}: {command}")
            else:
                done = subprocess.run(
                    ["bash", "-c", self._with_ports(command)],
                    cwd=self.folder,
                    env=self._environment(),
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    encoding="utf-8",
                    timeout=60,
                    check=False,
                )
                compare(self._with_ports(expected), done.stdout, f"{where}: {command}")

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "PYTHONIOENCODING": "utf-8",
            "COLUMNS": "100",
        }

    def _start(self, command: str, expected: str, where: str) -> None:
        for port in re.findall(r"--port (\d+)", command):
            self.ports[port] = str(free_port())
        output = self.folder / f"background_{len(self.background)}.log"
        with output.open("wb") as log:
            self.background.append(
                subprocess.Popen(
                    ["bash", "-c", f"exec {self._with_ports(command)}"],
                    cwd=self.folder,
                    env=self._environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )
            )
        for _ in range(300):
            try:
                return compare(self._with_ports(expected), output.read_text(encoding="utf-8"), where)
            except AssertionError:
                if self.background[-1].poll() is not None:
                    raise
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.background[-1].wait(0.1)
        return compare(self._with_ports(expected), output.read_text(encoding="utf-8"), where)

    def _stop_background(self) -> None:
        while self.background:
            process = self.background.pop()
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _with_ports(self, text: str) -> str:
        for shown, used in self.ports.items():
            text = text.replace(shown, used)
        return text


def free_port() -> int:
    """A port of this machine that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


async def _finish(coroutine) -> None:
    await coroutine


def _plain(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines()) + "\n"


def compare(expected: str, printed: str, where: str) -> None:
    """Fail if what was printed is not what the page shows."""
    checker = doctest.OutputChecker()
    want, got = _plain(expected), _plain(printed)
    if not checker.check_output(want, got, doctest.ELLIPSIS):
        example = doctest.Example("", want)
        raise AssertionError(
            f"{where}\n{checker.output_difference(example, got, doctest.ELLIPSIS | doctest.REPORT_NDIFF)}"
        )
