"""A hub and the rest of the engine: hooks, options, shared runs, checkpoints, leases, limits of memory."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest
from reactivex import Observable
from reactivex import operators as ops

from agentscope_rx import InMemorySession, JsonSession, MsgHub, StreamOptions, hook, tool
from agentscope_rx.errors import SessionStorageError
from agentscope_rx.events import Event, HubEvent
from agentscope_rx.hooks import around
from agentscope_rx.reactive import Flow, throw
from agentscope_rx.session import LeasePolicy
from agentscope_rx.testing import call, run_virtual
from tests.pipeline.hub.parts import talker, texts


@tool
async def pantry() -> str:
    """What there is."""
    return "rice"


def test_hooks_of_the_speaker_see_what_was_heard():
    seen: list[tuple[str, ...]] = []

    @hook(HubEvent, observe=True)
    def note(event: HubEvent) -> None:
        seen.append(event.heard_by)

    passed: list[str] = []

    def watched(source: Observable[Event]) -> Observable[Event]:
        return source.pipe(ops.do_action(lambda event: passed.append(event.type)))

    async def main() -> None:
        ann, bob = talker("Ann", "a1", hooks=[note, around("call", watched)]), talker("Bob")
        async with MsgHub([ann, bob]):
            await ann.call()

    run_virtual(main())
    assert seen == [("Bob",)]
    assert passed[-2:] == ["hub", "post_call"]


def test_the_events_are_in_shared_runs_and_selected_streams():
    async def main() -> None:
        ann, bob = talker("Ann", "a1", "a2"), talker("Bob")
        async with MsgHub([ann, bob]):
            run = ann.start()
            assert [each.type async for each in run.events()][-2:] == ["hub", "post_call"]
            assert (await run.result()).text == "a1"
            chosen = StreamOptions(incremental=False)
            assert [each.type async for each in ann.stream(options=chosen)][-2:] == ["hub", "post_call"]

    run_virtual(main())


@pytest.mark.parametrize("leased", [False, True])
def test_members_with_a_session_hear_between_their_runs(tmp_path: Path, leased: bool):
    async def main() -> None:
        session = JsonSession(tmp_path)
        lease = LeasePolicy() if leased else None
        cook = talker(
            "Cook", call("pantry"), "c1", "c2", tools=[pantry], session=session, session_key="cook", checkpoint="stage",
            lease=lease,
        )  # fmt: skip
        ann = talker("Ann", "a1", "a2", session=session, session_key="ann", lease=lease)
        async with MsgHub([cook, ann]):
            await cook.call("Dinner?")
            await ann.call()
            await cook.call()
            await ann.call()
        assert await texts(ann) == ["Cook: c1", "Ann: a1", "Cook: c2", "Ann: a2"]
        again = talker("Ann", "a3", session=session, session_key="ann", lease=lease)
        await again.call("And now?")
        assert (await texts(again))[:4] == await texts(ann)

    run_virtual(main())


class Full(InMemorySession):
    """Has no room."""

    def save_all(self, *given: object, **options: object) -> Flow[str]:  # type: ignore[override]
        return throw(SessionStorageError("k", "file", "no room"))


def test_a_reply_that_cannot_be_saved_is_not_heard():
    async def main() -> None:
        ann, bob = talker("Ann", "a1", session=Full(), session_key="ann"), talker("Bob")
        async with MsgHub([ann, bob]):
            with pytest.raises(SessionStorageError):
                await ann.call()
        assert await texts(bob) == []

    run_virtual(main())


def test_a_hub_that_was_left_is_forgotten():
    async def main() -> None:
        ann, bob = talker("Ann", "a1"), talker("Bob")
        hub = MsgHub([ann, bob])
        async with hub:
            await ann.call()
        left = weakref.ref(hub)
        del hub
        gc.collect()
        assert left() is None

    run_virtual(main())
