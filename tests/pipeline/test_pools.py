"""A pool with a pipeline: the conversations of its members are those of each user, and a user costs the same."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from agentscope_rx import ConversationPool, InMemorySession, ReActAgent
from agentscope_rx.pipeline import SequentialPipeline
from agentscope_rx.testing import Delay, ScriptedModel, run_virtual

USERS = 200


def recalling(name: str, times: int) -> ReActAgent:
    """An agent that answers with all that it was told by the user, after a while."""

    def answer(request: Any) -> Any:
        told = [each.text for each in request.messages if each.role == "user" or each.name not in (name, "system")]
        return [Delay(1), f"{name}[{' '.join(told)}]"]

    return ReActAgent(name, ScriptedModel(*[answer] * times))


def pipeline(times: int) -> SequentialPipeline:
    return SequentialPipeline([recalling("A", times), recalling("B", times)], "team")


def test_the_members_of_200_users_do_not_mix():
    async def main() -> None:
        session = InMemorySession()
        # fewer are kept than there are users: members' conversations are saved and loaded, too
        for number in (1, 2):
            async with ConversationPool(pipeline(2 * USERS), session, max_kept=50) as pool:
                users = [f"u{i}" for i in range(USERS)]
                replies = await asyncio.gather(*(pool.call(user, "1", f"{user}.{number}") for user in users))
                for user, reply in zip(users, replies, strict=True):
                    first, second = f"A[{user}.1]", f"A[{user}.1 {user}.2]"
                    assert reply.text == (f"B[{first}]" if number == 1 else f"B[{first} {second}]")
        assert len(asyncio.all_tasks()) == 1

    run_virtual(main())


def calls_of(users: int) -> int:
    """The Python calls of a first and a second message of so many users."""
    found = 0

    def profile(frame: object, event: str, argument: object) -> None:
        nonlocal found
        found += event == "call"

    async def main() -> None:
        async with ConversationPool(pipeline(2 * users), InMemorySession()) as pool:
            for text in ("one", "two"):
                await asyncio.gather(*(pool.call(f"u{i}", "1", text) for i in range(users)))

    sys.setprofile(profile)
    try:
        run_virtual(main())
    finally:
        sys.setprofile(None)
    return found


def test_a_user_costs_the_same_among_many():
    few, many = calls_of(20), calls_of(USERS)
    assert many < 10 * few * 1.1, (few, many)
