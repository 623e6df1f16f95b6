"""Runs the programs of other libraries that the pages show: `python -m tests.docs.peers [NAME ...]`, or `make peers`.

A block with the name of a library as its title is run in an environment of that library, with the page's answers as
the model's, and has to print what the `text` block after it shows. The environments are downloaded when they are first
needed, so `make test` leaves this out.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from benchmarks.peers import PEERS, environment, versions
from tests.docs.pages import PAGES, Block, blocks_of, compare
from tests.support.openai_server import OpenAIServer, openai_server

SECONDS = 120
QUIET = {"OPENAI_AGENTS_DISABLE_TRACING": "1", "PYTHONIOENCODING": "utf-8", "PYTHONWARNINGS": "ignore"}
"""A trace would be sent to the provider itself, past the base URL."""


@dataclass(frozen=True, slots=True)
class Program:
    """A block in another library, and what the page says that it prints."""

    page: str
    peer: str
    block: Block
    printed: str

    @property
    def where(self) -> str:
        return f"{self.page}:{self.block.line} ({self.peer})"


def programs(pages: Sequence[Path] = PAGES, peers: Collection[str] = PEERS) -> Iterator[Program]:
    """The programs of these libraries. A block without a `text` block after it is an error: it shows no output."""
    for page in pages:
        blocks = blocks_of(page.read_text(encoding="utf-8"))
        for block, after in pairwise([*blocks, None]):
            if block is None or block.title not in peers:
                continue
            if after is None or after.language != "text" or not after.follows:
                raise ValueError(f"{page.name}:{block.line}: a program of {block.title} without its output")
            yield Program(page.name, block.title, block, after.text)


def run_program(program: Program, python: Path, server: OpenAIServer, folder: Path) -> None:
    """Run it in `folder`, and fail if it prints something else, or leaves answers of the page unused."""
    file = folder / "program.py"
    file.write_text(program.block.text, encoding="utf-8")
    server.answers.extend(program.block.answers)
    done = subprocess.run(
        [python, file.name],
        cwd=folder,
        env={**os.environ, **QUIET, "OPENAI_API_KEY": "test", "OPENAI_BASE_URL": server.base_url},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=SECONDS,
        check=False,
    )
    if done.returncode:
        raise AssertionError(f"{program.where}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    compare(program.printed, done.stdout, program.where)
    if server.answers:
        raise AssertionError(f"{program.where}: answers that no request has taken: {list(server.answers)}")


def check(found: Sequence[Program], peers: Mapping[str, Sequence[str]]) -> list[str]:
    """Run these programs one by one and print how each went; the failures."""
    failures: list[str] = []
    for name in sorted({program.peer for program in found}):
        python = environment(name, peers[name])
        print(name, ", ".join(f"{package} {version}" for package, version in versions(python, peers[name]).items()))
        for program in (program for program in found if program.peer == name):
            with openai_server() as server, tempfile.TemporaryDirectory() as folder:
                try:
                    run_program(program, python, server, Path(folder))
                except (AssertionError, subprocess.TimeoutExpired) as error:
                    failures.append(str(error))
                    print(f"  FAILED  {error}")
                else:
                    print(f"  as shown  {program.page}:{program.block.line}")
    return failures


def main(names: Sequence[str]) -> int:
    if unknown := set(names) - set(PEERS):
        print(f"There is no library {', '.join(sorted(unknown))} here. Known: {', '.join(PEERS)}", file=sys.stderr)
        return 2
    found = [program for program in programs() if not names or program.peer in names]
    failures = check(found, PEERS)
    print(f"{len(found)} programs, {len(failures)} of them do not print what their page shows")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
