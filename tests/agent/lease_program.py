"""A program of its own in one conversation: `python -m tests.agent.lease_program STORE NAME TURNS TTL`.

With TURNS it makes so many calls, one after the other. Without (0) it makes one whose tool waits for a line, and prints
how the call has ended.
"""

from __future__ import annotations

import asyncio
import sys

from agentscope_rx import ReActAgent, tool
from agentscope_rx.errors import AgentScopeError
from agentscope_rx.session import LeasePolicy, open_session
from agentscope_rx.testing import ScriptedModel, call

KEY = "shared"


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


@tool
def wait_for_a_line() -> str:
    """Says that it runs, and waits."""
    say("running")
    return sys.stdin.readline()


async def main(store: str, name: str, turns: int, ttl: float) -> None:
    script = [f"{name} says {number}" for number in range(turns)] or [[call("wait_for_a_line", "c1")], "late"]
    agent = ReActAgent("Friday", ScriptedModel(*script), tools=[wait_for_a_line])
    await agent.bind(open_session(store), KEY, lease=LeasePolicy("queue", ttl=ttl))
    for number in range(turns or 1):
        try:
            await agent.call(f"{name} asks {number}")
        except AgentScopeError as error:
            say(type(error).__name__)
            return
    say("done")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])))
