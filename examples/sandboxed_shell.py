"""A free shell for an agent: any command, with pipes, in a sandbox in which only the workspace can be written.

Look at: the commands and what they get. Pipes work; a secret file, the rest of the system, the network and a heap of
processes do not. `allow_any=True` is allowed only with a backend that guarantees it.

    python examples/sandboxed_shell.py       needs Linux and `bwrap` (the package bubblewrap of your distribution)
    AGENTSCOPE_RX_MODEL=openai:gpt-5-mini python examples/sandboxed_shell.py
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from reactivex import operators as ops

from agentscope_rx import ReActAgent
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.events import Event, PostActingEvent
from agentscope_rx.testing import ScriptedModel, call
from agentscope_rx.tools.backends import BubblewrapBackend, Guarantee, Limits
from agentscope_rx.tools.files import FileTools
from agentscope_rx.tools.shell import ShellTool

COMMANDS = (
    "sort -n tides.txt | tail -n 2 > highest.txt; cat highest.txt",
    "cat .env",
    "ls ~ | wc -l; touch /usr/x",
    "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 80))' 2>&1 | tail -n 1",
    "for n in $(seq 80); do sleep 5 & done; wait",
)
"""What the model tries."""


def main() -> None:
    """Show what each command gives, and what is left of it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "tides.txt").write_text("312\n47\n290\n551\n")
        (folder / ".env").write_text("KEY=sk-4711\n")
        try:
            backend = BubblewrapBackend(folder, limits=Limits(time=20, memory=1 << 30, processes=50))
        except ConfigurationError as error:
            print(error)
            return
        for each in (Guarantee.NETWORK, Guarantee.WRITES, Guarantee.TOTAL_MEMORY):
            print(f"guaranteed: {each}: {each in backend.guarantees}")
        tools = [ShellTool(backend=backend, allow_any=True), FileTools(backend=backend)]
        calls = [call("run_command", command=command) for command in COMMANDS]
        script = ScriptedModel(*calls, "The highest tides: 312 and 551.")
        agent = ReActAgent("Friday", os.environ.get("AGENTSCOPE_RX_MODEL") or script, tools=tools)

        def show(event: Event) -> None:
            if isinstance(event, PostActingEvent):
                print(f"$ {event.tool_use.input.get('command', event.tool_use.name)}")
                lines = event.result.text.splitlines()
                print("\n".join(f"  {line}" for line in (lines if len(lines) < 5 else lines[:1])))

        agent.stream("Which are the two highest tides in tides.txt?").pipe(ops.do_action(show)).run()
        print(f"left: {sorted(os.listdir(folder))}")


if __name__ == "__main__":
    main()
