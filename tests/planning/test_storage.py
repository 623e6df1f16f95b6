"""Storages of historical plans: the same laws for each, over sessions of every kind."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentscope_rx.errors import SavedStateError, SessionValueError
from agentscope_rx.plan import Plan, SubTask
from agentscope_rx.planning import InMemoryPlanStorage, PlanStorage, SessionPlanStorage
from agentscope_rx.reactive import concat
from agentscope_rx.session import InMemorySession, JsonSession
from agentscope_rx.testing import run_virtual

FIRST = Plan("First", subtasks=(SubTask("a", state="done", outcome="ok", finished_at=2.0),), state="done")
SECOND = Plan("Second", state="abandoned", outcome="no time")


@pytest.fixture(params=["memory", "session", "files"])
def storage(request, tmp_path) -> PlanStorage:
    if request.param == "memory":
        return InMemoryPlanStorage()
    return SessionPlanStorage(InMemorySession() if request.param == "session" else JsonSession(tmp_path), "plans")


def test_plans_come_back_whole_and_the_oldest_first(storage: PlanStorage):
    async def main() -> None:
        assert await storage.plans() == ()
        for plan in (FIRST, SECOND):
            assert await storage.add(plan) is None
        assert await storage.plans() == (FIRST, SECOND)

    run_virtual(main())


def test_a_plan_that_comes_again_replaces_itself(storage: PlanStorage):
    async def main() -> None:
        later = replace(FIRST, outcome="better")
        await concat(*(storage.add(plan) for plan in (FIRST, SECOND, later)))
        assert set(await storage.plans()) == {later, SECOND}

    run_virtual(main())


def test_flows_are_cold(storage: PlanStorage):
    async def main() -> None:
        adding, reading = storage.add(FIRST), storage.plans()
        assert await reading == ()
        await adding
        await adding
        assert await reading == (FIRST,)

    run_virtual(main())


def test_what_is_no_plan_is_named():
    async def main() -> None:
        session = InMemorySession()
        storage = SessionPlanStorage(session, "plans")
        await storage.add(FIRST)
        await session.save_list("plans", "plans", [FIRST.to_dict(), {"name": ""}])
        with pytest.raises(SavedStateError, match="item 1 of entry 'plans'"):
            await storage.plans()
        with pytest.raises(SessionValueError):
            await storage.add(replace(SECOND, created_at=float("nan")))

    run_virtual(main())
