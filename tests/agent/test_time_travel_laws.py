"""Random programs of two agents that share conversations: each checkpoint is what was saved, and of no other one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from itertools import count
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from agentscope_rx import InMemoryMemory, Msg, ReActAgent
from agentscope_rx.errors import SessionConflictError, SessionServerError
from agentscope_rx.messages import ToolUseBlock
from agentscope_rx.reactive import Flow, defer, then, throw
from agentscope_rx.session import InMemorySession, Session
from agentscope_rx.testing import ScriptedModel, run_virtual
from tests.agent.parts import agent, remembered


class Lossy(InMemorySession):
    """The answer to the next save is lost: "before" it was done, or "after" that."""

    lost: str | None = None

    def save_all(self, key: str, values: Any, lists: Any = None, **options: Any) -> Flow[str | None]:
        def save() -> Flow[str | None]:
            lost, self.lost = self.lost, None
            fails = throw(SessionServerError(key, "here", "cut", retryable=True, unsure=True))
            saving = super(Lossy, self).save_all(key, values, lists, **options)
            return fails if lost == "before" else saving.pipe(then(lambda: fails)) if lost == "after" else saving

        return defer(save)


def new_agent() -> ReActAgent:
    helper = ReActAgent("Helper", ScriptedModel("yes", repeat=True))
    made = agent(ScriptedModel("-"), tools=[helper.as_tool(max_conversations=2)], memory=InMemoryMemory())
    cast("Any", made).mood = 0
    made.register_state("mood")
    return made


def entries(values: Mapping[str, Any], lists: Mapping[str, Any]) -> str:
    """The conversation among the entries of a session, without the id of its checkpoint."""
    state = {name: value for name, value in (values.get("state") or {}).items() if name != "checkpoint"}
    histories = {name: items for name, items in lists.items() if items and name.startswith(("memory", "child:"))}
    return json.dumps([state, histories], sort_keys=True)


async def stored(session: Session, key: str) -> str:
    saved = await session.load_all(key)
    return entries(saved.values, saved.lists)


async def held_by(one: ReActAgent) -> str:
    scratch = InMemorySession()
    await one.save(scratch, "x")
    return await stored(scratch, "x")


class Program:
    """Two agents, the keys they are at, and by key what each checkpoint has saved."""

    def __init__(self) -> None:
        self.session = Lossy()
        self.agents = [new_agent(), new_agent()]
        self.keys = ["s", "s"]
        self.saved: dict[str, dict[int, str]] = {}
        self.numbers = count()

    async def step(self, step: str, who: int, which: int, lost: str | None) -> None:
        one, key, session, number = self.agents[who], self.keys[who], self.session, next(self.numbers)
        checkpoints = await session.history(key)
        at = checkpoints[which % len(checkpoints)] if checkpoints else None
        session.lost = lost if step in ("call", "save", "overwrite") else None
        if step == "call":
            calls = [
                ToolUseBlock(f"{number}/{n}", "call_helper", {"message": f"{number}/{n}"}) for n in range(which % 4)
            ]
            one.model = ScriptedModel(*([calls] if calls else []), f"{number}")
            await one.call(f"{number}?")
        elif step == "edit":
            await self.edit(one, which, number)
        elif step in ("save", "overwrite"):
            await one.save(session, key, overwrite=step == "overwrite")
            assert await stored(session, key) == await held_by(one)
        elif step in ("load", "bind"):
            if await (one.load if step == "load" else one.bind)(session, key):
                assert await stored(session, key) == await held_by(one)
        elif step == "go back" and at is not None:
            await one.load(session, key, at=at)
            assert await held_by(one) == self.saved[key][at.id]
        elif step == "fork" and at is not None:
            self.keys[who] = f"{number}"
            await session.fork(key, at=at, to=f"{number}")
            self.saved[f"{number}"] = {id: each for id, each in self.saved[key].items() if id <= at.id}
            assert await stored(session, f"{number}") == self.saved[key][at.id]
        elif step == "elsewhere":
            self.keys[who] = f"{number}"
            await one.save(session, f"{number}")
        elif step == "prune":
            await session.prune(key, keep=which % 4)
        elif step == "new":
            self.agents[who] = new_agent()

    async def edit(self, one: ReActAgent, which: int, number: int) -> None:
        messages = list(remembered(one))
        if which == 0:
            await one.memory.clear()
        elif which == 1 and messages:
            await one.memory.delete([messages[number % len(messages)].id])
        elif which == 2:
            cast("Any", one).mood = number
        else:
            await one.memory.add([Msg.user(f"{number}!")])

    async def look(self) -> None:
        """Note the checkpoint that was added; there is at most one."""
        for key in await self.session.keys():
            known = self.saved.setdefault(key, {})
            ids = [each.id for each in await self.session.history(key)]
            new = [id for id in ids if id not in known]
            assert ids == sorted(set(ids)) and new == ids[-1:][: len(new)]
            for id in new:
                known[id] = await stored(self.session, key)

    async def check(self) -> None:
        for key, known in self.saved.items():
            for each in await self.session.history(key):
                one = new_agent()
                await one.load(self.session, key, at=each)
                assert await held_by(one) == known[each.id]


STEPS = [
    *("call", "call", "call", "call", "edit", "edit", "edit", "save", "save", "save", "overwrite", "load", "bind"),
    *("bind", "go back", "go back", "go back", "fork", "elsewhere", "prune", "new"),
]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(STEPS),
            st.integers(0, 1),
            st.integers(0, 5),
            st.sampled_from([None, None, None, "before", "after"]),
        ),
        min_size=12,
        max_size=30,
    )
)
@settings(max_examples=40)
def test_no_checkpoint_is_lost_or_mixed_up(done: list[tuple[str, int, int, str | None]]):
    async def main() -> None:
        program = Program()
        for each in done:
            with suppress(SessionConflictError, SessionServerError):
                await program.step(*each)
            program.session.lost = None
            await program.look()
        await program.check()

    run_virtual(main())
