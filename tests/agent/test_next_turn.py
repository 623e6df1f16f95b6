"""No signal of a run comes before `subscribe` has returned; the conversation is taken, and can be left, before that."""

from __future__ import annotations

import asyncio
import contextvars

import pytest
import reactivex
from reactivex import operators as ops

from agentscope_rx import InMemoryMemory, JsonSession, ReActAgent, hook
from agentscope_rx.agent import GracefulShutdown
from agentscope_rx.errors import AgentBusyError, AgentShuttingDownError
from agentscope_rx.events import Event, PreCallEvent
from agentscope_rx.reactive import concat, defer, flow, just
from agentscope_rx.testing import ScriptedModel, call, run_virtual
from tests.agent.parts import agent, assert_whole, events_of, remembered


def friday(*turns, **options) -> ReActAgent:
    return agent(ScriptedModel(*(turns or ("fine",))), **options)


async def settled(someone: ReActAgent) -> None:
    await asyncio.sleep(1)
    await someone.idle()


SHAPES = {
    "stream": lambda it: it.stream("hi"),
    "call": lambda it: it.call("hi"),
    "text": lambda it: it.stream("hi").text(),
    "stock operators": lambda it: it.stream("hi").pipe(ops.map(str), ops.filter(bool)),
    "kernel operators": lambda it: just(1).pipe(ops.ignore_elements(), ops.concat(it.call("hi"))),
    "merged, not lifted": lambda it: reactivex.merge(it.stream("hi")),
    "deferred": lambda it: defer(lambda: it.call("hi")),
    "first of several": lambda it: concat(it.call("hi"), just(2)),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_nothing_is_signalled_while_it_is_subscribed_to(shape: str):
    async def main() -> None:
        it, seen = friday(), []
        source = SHAPES[shape](it)
        held: list[object] = []
        subscription = source.subscribe(lambda value: seen.append(bool(held)), on_completed=lambda: seen.append("end"))
        assert seen == [] and it.running
        held.append(subscription)
        await settled(it)
        assert seen[-1] == "end" and set(seen) == {True, "end"}

    run_virtual(main())


def test_a_callback_may_dispose_of_its_own_subscription():
    async def main() -> None:
        it, seen = friday(), []

        def first(event: Event) -> None:
            seen.append(event.type)
            subscription.dispose()

        subscription = it.stream("hi").subscribe(first)
        await settled(it)
        assert seen == ["pre_call"] and not it.running

    run_virtual(main())


def test_a_busy_conversation_is_refused_after_subscribe_returns():
    async def main() -> None:
        it, errors, replies = friday(), [], []
        it.call("first").subscribe(replies.append)
        it.call("second").subscribe(replies.append, errors.append)
        gone = it.call("third").subscribe(replies.append, errors.append)
        gone.dispose()
        assert errors == [] and len(it.runs) == 1
        with pytest.raises(AgentBusyError):
            await it.call("fourth")
        await settled(it)
        assert [type(error) for error in errors] == [AgentBusyError]
        assert [reply.text for reply in replies] == ["fine"]

    run_virtual(main())


def test_a_run_that_cannot_begin_says_so_later():
    class Odd(ReActAgent):
        def new_run(self, *args, **options):
            raise ZeroDivisionError("odd")

    async def main() -> None:
        shutdown = GracefulShutdown()
        errors: list[Exception] = []
        for it in (Odd("Odd", ScriptedModel()), friday(shutdown=shutdown)):
            if it.shutdown is not None:
                await shutdown.begin()
            it.call("hi").subscribe(on_error=errors.append)
            assert errors == []
            await settled(it)
            error = errors.pop()
            assert isinstance(error, (ZeroDivisionError, AgentShuttingDownError)) and not it.running

    run_virtual(main())


def test_disposed_of_before_it_has_begun_it_has_done_nothing(tmp_path):
    seen: list[Event] = []

    async def main() -> None:
        session = JsonSession(tmp_path)
        it = friday("fine", hooks=[hook(PreCallEvent)(seen.append)])
        await it.bind(session, "ann")
        it.call("first").subscribe(seen.append).dispose()
        # free at once, not after a clean-up
        assert not it.running
        assert await session.keys() == []
        assert (await it.call("second")).text == "fine"
        assert len(seen) == 1 and [message.text for message in remembered(it)] == ["second", "fine"]
        assert_whole(it)

    run_virtual(main())


def test_interrupted_before_it_has_begun_it_ends_by_a_reply():
    async def main() -> None:
        it, replies = friday(), []
        it.call("hi").subscribe(replies.append)
        assert it.interrupt("Never mind.")
        await settled(it)
        assert [reply.text for reply in replies] == ["Never mind."]
        assert it.model.requests == []

    run_virtual(main())


def test_context_variables_are_those_of_the_subscription():
    name = contextvars.ContextVar("name", default="nobody")
    seen: list[str] = []

    async def main() -> None:
        it = friday(hooks=[hook(PreCallEvent)(lambda event: seen.append(name.get()))])
        name.set("Ann")
        it.call("hi").subscribe(lambda reply: seen.append(name.get()))
        name.set("Ben")
        await settled(it)

    run_virtual(main())
    assert seen == ["Ann", "Ann"]


def test_await_for_and_run_are_as_ever_and_no_time_passes():
    async def main() -> None:
        loop, it = asyncio.get_running_loop(), friday("a", "b", "c")
        before = loop.time()
        assert (await it.call("1")).text == "a"
        assert (await it.call("2").as_task()).text == "b"
        assert (await events_of(it, "3"))[-1].type == "post_call"
        assert loop.time() == before

    run_virtual(main())
    assert friday().call("hi").run().text == "fine"


def test_what_is_subscribed_to_later_begins_at_once():
    async def main() -> None:
        first, second, order = friday("a"), friday("b"), []

        def turn() -> None:
            order.append("turn")
            if len(order) < 50:
                asyncio.get_running_loop().call_soon(turn)

        asyncio.get_running_loop().call_soon(turn)
        both = concat(first.stream("hi"), second.stream("hi"))
        both.subscribe(lambda event: order.append(event.type))
        await settled(first)
        end = order.index("post_call")
        assert order[end + 1] == "pre_call"

    run_virtual(main())


def test_a_sub_agent_begins_in_the_turn_of_its_call():
    begun: list[float] = []

    class Counting(ReActAgent):
        def route(self, run):
            begun.append(run.scope.work.outermost().subscribing)
            return super().route(run)

    async def main() -> None:
        helper = Counting("Helper", ScriptedModel("I help."))
        boss = ReActAgent("Boss", ScriptedModel(call("call_helper", message="?"), "done"), tools=[helper])
        assert (await boss.call("hi")).text == "done"

    run_virtual(main())
    assert begun == [False]


def test_a_loop_that_ends_before_the_run_begins_leaves_nothing():
    it = friday("fine", memory=InMemoryMemory())
    errors: list[Exception] = []

    async def main() -> None:
        it.call("hi").subscribe(on_error=errors.append)

    asyncio.run(main())
    assert not it.running and len(errors) <= 1
    assert it.call("again").run().text == "fine"


def test_from_a_plain_thread_it_goes_through_the_librarys_loop():
    it = friday()
    replies = flow(it.call("hi").pipe(ops.do_action(lambda reply: None))).run()
    assert replies.text == "fine"
