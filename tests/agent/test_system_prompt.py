"""`sys_prompt` as a function of the run."""

from __future__ import annotations

import asyncio

import pytest

from agentscope_rx import ReActAgent, RuntimeContext, hook
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.events import PreCallEvent
from agentscope_rx.reactive import empty, just, never, throw
from agentscope_rx.testing import ScriptedModel, run_virtual


async def slowly(run) -> str:
    await asyncio.sleep(5)
    return f"You are {run.name}."


async def in_two_steps(run):
    return just("no", f"You are {run.name}.")


FORMS = [
    "You are Friday.",
    lambda run: f"You are {run.name}.",
    slowly,
    lambda run: just("no", f"You are {run.name}."),
    in_two_steps,
    lambda run: run.history().pipe(lambda history: just("You are Friday.")),
]


@pytest.mark.parametrize("prompt", FORMS)
def test_the_model_is_told_what_it_gives(prompt):
    model = ScriptedModel("fine")
    run_virtual(ReActAgent("Friday", model, prompt).call("hi"))
    assert [message.text for message in model.requests[0].messages] == ["You are Friday.", "hi"]


@pytest.mark.parametrize("prompt", [None, " ", lambda run: None, lambda run: "", lambda run: empty()])
def test_nothing_is_no_message(prompt):
    model = ScriptedModel("fine")
    run_virtual(ReActAgent("Friday", model, prompt).call("hi"))
    assert [message.text for message in model.requests[0].messages] == ["hi"]


def test_it_is_asked_once_for_each_run_and_hooks_see_it():
    seen: list[str | None] = []

    @hook(PreCallEvent)
    def note(event: PreCallEvent):
        seen.append(event.system_message and event.system_message.text)

    friday = ReActAgent("Friday", ScriptedModel("a", "b"), lambda run: run.context.user_id, hooks=[note])
    for name in ("ann", "ben"):
        friday.call("hi", context=RuntimeContext(user_id=name)).run()
    assert seen == ["ann", "ben"]


async def failing(run) -> str:
    raise ZeroDivisionError


@pytest.mark.parametrize("prompt", [lambda run: 1 / 0, lambda run: throw(ZeroDivisionError()), failing])
def test_what_it_raises_fails_the_run(prompt):
    friday = ReActAgent("Friday", ScriptedModel("fine"), prompt)
    with pytest.raises(ZeroDivisionError):
        run_virtual(friday.call("hi"))
    assert not friday.running


def test_what_is_no_text_is_refused():
    for prompt in (lambda run: 42, lambda run: just(42)):
        with pytest.raises(ConfigurationError, match="sys_prompt must return a str, not 42"):
            run_virtual(ReActAgent("Friday", ScriptedModel(), prompt).call("hi"))  # pyright: ignore
    for wrong in (42, lambda: "x", lambda run, more: "x"):
        with pytest.raises(ConfigurationError, match="sys_prompt"):
            ReActAgent("Friday", ScriptedModel(), wrong)  # pyright: ignore


def test_leaving_ends_what_it_waits_for():
    async def main() -> None:
        friday = ReActAgent("Friday", ScriptedModel(), lambda run: never())
        task = friday.call("hi").as_task()
        await asyncio.sleep(1)
        task.cancel()
        await friday.idle()
        assert not friday.running

    run_virtual(main())
