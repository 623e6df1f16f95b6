"""A coder works until a test passes: the test is a real command, and what it prints is the feedback.

Look at: `CommandCheck`. The command decides when the work is done, not the model. Its output goes back to the model
until it succeeds, or until the rounds or the limits are used up.

    python examples/goal_loop.py
    AGENTSCOPE_RX_MODEL=openai:gpt-5-mini python examples/goal_loop.py
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from agentscope_rx import ReActAgent
from agentscope_rx.agent import UsageLimits
from agentscope_rx.events import PostCallEvent, PreCallEvent
from agentscope_rx.messages import ToolUseBlock
from agentscope_rx.pipeline import CommandCheck, GoalLoop, GoalOutcome
from agentscope_rx.testing import ScriptedModel, call
from agentscope_rx.tools.backends import LocalBackend
from agentscope_rx.tools.files import FileTools

TEST = "from add import add\nassert add(2, 3) == 5, f'add(2, 3) is {add(2, 3)}'\nprint('all is well')\n"


def write(body: str) -> ToolUseBlock:
    return call("write_file", path="add.py", content=f"def add(a, b):\n    return {body}\n")


async def work_on(folder: Path) -> None:
    (folder / "test_add.py").write_text(TEST)
    backend = LocalBackend(folder)
    script = ScriptedModel(write("a - b"), "I wrote add.", write("sum((a, b))"), "It was the sign. I mended it.")
    model = os.environ.get("AGENTSCOPE_RX_MODEL") or script
    coder = ReActAgent("Coder", model, tools=[FileTools(backend=backend, requires_approval=False)])
    check = CommandCheck(sys.executable, "test_add.py", backend=backend)
    loop = GoalLoop(coder, check, max_rounds=5, limits=UsageLimits(model_calls=20, deadline=120))

    async for event in loop.stream("Write add.py with a function add(a, b), so that test_add.py passes."):
        if isinstance(event, PreCallEvent) and event.depth and event.input:
            # what the coder is given: the task, then what the check has said
            _, feedback, rest = event.input[-1].text.partition("<feedback>")
            if feedback:
                print(f"feedback: ... {rest.partition('</feedback>')[0].strip().splitlines()[-1]}")
        elif isinstance(event, PostCallEvent) and not event.depth:
            outcome = GoalOutcome.of(event.message)
            print(f"{outcome.end} after {outcome.rounds} rounds: {event.message.text}")


async def main() -> None:
    with TemporaryDirectory() as folder:
        await work_on(Path(folder))


if __name__ == "__main__":
    asyncio.run(main())
