"""What the tests of the hub share: agents that say what they are told, and memories that take their time or fail."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from agentscope_rx import Agent, InMemoryMemory, Memory, Msg, MsgRole, ReActAgent
from agentscope_rx.memory import InMemoryMemory as Base
from agentscope_rx.reactive import Flow, then, throw, timer
from agentscope_rx.testing import ScriptedModel
from agentscope_rx.testing.scripted_model import Turn


def talker(name: str, *turns: Turn, memory: Memory | None = None, **options: object) -> ReActAgent:
    """An agent with these turns."""
    return ReActAgent(name, ScriptedModel(*turns), memory=InMemoryMemory() if memory is None else memory, **options)  # type: ignore[arg-type]


async def texts(agent: Agent, memory: Memory | None = None) -> list[str]:
    """What the agent remembers, as 'name: text'."""
    return [f"{each.name}: {each.text}" for each in await (agent.memory if memory is None else memory).get()]


class SlowMemory(Base):
    """Takes `seconds` for each write of messages of others."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def add(self, messages: Sequence[Msg], marks: Collection[str] = ()) -> Flow[None]:
        if all(message.role is not MsgRole.USER for message in messages):
            return super().add(messages, marks)
        return timer(self.seconds).pipe(then(lambda: super(SlowMemory, self).add(messages, marks)))


class BrokenMemory(Base):
    """Refuses messages that contain `word`."""

    def __init__(self, word: str = "") -> None:
        super().__init__()
        self.word = word

    def add(self, messages: Sequence[Msg], marks: Collection[str] = ()) -> Flow[None]:
        if any(self.word in message.text for message in messages):
            return throw(OSError(f"no space for {messages[0].text!r}"))
        return super().add(messages, marks)
