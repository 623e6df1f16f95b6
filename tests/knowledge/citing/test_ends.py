"""Every kind of end with knowledge, in virtual time: memory is whole, has no passage, and nothing goes on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from reactivex import operators as ops

from agentscope_rx import ReActAgent, UsageLimits, tool
from agentscope_rx.errors import EmptyKnowledgeError, KnowledgeError, KnowledgeTimeoutError
from agentscope_rx.events import ErrorEvent, RetrievalEvent, fold
from agentscope_rx.knowledge import KnowledgeBase, KnowledgeHook
from agentscope_rx.messages import GenerateReason
from agentscope_rx.reactive import Flow, throw, timer
from agentscope_rx.testing import Delay, ScriptedModel, call, collect_dropped, run_virtual
from tests.agent.parts import assert_whole, remembered
from tests.knowledge.citing.parts import Rewrites, Told, agent, events_of, knowledge_in, passage
from tests.knowledge.retrieval.parts import MemoryStore, TopicEmbedding


@tool
async def wait(seconds: float) -> str:
    """Waits."""
    await asyncio.sleep(seconds)
    return "waited"


def assert_clean(friday: ReActAgent) -> None:
    """Memory is whole, and has nothing of a passage."""
    assert_whole(friday)
    assert not any("<knowledge>" in message.text for message in remembered(friday))


def failing(query: str) -> Flow[Any]:
    return timer(1).pipe(ops.flat_map(lambda _: throw(KnowledgeError("the disk is away"))))


def retrieval_of(events: list[Any]) -> RetrievalEvent:
    (found,) = (each for each in events if isinstance(each, RetrievalEvent))
    return found


def test_a_failing_base_is_reported_and_the_run_goes_on():
    model = ScriptedModel("ok")
    friday = agent(model, knowledge=Told("A", before=failing))
    with collect_dropped() as dropped:
        events = events_of(friday)
    found = retrieval_of(events)
    assert found.error_text == "KnowledgeError: the disk is away" and found.elapsed == 1 and found.passages == ()
    assert [type(each) for each in dropped] == [KnowledgeError] and events[-1].type == "post_call"
    assert knowledge_in(model) == ""
    assert_clean(friday)


def test_a_base_without_documents_is_reported_once():
    typo = KnowledgeBase(MemoryStore(), TopicEmbedding(), name="typo")
    friday = agent(ScriptedModel("I do not know."), hooks=[KnowledgeHook(typo, rewrite=Rewrites("cat", "dog"))])
    with collect_dropped() as dropped:
        found = retrieval_of(events_of(friday))
    assert found.error_text.count("has no documents") == 1 and found.passages == ()
    assert [type(each) for each in dropped] == [EmptyKnowledgeError]


def test_a_failing_base_leaves_the_others():
    seen: list[Exception] = []
    model = ScriptedModel("ok")
    both = [Told("A", before=failing), Told("B", name="faq")]
    found = retrieval_of(events_of(agent(model, hooks=[KnowledgeHook(both, on_error=seen.append)])))
    assert [each.base for each in found.passages] == ["faq"] and "the disk is away" in found.error_text
    assert [str(each) for each in seen] == ["the disk is away"] and "\nB\n" in knowledge_in(model)


def test_a_failing_base_fails_the_run_if_it_is_to():
    friday = agent(ScriptedModel("ok"), hooks=[KnowledgeHook(Told("A", before=failing), on_error="fail")])
    seen: list[Any] = []
    with pytest.raises(KnowledgeError, match="the disk is away") as caught:
        run_virtual(friday.stream("?").pipe(ops.do_action(seen.append)))
    assert "KnowledgeHook" in "".join(caught.value.__notes__)
    assert isinstance(seen[-1], ErrorEvent) and fold(seen).error is seen[-1]
    assert_clean(friday)


def test_a_failing_function_for_errors_is_reported():
    def fail(error: Exception) -> None:
        raise ValueError("no")

    friday = agent(ScriptedModel("ok"), hooks=[KnowledgeHook(Told("A", before=failing), on_error=fail)])
    with collect_dropped() as dropped:
        run_virtual(friday.call("?"))
    assert [type(each) for each in dropped] == [KnowledgeError, ValueError]


def test_a_slow_base_is_left_out_and_closed():
    closed: list[str] = []
    slow = Told("A", before=lambda query: timer(60).pipe(ops.finally_action(lambda: closed.append(query))))
    seen: list[Exception] = []
    friday = agent(
        ScriptedModel("ok"), hooks=[KnowledgeHook([slow, Told("B", name="faq")], timeout=3, on_error=seen.append)]
    )
    found = retrieval_of(events_of(friday))
    assert found.elapsed == 3 and [each.base for each in found.passages] == ["faq"] and closed == ["What does it cost?"]
    assert [type(each) for each in seen] == [KnowledgeTimeoutError]
    assert_clean(friday)


@pytest.mark.parametrize("where", ["rewriting", "searching"])
@pytest.mark.parametrize("how", ["interrupt", "dispose"])
def test_a_run_ends_at_once_while_it_retrieves(where: str, how: str):
    closed: list[str] = []

    def slow(query: str) -> Flow[Any]:
        return timer(60).pipe(ops.finally_action(lambda: closed.append(query)))

    class SlowRewrites(Rewrites):
        def rewrite(self, question: str, history: Any) -> Flow[Any]:
            return slow(question)

    docs = Told("A", before=slow)
    hook = KnowledgeHook(docs, timeout=None, rewrite=SlowRewrites() if where == "rewriting" else None)

    async def main() -> None:
        friday = agent(ScriptedModel("ok", repeat=True), hooks=[hook])
        if how == "interrupt":
            handle = friday.start("?")
            await asyncio.sleep(1)
            handle.interrupt()
            assert (await handle.result()).generate_reason is GenerateReason.INTERRUPTED
        else:
            running = friday.stream("?").subscribe(lambda event: None)
            await asyncio.sleep(1)
            running.dispose()
            await asyncio.sleep(0)
        assert asyncio.get_running_loop().time() < 3 and closed == ["?"]
        assert_clean(friday)
        # the conversation goes on
        docs.before = lambda query: None
        hook._rewrite = None
        assert (await friday.call("again")).text == "ok"
        assert_clean(friday)

    run_virtual(main())


@pytest.mark.parametrize("seconds", [0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5])
def test_disposal_at_each_moment_leaves_memory_whole(seconds: float):
    docs = Told("A", before=lambda query: timer(1))
    waits = [call("wait", seconds=2), call("wait", seconds=2)]
    model = ScriptedModel(call("retrieve_knowledge", query="a"), *waits, "A [1].", *["ok"] * 4)

    async def main() -> None:
        friday = agent(model, knowledge=docs, knowledge_mode="both", tools=[wait])
        running = friday.stream("?").subscribe(lambda event: None)
        await asyncio.sleep(seconds)
        running.dispose()
        # the tool in progress has its time to clean up
        await asyncio.sleep(6)
        assert_clean(friday)
        await friday.call("again")
        assert_clean(friday)

    run_virtual(main())


def test_a_slow_subscriber_gets_every_event_in_order():
    async def main() -> None:
        friday = agent(ScriptedModel("A [1]."), knowledge=Told("A"))
        kinds: list[str] = []
        async for event in friday.stream("?"):
            await asyncio.sleep(1)
            kinds.append(event.type)
        assert [each for each in kinds if not each.endswith("_chunk")] == [
            *("pre_call", "retrieval", "pre_reasoning", "post_reasoning", "citation", "post_call")
        ]

    run_virtual(main())


@pytest.mark.parametrize("kind", ["retrieval", "citation"])
def test_a_throwing_subscriber_ends_its_run_only(kind: str):
    async def main() -> None:
        friday = agent(ScriptedModel("A [1].", repeat=True), knowledge=Told("A"))

        def throw_at(event: Any) -> None:
            if event.type == kind:
                raise ValueError("no")

        with collect_dropped():
            friday.stream("?").subscribe(throw_at)
            await asyncio.sleep(1)
        assert_clean(friday)
        assert (await friday.call("again")).text == "A [1]."
        assert_clean(friday)

    run_virtual(main())


def test_a_base_that_answers_wrongly_fails_nothing():
    class Broken(Told):
        def retrieve(self, query: Any, limit: int = 5, **options: Any) -> Any:
            raise TypeError("a fault of code")

    seen: list[Exception] = []
    friday = agent(ScriptedModel("ok"), hooks=[KnowledgeHook(Broken(), on_error=seen.append)])
    found = retrieval_of(events_of(friday))
    assert "a fault of code" in found.error_text and [type(each) for each in seen] == [TypeError]


def test_the_summary_at_a_deadline_waits_for_no_base():
    docs = Told("A", before=lambda query: timer(60))
    limits = UsageLimits(deadline=30, summary_reserve=5, on_limit="summary")
    friday = agent(ScriptedModel("so far"), limits=limits, hooks=[KnowledgeHook(docs, timeout=None)])
    reply = run_virtual(friday.call("?"))
    assert reply.text == "so far" and reply.generate_reason is GenerateReason.LIMIT_REACHED
    assert docs.asked == ["?"]
    assert_clean(friday)


def test_the_state_of_ended_runs_is_given_up():
    hook = KnowledgeHook(Told("A", before=lambda query: failing(query) if query == "fail" else None), on_error="fail")
    friday = agent(ScriptedModel("ok", repeat=True), hooks=[hook])
    run_virtual(friday.call("?"))
    with pytest.raises(KnowledgeError):
        run_virtual(friday.call("fail"))
    assert not hook._calls


def test_the_state_of_a_disposed_run_is_given_up():
    hook = KnowledgeHook(Told("A"))
    friday = agent(ScriptedModel([Delay(60), "ok"]), hooks=[hook])

    async def main() -> None:
        running = friday.stream("?").subscribe(lambda event: None)
        await asyncio.sleep(1)
        assert hook._calls
        running.dispose()
        await friday.idle()
        assert not hook._calls

    run_virtual(main())


def test_passages_without_room_are_given_up():
    hook = KnowledgeHook(Told(find=lambda query: [passage(f"{query} " * 100, document=query)]), max_characters=1_000)
    friday = agent(ScriptedModel(*[call("wait", seconds=2)] * 20, "ok"), hooks=[hook], tools=[wait], max_iters=30)

    async def main() -> None:
        handle = friday.start("question")
        for number in range(15):
            await asyncio.sleep(2)
            handle.enqueue(f"question {number}")
            (kept,) = (each.shown for each in hook._calls.values())
            assert 1 <= len(kept) <= 2
        await handle.result()

    run_virtual(main())
