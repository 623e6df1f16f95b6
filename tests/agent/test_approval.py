"""Tools that need approval: the run ends, the caller answers each call, and what runs is what was approved."""

from __future__ import annotations

import asyncio

import pytest

from agentscope_rx import (
    Approve,
    GenerateReason,
    Hook,
    InMemoryMemory,
    Msg,
    Reject,
    Toolkit,
    ToolUseBlock,
    fold,
    tool,
)
from agentscope_rx.errors import InvalidInputError
from agentscope_rx.events import Event, MemoryEvent, PreActingEvent, ReasoningChunkEvent
from agentscope_rx.messages import ToolResultKind
from agentscope_rx.testing import run_virtual
from agentscope_rx.testing.scripted_model import ScriptedModel
from tests.agent.parts import agent, assert_whole, events_of, remembered, slow, weather

done: list[str] = []


@pytest.fixture(autouse=True)
def nothing_done():
    done.clear()


@tool(requires_approval=True)
async def delete(path: str) -> str:
    """Deletes a file."""
    await asyncio.sleep(1)
    done.append(path)
    return f"deleted {path}"


@tool(requires_approval=lambda arguments: arguments["amount"] > 100)
def pay(amount: int) -> str:
    """Pays."""
    done.append(f"{amount}")
    return f"paid {amount}"


def call(name: str, *, id: str, **arguments: object) -> ToolUseBlock:
    return ToolUseBlock(id, name, arguments)


def friday(*turns, tools=(delete, pay, weather), **options):
    return agent(ScriptedModel(*turns), tools=None, toolkit=Toolkit(tools, **options.pop("toolkit", {})), **options)


def results(of) -> dict[str, tuple[str | None, str]]:
    return {r.id: (r.kind, r.text) for message in remembered(of) for r in message.tool_results}


@pytest.mark.parametrize("answer", [Approve, Reject])
def test_an_answer_is_for_one_call_though_ids_repeat(answer):
    """The next call of that id was taken for the one that had been approved, and ran."""

    async def main() -> None:
        ask = [call("delete", id="call_0", path="a")], [call("delete", id="call_0", path="b")]
        someone = friday(*ask, "All done.")
        await someone.call("go")
        seen = await events_of(someone, answer("call_0"))
        reply = seen[-1].message
        assert reply.generate_reason is GenerateReason.APPROVAL_REQUIRED
        assert done == (["a"] if answer is Approve else [])
        (waiting,) = reply.pending_calls
        assert waiting.id != "call_0" and waiting.input == {"path": "b"}
        # one id from its first piece on
        chunks = [e.delta.id for e in seen if isinstance(e, ReasoningChunkEvent)]
        assert chunks == [waiting.id]
        assert (await someone.call(Reject(waiting))).text == "All done."
        assert len(results(someone)) == 2
        assert_whole(someone)

    run_virtual(main())


def test_a_call_that_needs_approval_waits_and_its_siblings_run():
    async def main() -> None:
        someone = friday(
            [call("weather", id="w", city="Rome"), call("delete", id="d", path="a")], "All done.", max_iters=3
        )
        seen = await events_of(someone, "go")
        reply = seen[-1].message
        assert reply.generate_reason is GenerateReason.APPROVAL_REQUIRED
        assert [c.id for c in reply.pending_calls] == ["d"]
        placeholder = reply.tool_results[0]
        assert (placeholder.id, placeholder.kind) == ("d", ToolResultKind.APPROVAL_REQUIRED)
        assert results(someone).keys() == {"w"} and done == []
        assert [e.tool_use.id for e in seen if isinstance(e, PreActingEvent)] == ["w"]
        folded = fold(seen)
        assert folded.message == reply and folded.history == tuple(remembered(someone))
        assert reply.id not in {m.id for m in remembered(someone)}

        reply = await someone.call(Approve(reply.pending_calls[0]))
        assert reply.text == "All done." and done == ["a"]
        assert results(someone)["d"] == (None, "deleted a")
        assert_whole(someone)

    run_virtual(main())


def test_a_rejected_call_does_not_run_and_the_model_is_told_why():
    async def main() -> None:
        someone = friday(call("delete", id="d", path="a"), "As you wish.")
        await someone.call("go")
        reply = await someone.call(Reject("d", "not on a Friday"))
        assert reply.text == "As you wish." and done == []
        assert results(someone)["d"] == (ToolResultKind.REJECTED, "Error: not on a Friday")
        assert_whole(someone)

    run_virtual(main())


def test_edited_arguments_are_what_runs_and_what_memory_says():
    async def main() -> None:
        someone = friday(call("delete", id="d", path="/"), "ok")
        await someone.call("go")
        seen = await events_of(someone, Approve("d", {"path": "/tmp/x"}))
        assert done == ["/tmp/x"]
        assert remembered(someone)[1].tool_calls[0].input == {"path": "/tmp/x"}
        assert [e.replaced[0] for e in seen if isinstance(e, MemoryEvent)] == [remembered(someone)[1]]
        assert_whole(someone)

    run_virtual(main())


def test_answers_come_one_by_one_in_any_order():
    async def main() -> None:
        someone = friday([call("delete", id=i, path=i) for i in "abc"], "ok")
        first = await someone.call("go")
        assert [c.id for c in first.pending_calls] == ["a", "b", "c"]
        second = await someone.call(Approve("b"))
        assert second.generate_reason is GenerateReason.APPROVAL_REQUIRED
        assert [c.id for c in second.pending_calls] == ["a", "c"] and done == ["b"]
        third = await someone.call([Reject("c", "no"), Approve("a")])
        assert third.text == "ok" and done == ["b", "a"]
        assert results(someone).keys() == {"a", "b", "c"}

    run_virtual(main())


def test_a_call_without_answers_asks_again_and_runs_nothing():
    async def main() -> None:
        someone = friday(call("delete", id="d", path="a"), "ok")
        first = await someone.call("go")
        again = await someone.call()
        assert again.generate_reason is GenerateReason.APPROVAL_REQUIRED and again.content == first.content
        assert done == []

    run_virtual(main())


def test_in_turn_the_calls_behind_one_that_waits_wait_too():
    async def main() -> None:
        someone = friday(
            [call("pay", id="1", amount=1), call("delete", id="2", path="a"), call("pay", id="3", amount=2)],
            "ok",
            toolkit={"parallel": False},
        )
        reply = await someone.call("go")
        assert done == ["1"] and [c.id for c in reply.pending_calls] == ["2", "3"]
        assert [r.kind for r in reply.tool_results] == ["approval_required", "suspended"]
        reply = await someone.call()
        assert done == ["1"] and [c.id for c in reply.pending_calls] == ["2", "3"]
        assert (await someone.call(Approve("2"))).generate_reason is GenerateReason.TOOL_SUSPENDED
        assert done == ["1", "a"]
        assert (await someone.call()).text == "ok"
        assert done == ["1", "a", "2"]

    run_virtual(main())


def test_an_answer_given_out_of_turn_is_kept_until_its_turn():
    async def main() -> None:
        someone = friday(
            [call("delete", id="1", path="x"), call("delete", id="2", path="y")], "ok", toolkit={"parallel": False}
        )
        await someone.call("go")
        reply = await someone.call(Approve("2"))
        assert done == [] and [c.id for c in reply.pending_calls] == ["1", "2"]
        assert (await someone.call(Approve("1"))).text == "ok"
        assert done == ["x", "y"]

    run_virtual(main())


@pytest.mark.parametrize("remember", ["tool", "arguments"])
def test_an_approval_is_remembered_if_asked(remember):
    async def main() -> None:
        someone = friday(
            call("delete", id="1", path="x"), "one", call("delete", id="2", path="x"), "two",
            call("delete", id="3", path="y"), "three",
        )  # fmt: skip
        await someone.call("go")
        assert (await someone.call(Approve("1", remember=remember))).text == "one"
        assert (await someone.call("again")).text == "two"
        other = await someone.call("the other")
        assert bool(other.pending_calls) == (remember == "arguments")
        assert done == (["x", "x"] if other.pending_calls else ["x", "x", "y"])

    run_virtual(main())


def test_a_rejection_is_remembered_if_asked():
    async def main() -> None:
        someone = friday(call("delete", id="1", path="x"), "one", call("delete", id="2", path="y"), "two")
        await someone.call("go")
        await someone.call(Reject("1", "never", remember="tool"))
        assert (await someone.call("again")).text == "two" and done == []
        assert results(someone)["2"] == (ToolResultKind.REJECTED, "Error: never")

    run_virtual(main())


def test_a_predicate_over_arguments_and_a_policy_decide():
    async def main() -> None:
        someone = friday([call("pay", id="a", amount=5), call("pay", id="b", amount=500)], "ok")
        reply = await someone.call("go")
        assert [c.id for c in reply.pending_calls] == ["b"] and done == ["5"]

        strict = friday(
            call("weather", id="w", city="Rome"), "ok", toolkit={"approval": lambda call: call.name == "weather"}
        )
        assert [c.id for c in (await strict.call("go")).pending_calls] == ["w"]

    run_virtual(main())


def test_what_a_hook_makes_of_a_call_needs_approval_as_well():
    class Raise(Hook):
        def on_event(self, event: Event):
            if isinstance(event, PreActingEvent) and event.tool_use.name == "pay":
                return event.replace(tool_use=event.tool_use.with_input({"amount": 1000}))
            return None

    async def main() -> None:
        someone = friday(call("pay", id="p", amount=1), "ok", hooks=(Raise(),))
        reply = await someone.call("go")
        assert [c.input for c in reply.pending_calls] == [{"amount": 1000}] and done == []
        assert (await someone.call(Approve("p"))).text == "ok"
        assert done == ["1000"]

    run_virtual(main())


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ([Approve("x")], "not pending"),
        ([Approve("d"), Reject("d")], "More than one"),
        ([Approve("d"), Approve("e"), Msg.user("and hurry up")], "no results yet"),
    ],
)
def test_answers_that_do_not_fit_are_refused_without_loss(given, text):
    async def main() -> None:
        someone = friday([call("delete", id="d", path="a"), call("delete", id="e", path="b")], "ok")
        await someone.call("go")
        before = list(remembered(someone))
        with pytest.raises(InvalidInputError, match=text):
            await someone.call(given)
        assert list(remembered(someone)) == before and done == []
        assert (await someone.call([Approve("d"), Approve("e")])).text == "ok"
        assert_whole(someone)

    run_virtual(main())


def test_other_input_passes_the_waiting_calls_by():
    async def main() -> None:
        someone = friday(call("delete", id="d", path="a"), "Never mind then.")
        await someone.call("go")
        seen = await events_of(someone, "forget it")
        assert seen[-1].message.text == "Never mind then." and done == []
        assert results(someone)["d"][0] is ToolResultKind.INTERRUPTED
        assert fold(seen).history == tuple(remembered(someone)[2:])
        with pytest.raises(InvalidInputError, match="not pending"):
            await someone.call(Approve("d"))
        assert_whole(someone)

    run_virtual(main())


def test_approvals_belong_to_their_conversation():
    async def main() -> None:
        someone = friday(
            call("delete", id="d", path="x"), call("delete", id="d", path="y"), "x is gone", "y stays",
            call("delete", id="e", path="z"),
        )  # fmt: skip
        one, two = InMemoryMemory(), InMemoryMemory()
        await someone.call("go", memory=one)
        await someone.call("go", memory=two)
        assert (await someone.call(Approve("d", remember="tool"), memory=one)).text == "x is gone"
        assert (await someone.call(Reject("d"), memory=two)).text == "y stays"
        assert done == ["x"]
        assert (await someone.call("more", memory=two)).pending_calls

    run_virtual(main())


def test_a_policy_that_fails_fails_the_run_and_runs_nothing():
    def policy(call):
        raise ZeroDivisionError

    async def main() -> None:
        someone = friday(call("delete", id="d", path="x"), toolkit={"approval": policy})
        with pytest.raises(Exception, match="delete"):
            await someone.call("go")
        assert done == []
        assert_whole(someone)

    run_virtual(main())


def test_invalid_edited_arguments_are_an_error_for_the_caller():
    async def main() -> None:
        someone = friday(call("delete", id="d", path="a"), "ok")
        await someone.call("go")
        with pytest.raises(InvalidInputError, match="did you mean 'path'"):
            await someone.call(Approve("d", {"paht": "b"}))
        assert [c.id for c in await someone.pending_calls()] == ["d"] and done == []
        assert (await someone.call(Approve("d", {"path": "b"}))).text == "ok" and done == ["b"]
        assert await someone.pending_calls() == ()

    run_virtual(main())


def test_an_empty_list_of_answers_runs_nothing():
    async def main() -> None:
        someone = friday(call("delete", id="d", path="a"), "ok", "and on")
        reply = await someone.call("go")
        with pytest.raises(InvalidInputError, match=r"\['d'\].*call\(\)"):
            await someone.call([Approve(c) for c in reply.pending_calls if c.name == "pay"])
        assert done == []
        assert (await someone.call([Approve(c) for c in reply.pending_calls])).text == "ok"
        # with nothing pending an empty list is no input
        assert (await someone.call([])).text == "and on"

    run_virtual(main())


def test_a_call_that_had_not_begun_is_told_from_one_that_had():
    async def main() -> None:
        someone = friday(
            [call("weather", id="w", city="Rome"), call("slow", id="1", seconds=9), call("slow", id="2", seconds=9)],
            tools=[weather, slow],
            toolkit={"parallel": False},
        )
        running = someone.call("go").as_task()
        await asyncio.sleep(1)
        someone.interrupt()
        await running
        texts = [text for _, text in results(someone).values()]
        assert "Sunny" in texts[0] and "effect is unknown" in texts[1] and "had no effect" in texts[2]

    run_virtual(main())


def test_an_answer_for_a_later_call_does_not_block_earlier_ones():
    """Given before, it was taken for one of this call's answers: what stood in between never ran."""

    async def main() -> None:
        calls = [
            call("delete", id="a", path="a"), call("weather", id="w", city="Rome"), call("delete", id="r", path="r")
        ]  # fmt: skip
        someone = friday(calls, "done", toolkit={"parallel": False})
        await someone.call("go")
        await someone.call(Approve("r"))
        await someone.call(Approve("a"))
        assert (await someone.call()).text == "done"

    run_virtual(main())
