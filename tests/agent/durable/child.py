"""One process of the crash test: it plays a script, or what is left of it, and kills itself at a given moment.

The script: text that is streamed, tools side by side and in turn, approvals, a sub-agent with an approval of its own,
a tool that changes a part of the conversation, input that is enqueued, and a structured output. Each effect is a line
of a file that outlives the process.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from agentscope_rx import Approve, Msg, ReActAgent, Session, tool
from agentscope_rx.errors import RunEndedError
from agentscope_rx.events import Event, PreActingEvent, PreReasoningEvent
from agentscope_rx.memory import InMemoryMemory
from agentscope_rx.messages import ToolResultBlock, ToolUseBlock
from agentscope_rx.parts import PartState
from agentscope_rx.reactive import Flow, concat_map, defer
from agentscope_rx.testing import ScriptedModel
from agentscope_rx.testing.scripted_model import ScriptedRequest
from agentscope_rx.tools import ToolContext

TURNS = ("one", "two", "three", "four")
NOTE = "psst"
"""The input that is enqueued."""


class Answer(BaseModel):
    """The structured output of the last turn."""

    words: str


class Moments:
    """Counts the moments of this process; the process ends at one of them."""

    def __init__(self, kill_at: int | None, tell: int | None) -> None:
        self.count = 0
        self._kill_at = kill_at
        self._tell = tell

    def __call__(self, what: str = "") -> None:
        self.count += 1
        if self._tell is not None:
            os.write(self._tell, b".")
        if self.count == self._kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def watch(self) -> None:
        """Count the calls to the file system, and what is sent to servers and received from them, too."""
        for name in ("send", "recv", "recv_into"):
            setattr(socket.socket, name, self._counted(getattr(socket.socket, name)))
        for name in ("open", "write", "fsync", "replace", "rename", "link", "unlink", "truncate", "ftruncate"):
            setattr(os, name, self._counted(getattr(os, name)))

    def _counted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **options: Any) -> Any:
            result = function(*args, **options)
            if not args or args[0] != self._tell:
                self()
            return result

        return counted


class Record:
    """Lines in a file: they are there although the process is killed right after."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._write = os.write

    def add(self, line: str) -> None:
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._write(file, f"{line}\n".encode())
        os.close(file)

    def lines(self) -> list[str]:
        return self._path.read_text().splitlines() if self._path.exists() else []


class WatchedMemory(InMemoryMemory):
    """A memory whose writes are moments."""

    def __init__(self, at: Moments) -> None:
        super().__init__()
        self._at = at

    def add(self, messages: Any) -> Flow[None]:
        writing = super().add(messages)

        def write() -> Flow[None]:
            self._at("write")
            return writing.pipe(concat_map(lambda done: self._at("written")))

        return defer(write)


def use(id: str, tool: str, name: str) -> ToolUseBlock:
    return ToolUseBlock(id, tool, {"name": name})


def script(text: str, results: int, inner: bool) -> object:
    """The answer of the model, by the last turn and the number of results since."""
    if inner:
        calls = [use("i1", "act", f"{text}-inner"), use("i2", "ask", f"{text}-asked")]
        return [calls, f"The sub-agent did {text}."][results > 0]
    if text == "one":
        return [["Let me ", "see. ", use("a1", "act", "a1"), use("a2", "act", "a2")], use("a3", "act", "a3"), "Seen."][
            {0: 0, 2: 1}.get(results, 2)
        ]
    if text == "two":
        sub = ToolUseBlock("b2", "call_sub", {"message": "two"})
        calls = [use("b1", "ask", "b1"), sub, use("b3", "put", "b3"), use("b4", "count", "b4")]
        return [calls, "Two ", "is done."][results > 0]
    if text == "three":
        calls = [use("c1", "ask", "c1"), use("c2", "act", "c2"), use("c3", "count", "c3"), use("c4", "ask", "c4")]
        return [calls, "Three."][results > 0]
    if results == 0:
        return use("d1", "act", "d1")
    return ToolUseBlock(f"d{results + 1}", "generate_response", {} if results == 1 else {"words": "four"})


def asked(messages: Sequence[Msg]) -> tuple[str, int]:
    """The last turn, and the number of results since."""
    results = 0
    for message in reversed(messages):
        if message.role == "user" and message.text != NOTE:
            return message.text, results
        results += len(message.tool_results)
    raise AssertionError("no turn")


class Child:
    """One process."""

    def __init__(self, session: Session, folder: Path, at: Moments) -> None:
        self.session = session
        # a server has the sessions of all scripts
        self.key = f"k-{sha256(str(folder).encode()).hexdigest()[:12]}"
        self.effects = Record(folder / "effects")
        self.told = Record(folder / "told")
        self.at = at
        self.agent = self._agent(inner=False)

    def _agent(self, *, inner: bool) -> ReActAgent:
        def step(request: ScriptedRequest) -> object:
            self.at("model")
            return script(*asked(request.messages), inner)

        def effect(name: str) -> str:
            self.at("before effect")
            self.effects.add(name)
            self.at("after effect")
            return f"did {name}"

        @tool
        async def act(name: str) -> str:
            """Have an effect."""
            return effect(name)

        @tool(requires_approval=True)
        async def ask(name: str) -> str:
            """Have an effect, once approved."""
            return effect(name)

        @tool(idempotent=True)
        async def put(name: str) -> str:
            """Have an effect once, however often it is called."""
            return f"did {name}" if name in self.effects.lines() else effect(name)

        @tool(read_only=True)
        async def count(name: str, context: ToolContext) -> str:
            """Count the calls in this conversation."""
            parts = context.parts
            assert parts is not None
            before = parts.get("count")
            self.at("before a change")
            counted = 1 if before is None else int(str(before.state)) + 1
            assert parts.swap("count", before, PartState(1, counted))
            self.at("after a change")
            return f"counted {counted}"

        tools: list[object] = [act, ask, put, count]
        if not inner:
            sub = self._agent(inner=True)
            tools.append(sub.as_tool(name="call_sub", memory=lambda: WatchedMemory(self.at)))
        name = "Sub" if inner else "Main"
        return ReActAgent(name, ScriptedModel(step, repeat=True), tools=tools, memory=WatchedMemory(self.at))

    async def play(self) -> list[dict[str, Any]]:
        """What is left of the script; gives the messages of the conversation."""
        agent = self.agent
        # in half of the scripts a process takes over the lease of the killed one
        lease = "queue" if int(self.key[-1], 16) % 2 else None
        await agent.bind(self.session, self.key, checkpoint="stage", lease=lease)
        texts = [message.text for message in await agent.memory.get()]
        if agent.conversation().unfinished is not None or await agent.pending_calls():
            self.told.add("resumed")
            await self._settle(await self._run(None))
        for turn in TURNS:
            if turn not in texts:
                await self._settle(await self._run(turn))
        return [message.to_dict() for message in await agent.memory.get()]

    async def _run(self, given: Any) -> Msg:
        output = Answer if given == "four" else None
        last: Event | None = None
        async for event in self.agent.stream(given, output=output):
            self.at("event")
            await self._react(event)
            last = event
        return last.message

    async def _react(self, event: Event) -> None:
        if isinstance(event, PreActingEvent) and event.tool_use.name == "ask":
            # its approval was saved before
            self.told.add(f"given {event.tool_use.input['name']}")
        if event.depth or not isinstance(event, (PreActingEvent, PreReasoningEvent)):
            return
        history = await self.agent.memory.get()
        texts = [message.text for message in history]
        if NOTE in texts and isinstance(event, PreReasoningEvent):
            # a round after a checkpoint with it
            self.told.add("kept the note")
        (run,) = self.agent.runs
        if "two" in texts and "three" not in texts and NOTE not in texts and not run.inbox.items:
            try:
                self.agent.enqueue(NOTE)
            except RunEndedError:
                return

    async def _settle(self, reply: Msg) -> None:
        while reply.pending_calls:
            call = reply.pending_calls[0]
            name = str(call.input["name"])
            if not call.in_doubt:
                self.told.add(f"asked {name}")
                reply = await self._run(Approve(call))
            elif name in self.effects.lines():
                self.told.add(f"doubt {name}")
                reply = await self._run(Msg.tool([ToolResultBlock(call.id, call.name, f"did {name}")]))
            else:
                self.told.add(f"doubt {name}")
                reply = await self._run(Approve(call))
