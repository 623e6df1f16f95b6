"""`python -m tests.pipeline.killed_child FOLDER KILL_AT`: a nested pipeline that ends by SIGKILL at an effect.

It works with a session in a file, and `KILL_AT` counts the moments before and after effects; 0 is never.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from agentscope_rx import ReActAgent, tool
from agentscope_rx.pipeline import FanOutPipeline, SequentialPipeline
from agentscope_rx.session import SqliteSession
from agentscope_rx.testing import ScriptedModel, call


def by_results(*answers: Any) -> ScriptedModel:
    """A model that answers by the number of results that it sees: it is the same in each process."""

    def answer(request: Any) -> Any:
        seen = sum(len(message.tool_results) for message in request.messages)
        return answers[min(seen, len(answers) - 1)]

    return ScriptedModel(*[answer] * 20)


async def main(folder: Path, kill_at: int) -> None:
    moments = 0

    def moment() -> None:
        nonlocal moments
        moments += 1
        if moments == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def worker(name: str) -> ReActAgent:
        @tool(in_doubt="run", idempotent=True)
        async def work() -> str:
            """Works."""
            moment()
            # once for each name: a second effect with the same key has no effect
            (folder / f"effect {name}").touch()
            with (folder / "begun").open("a") as log:
                log.write(f"{name}\n")
            moment()
            return f"{name} worked"

        return ReActAgent(name, by_results(call("work"), f"{name} is done"), tools=[work])

    inner = SequentialPipeline([worker("B"), worker("C")], "inner")
    team = FanOutPipeline([worker("D"), inner], "middle", at_most=1)
    session = SqliteSession(folder / "chat.db")
    try:
        outer = SequentialPipeline(
            [worker("A"), team, worker("E")], "outer", session=session, session_key="k", checkpoint="stage"
        )
        reply = await outer.call("go")
        (folder / "end").write_text(f"{reply.text}\n{moments}")
    finally:
        await session.close()


if __name__ == "__main__":
    signal.alarm(30)
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
