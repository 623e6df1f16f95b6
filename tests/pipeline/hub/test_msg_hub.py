"""`MsgHub`: who is in it, what is heard, and how it is entered and left."""

from __future__ import annotations

import asyncio

import pytest

from agentscope_rx import Agent, Approve, InMemoryMemory, JsonSession, Msg, MsgHub, ReActAgent, UserAgent, tool
from agentscope_rx.errors import ConfigurationError, InvalidInputError, RunInsideLoopError
from agentscope_rx.events import HubEvent, fold
from agentscope_rx.messages import GenerateReason, ThinkingBlock
from agentscope_rx.reactive import throw
from agentscope_rx.testing import Delay, ScriptedModel, call, run_virtual
from tests.pipeline.hub.parts import SlowMemory, talker, texts


@tool
async def pantry() -> str:
    """What there is."""
    return "rice"


@tool(requires_approval=True)
async def order(part: str) -> str:
    """Order a part."""
    return f"{part} is ordered"


@pytest.mark.spec("case 156")
def test_a_reply_is_heard_by_all_others_before_its_call_ends():
    async def main() -> None:
        ann, bob, cid = talker("Ann", "a1", "a2"), talker("Bob", "b1"), talker("Cid")
        async with MsgHub([ann, bob, cid], Msg.user("Go!", name="Host")) as hub:
            assert hub.participants == (ann, bob, cid)
            assert [await texts(each) for each in hub.participants] == [["Host: Go!"]] * 3
            await ann.call()
            assert await texts(cid) == ["Host: Go!", "Ann: a1"]
            await bob.call()
        # after the end nothing is heard
        await ann.call()
        assert await texts(cid) == ["Host: Go!", "Ann: a1", "Bob: b1"]
        assert await texts(ann) == ["Host: Go!", "Ann: a1", "Bob: b1", "Ann: a2"]
        request = bob.model.requests[0]
        assert [(m.name, m.role.value) for m in request.messages] == [("Host", "user"), ("Ann", "user")]

    run_virtual(main())


@pytest.mark.spec("case 156")
def test_participants_are_not_doubled():
    async def main() -> None:
        ann, bob = talker("Ann", "a1"), talker("Bob")
        hub = MsgHub([ann, ann, bob])
        async with hub:
            hub.add(bob)
            hub.add([ann, bob])
            assert hub.participants == (ann, bob)
            await ann.call()
        assert await texts(bob) == ["Ann: a1"]

    run_virtual(main())


@pytest.mark.spec("case 156", "case 157")
def test_without_auto_broadcast_the_program_passes_on():
    async def main() -> None:
        ann, bob = talker("Ann", "a1", "a2", "a3"), talker("Bob")
        async with MsgHub([ann, bob], auto_broadcast=False) as hub:
            first = await ann.call()
            second = await ann.call()
            assert await texts(bob) == []
            event = await hub.broadcast(second)
            assert (event.change, event.heard_by) == ("announced", ("Ann", "Bob"))
            assert await texts(bob) == ["Ann: a2"]
            hub.set_auto_broadcast(True)
            await ann.call()
        assert await texts(bob) == ["Ann: a2", "Ann: a3"]
        # the author has it already
        assert await texts(ann) == ["Ann: a1", "Ann: a2", "Ann: a3"]
        assert first.text == "a1"

    run_virtual(main())


@pytest.mark.spec("case 157", "W75", "D11")
def test_one_that_has_left_neither_hears_nor_is_heard():
    async def main() -> None:
        ann, bob, cid = talker("Ann", "a1", "a2", "a3"), talker("Bob", "b1"), talker("Cid", "c1", "c2")
        async with MsgHub([ann, bob]) as hub:
            await ann.call()
            hub.add(cid)
            await ann.call()
            assert hub.delete(bob)
            assert not hub.delete(bob)
            await bob.call()
            await cid.call()
        assert await texts(bob) == ["Ann: a1", "Ann: a2", "Bob: b1"]
        assert await texts(cid) == ["Ann: a2", "Cid: c1"]
        assert await texts(ann) == ["Ann: a1", "Ann: a2", "Cid: c1"]

    run_virtual(main())


@pytest.mark.spec("W75")
def test_a_call_in_progress_of_one_that_leaves_is_not_heard():
    async def main() -> None:
        ann, bob, cid = talker("Ann", [Delay(2), "a1"]), talker("Bob"), talker("Cid", [Delay(2), "c1"])
        async with MsgHub([ann, bob]) as hub:
            calls = [asyncio.ensure_future(agent.call().as_task()) for agent in (ann, cid)]
            await asyncio.sleep(1)
            hub.delete(ann)
            # and one that joins is heard, although its call had begun before
            hub.add(cid)
            await asyncio.gather(*calls)
        assert await texts(bob) == ["Cid: c1"]

    run_virtual(main())


@pytest.mark.spec("W75")
def test_one_that_leaves_does_not_hear_what_waits_for_it():
    async def main() -> None:
        ann, bob = talker("Ann", "a1"), talker("Bob", "b1")
        cid = talker("Cid", memory=SlowMemory(5))
        async with MsgHub([ann, bob, cid]) as hub:
            events: list[HubEvent] = []
            hub.events.subscribe(events.append)
            calls = [asyncio.ensure_future(agent.call().as_task()) for agent in (ann, bob)]
            await asyncio.sleep(1)
            hub.delete(cid)
            await asyncio.gather(*calls)
        # the first was being written
        assert await texts(cid) == ["Ann: a1"]
        said = [each for each in events if each.change == "said"]
        assert [each.heard_by for each in said] == [("Bob", "Cid"), ("Ann",)]

    run_virtual(main())


def test_a_late_member_hears_the_past_if_asked():
    async def main() -> None:
        ann, bob, cid, dan = talker("Ann", "a1", "a2"), talker("Bob", "b1"), talker("Cid"), talker("Dan")
        async with MsgHub([ann, bob], "Go!", capacity=2) as hub:
            await ann.call()
            await bob.call()
            await hub.add(cid, history=True)
            hub.add(dan)
            assert await texts(cid) == ["Ann: a1", "Bob: b1"]
            hub.delete(bob)
            await ann.call()
            # what it has heard before it left it does not hear again
            await hub.add(bob, history=True)
        assert await texts(bob) == ["user: Go!", "Ann: a1", "Bob: b1", "Ann: a2"]
        assert await texts(dan) == ["Ann: a2"]

    run_virtual(main())


def test_a_member_is_an_agent_with_a_memory():
    async def main() -> None:
        ann, bob = talker("Ann", "a1", "a2"), talker("Bob", "b1", "b2")
        room = InMemoryMemory()
        hub = MsgHub([ann])
        hub.add(bob, memory=room)
        async with hub:
            await ann.call()
            await bob.call()
            await bob.call(memory=room)
            assert hub.delete(bob) is False
            assert hub.delete(bob, memory=room) is True
        assert await texts(bob, room) == ["Ann: a1", "Bob: b2"]
        assert await texts(bob) == ["Bob: b1"]
        assert await texts(ann) == ["Ann: a1", "Bob: b2"]

    run_virtual(main())


def test_only_what_is_for_others_is_heard():
    async def main() -> None:
        cook = talker("Cook", [ThinkingBlock("hm"), call("pantry")], [ThinkingBlock("so"), "Risotto."], tools=[pantry])
        ann = talker("Ann")
        async with MsgHub([cook, ann]):
            await cook.call("What is there?")
        # neither what the caller has asked, nor thoughts, calls and results
        assert await texts(ann) == ["Cook: Risotto."]

    run_virtual(main())


def test_a_reply_that_waits_is_heard_when_it_is_complete():
    async def main() -> None:
        cook = talker("Cook", ["I order.", call("order", part="pump")], "It comes.", tools=[order])
        ann = talker("Ann")
        async with MsgHub([cook, ann]):
            reply = await cook.call("Go")
            assert reply.generate_reason is GenerateReason.APPROVAL_REQUIRED
            assert await texts(ann) == []
            await cook.call([Approve(each) for each in reply.pending_calls])
        assert await texts(ann) == ["Cook: It comes."]

    run_virtual(main())


def test_an_interrupted_reply_is_heard():
    async def main() -> None:
        ann, bob = talker("Ann", [Delay(5), "never"]), talker("Bob")
        async with MsgHub([ann, bob]):
            running = asyncio.ensure_future(ann.call().as_task())
            await asyncio.sleep(1)
            ann.interrupt("I must go.")
            await running
        (heard,) = await bob.memory.get()
        assert heard.text == "I must go."

    run_virtual(main())


def test_a_failed_call_is_not_heard():
    async def main() -> None:
        ann, bob = talker("Ann", ValueError("no")), talker("Bob")
        async with MsgHub([ann, bob]):
            with pytest.raises(ValueError, match="no"):
                await ann.call()
        assert await texts(bob) == []

    run_virtual(main())


def test_structured_replies_are_heard_with_their_value():
    async def main() -> None:
        ann = talker("Ann", call("generate_response", vote="Bob"))
        bob = talker("Bob")
        async with MsgHub([ann, bob]):
            reply = await ann.call("Vote!", output={"type": "object", "properties": {"vote": {"type": "string"}}})
        (heard,) = await bob.memory.get()
        assert heard.id == reply.id
        assert heard.structured() == {"vote": "Bob"}

    run_virtual(main())


def test_a_person_hears_and_is_heard():
    async def main() -> None:
        asked: list[list[str]] = []

        def answer(question: object) -> str:
            asked.append([message.text for message in question.messages])  # type: ignore[attr-defined]
            return "Yes."

        ann, eve = talker("Ann", "Lemons?"), UserAgent("Eve", answer)
        async with MsgHub([ann, eve], "Dinner!"):
            await eve.call(await ann.call())
        assert asked == [["Dinner!", "Lemons?"]]
        assert await texts(ann) == ["user: Dinner!", "Ann: Lemons?", "Eve: Yes."]
        assert await texts(eve) == ["user: Dinner!", "Ann: Lemons?", "Eve: Yes."]

    run_virtual(main())


def test_what_was_heard_is_not_doubled_as_input():
    async def main() -> None:
        ann, bob = talker("Ann", "a1", "a2"), talker("Bob", "b1")
        async with MsgHub([ann, bob]):
            await ann.call(await bob.call(await ann.call("Begin")))
        assert await texts(bob) == ["Ann: a1", "Bob: b1", "Ann: a2"]
        assert await texts(ann) == ["user: Begin", "Ann: a1", "Bob: b1", "Ann: a2"]

    run_virtual(main())


def test_what_was_heard_and_deleted_is_taken_as_input_again():
    async def main() -> None:
        ann, bob = talker("Ann", "a1"), talker("Bob", "b1")
        async with MsgHub([ann, bob]):
            said = await ann.call()
            await bob.memory.clear()
            await bob.call(said)
        assert await texts(bob) == ["Ann: a1", "Bob: b1"]

    run_virtual(main())


def test_members_of_two_hubs_hear_once():
    async def main() -> None:
        ann, bob, cid = talker("Ann", "a1"), talker("Bob"), talker("Cid")
        async with MsgHub([ann, bob, cid], name="one"), MsgHub([ann, bob], name="two"):
            events = [each async for each in ann.stream() if isinstance(each, HubEvent)]
        assert [(each.hub, each.heard_by) for each in events] == [("one", ("Bob", "Cid")), ("two", ("Bob",))]
        assert await texts(bob) == await texts(cid) == ["Ann: a1"]

    run_virtual(main())


def test_a_nested_hub_is_heard_by_its_members_only():
    async def main() -> None:
        ann, bob, cid = talker("Ann", "a1", "a2"), talker("Bob", "b1"), talker("Cid", "c1")
        async with MsgHub([ann, bob, cid], name="village") as village:
            village.set_auto_broadcast(False)
            async with MsgHub([ann, bob], "Night.", name="wolves"):
                await ann.call()
                await bob.call()
            village.set_auto_broadcast(True)
            await ann.call()
        assert await texts(cid) == ["Ann: a2"]
        assert await texts(bob) == ["user: Night.", "Ann: a1", "Bob: b1", "Ann: a2"]

    run_virtual(main())


def test_a_sub_agent_is_no_member():
    async def main() -> None:
        helper = talker("Helper", "h1")
        ann = talker("Ann", call("call_helper", message="?"), "a1", tools=[helper.as_tool()])
        bob = talker("Bob")
        async with MsgHub([ann, bob, helper]):
            await ann.call("Go")
        # the sub-agent's conversation is one of Ann's, and not the one that is in the hub
        assert await texts(bob) == ["Ann: a1"]

    run_virtual(main())


def test_it_is_entered_with_with_outside_of_a_loop():
    ann, bob = talker("Ann", "a1", "a2"), talker("Bob")
    cid = talker("Cid")
    with MsgHub([ann, bob], "Go!") as hub:
        ann.call().run()
        hub.add(cid, history=True)
        hub.broadcast("Stop!").run()
    ann.call().run()
    heard = ["user: Go!", "Ann: a1", "user: Stop!"]
    assert texts_now(bob) == texts_now(cid) == heard


def texts_now(agent: Agent) -> list[str]:
    return [f"{each.name}: {each.text}" for each in agent.memory.get().run()]


def test_it_stands_around_a_flow():
    async def main() -> None:
        ann, bob = talker("Ann", "a1", "a2"), talker("Bob")
        hub = MsgHub([ann, bob], "Go!")
        reply = await hub.run(ann.call())
        assert reply.text == "a1"
        with pytest.raises(ValueError, match="no"):
            await hub.run(lambda: throw(ValueError("no")))
        await ann.call()
        # entered twice: the announcement is one message
        assert await texts(bob) == ["user: Go!", "Ann: a1"]

    run_virtual(main())


def test_the_events_of_a_stream_fold_as_ever():
    async def main() -> None:
        ann, bob = talker("Ann", "a1"), talker("Bob")
        async with MsgHub([ann, bob]):
            events = [each async for each in ann.stream("hi")]
        assert [each.type for each in events][-2:] == ["hub", "post_call"]
        assert fold(events).message == events[-1].message  # type: ignore[attr-defined]
        assert (events[-2].agent, events[-2].run_id) == ("Ann", events[-1].run_id)

    run_virtual(main())


def test_what_was_heard_is_saved_with_the_next_run(tmp_path):
    async def main() -> None:
        session = JsonSession(tmp_path)
        ann = talker("Ann", "a1")
        bob = talker("Bob", "b1", session=session, session_key="bob")
        async with MsgHub([ann, bob]):
            await ann.call()
            await bob.call()
        again = talker("Bob", "b2", session=session, session_key="bob")
        await again.call("And?")
        assert await texts(again) == ["Ann: a1", "Bob: b1", "user: And?", "Bob: b2"]

    run_virtual(main())


def test_wrong_arguments_are_named():
    ann, bob = talker("Ann"), talker("Bob")
    with pytest.raises(ConfigurationError, match="at least one participant"):
        MsgHub([])
    with pytest.raises(ConfigurationError, match="participant of a MsgHub is an agent"):
        MsgHub([ann, "bob"])  # type: ignore[list-item]
    with pytest.raises(ConfigurationError, match="on_missed"):
        MsgHub([ann], on_missed="ignore")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="timeout"):
        MsgHub([ann], timeout=0)
    with pytest.raises(ConfigurationError, match="capacity"):
        MsgHub([ann], capacity=0)
    with pytest.raises(ConfigurationError, match="shares its memory"):
        MsgHub([ann, ReActAgent("Bob", ScriptedModel(), memory=ann.memory)])
    hub = MsgHub([ann, bob])
    with pytest.raises(InvalidInputError, match="at least one message"):
        hub.broadcast([])
    with pytest.raises(ConfigurationError, match="is not entered"):
        hub.broadcast("hi").run()


def test_it_is_entered_once_at_a_time():
    async def main() -> None:
        hub = MsgHub([talker("Ann")])
        async with hub:
            with pytest.raises(ConfigurationError, match="entered already"):
                await hub.enter()
            with pytest.raises(RunInsideLoopError), hub:
                pass
            assert hub.participants
        hub.exit()

    run_virtual(main())
