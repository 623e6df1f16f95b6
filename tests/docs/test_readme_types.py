"""The README's code passes the type checkers as a user runs them: with their defaults, on the package as installed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks_of

SECONDS = 300
CHECKERS = {
    "mypy": ["mypy", "--no-incremental", "--follow-imports=silent", "--cache-dir=/dev/null"],
    "pyright": ["basedpyright", f"--pythonpath={sys.executable}"],
}
HEAD = """\
from agentscope_rx import Msg
from agentscope_rx.reactive import Flow
from reactivex import operators as ops
"""
RIGHT = """
text: Flow[str] = agent.stream("hi").text()
chunks: Flow[ReasoningChunkEvent] = agent.stream("hi").of_type(ReasoningChunkEvent)
message: Msg = await agent.call("hi")
agent.register_state("seen", to_json=sorted, from_json=set)
loud: Flow[str] = agent.stream("hi").text().pipe(ops.map(str.upper), ops.distinct_until_changed())
"""
WRONG = 'await agent.stream("hi").of_type(ReasoningChunkEvent).tool_use\n'


@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("checker", CHECKERS)
def test_the_readme_passes(checker: str, tmp_path: Path):
    """Each file is checked in the one run of a checker, and only the last line of the last one is wrong."""
    found = blocks_of((ROOT / "README.md").read_text(encoding="utf-8"))
    whole = [block.text for block in found if block.title.endswith(".py")]
    blocks = "\n".join(block.text for block in found if block.language == "python" and not block.title)
    # in a coroutine, as the blocks use `await`; and what a type checker has to know, said by it
    script = f"{HEAD}\n\nasync def main() -> None:\n" + textwrap.indent(f"{blocks}{RIGHT}{WRONG}", "    ")
    names = [f"file_{number}.py" for number in range(len(whole))] + ["readme.py"]
    for name, text in zip(names, [*whole, script], strict=True):
        (tmp_path / name).write_text(text, encoding="utf-8")
    settings = {"typeCheckingMode": "standard", "extraPaths": [str(ROOT)], "include": ["."]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")

    said = checked(checker, tmp_path, names)
    errors = [line for line in said.splitlines() if re.search(r"\berror\b.*[:(]", line) and ".py:" in line]
    assert len(errors) == 1, said
    assert f"readme.py:{script.count(chr(10))}:" in errors[0] and "tool_use" in errors[0], said


def checked(checker: str, folder: Path, names: list[str]) -> str:
    command, *options = CHECKERS[checker]
    done = subprocess.run(
        [str(Path(sys.executable).parent / command), *options, *names],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    return done.stdout + done.stderr
