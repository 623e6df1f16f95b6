"""The README's code passes the type checkers as a user runs them: with their defaults, on the package as installed."""

from __future__ import annotations

import json
import os
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


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """The README's blocks in one coroutine, as they use `await`; and what a type checker has to know, said by it."""
    found = blocks_of((ROOT / "README.md").read_text(encoding="utf-8"))
    blocks = "\n".join(block.text for block in found if block.language == "python")
    assert "of_type(" in blocks
    ending = textwrap.dedent(
        """
        text: Flow[str] = agent.stream("hi").text()
        chunks: Flow[ReasoningChunkEvent] = agent.stream("hi").of_type(ReasoningChunkEvent)
        message: Msg = await agent.call("hi")
        agent.register_state("seen", to_json=sorted, from_json=set)
        loud: Flow[str] = agent.stream("hi").text().pipe(ops.map(str.upper), ops.distinct_until_changed())
        """
    )
    head = "from agentscope_rx import Msg\nfrom agentscope_rx.reactive import Flow\n\n\nasync def main() -> None:\n"
    path = tmp_path / "readme.py"
    path.write_text(head + textwrap.indent(blocks + ending, "    "))
    settings = {"typeCheckingMode": "standard", "extraPaths": [str(ROOT)], "include": ["."]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    return path


def checked(checker: str, script: Path) -> tuple[int, str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MYPYPATH": str(ROOT)}
    command, *options = CHECKERS[checker]
    done = subprocess.run(
        [str(Path(sys.executable).parent / command), *options, script.name],
        cwd=script.parent,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("checker", CHECKERS)
def test_the_readme_passes(checker: str, script: Path):
    code, said = checked(checker, script)
    assert code == 0, said


@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("checker", CHECKERS)
def test_what_is_wrong_is_found(checker: str, script: Path):
    """Else the test above would say nothing."""
    script.write_text(script.read_text() + '    agent.stream("hi").of_type(ReasoningChunkEvent).run().tool_use\n')
    code, said = checked(checker, script)
    assert code == 1 and "tool_use" in said
