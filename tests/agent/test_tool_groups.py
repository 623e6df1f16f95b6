"""Groups of tools in an agent: what a run activates is its conversation's, whatever ends it, and is saved."""

from __future__ import annotations

import logging

import pytest

from agentscope_rx import InMemoryMemory, ReActAgent, Toolkit, tool
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.events import PreReasoningEvent
from agentscope_rx.hooks import Hook
from agentscope_rx.session import InMemorySession, JsonSession
from agentscope_rx.testing import HANG, ScriptedModel, call, run_virtual
from agentscope_rx.tools.groups import ToolGroup
from tests.agent.parts import agent, assert_whole

log = logging.getLogger(__name__)


@tool
def clock() -> str:
    """The time."""
    return "noon"


@tool
def browse(url: str) -> str:
    """Open a page."""
    return f"page {url}"


def kit() -> Toolkit:
    toolkit = Toolkit([clock])
    toolkit.create_tool_group("web", "Pages of the web", notes="Close what you open.")
    toolkit.register(browse, group="web")
    return toolkit


EQUIP = call("reset_equipped_tools", to_activate=["web"])
DROP = call("reset_equipped_tools", to_activate=[], to_deactivate=["web"])


class Seen(ScriptedModel):
    """Notes which tools it is told of in each round."""

    def __init__(self, *turns: object) -> None:
        super().__init__(*turns)  # pyright: ignore[reportArgumentType]
        self.told: list[list[str]] = []

    def do_stream(self, messages, tools, options):
        self.told.append([each.name for each in tools])
        return super().do_stream(messages, tools, options)


def friday(*turns: object, **options: object) -> tuple[ReActAgent, Seen]:
    model = Seen(*turns)
    return ReActAgent("Friday", model, toolkit=kit(), enable_meta_tool=True, **options), model  # pyright: ignore


BOTH = ["clock", "reset_equipped_tools"]
ALL = ["clock", "browse", "reset_equipped_tools"]


def test_tools_the_model_activates_are_there_in_the_next_round():
    bot, model = friday(EQUIP, call("browse", url="x"), "read", "again")
    assert bot.call("go").run().text == "read"
    assert model.told == [BOTH, ALL, ALL]
    assert [m.tool_results[0].text for m in bot.memory.messages if m.tool_results][1] == "page x"  # pyright: ignore
    bot.call("go on").run()
    assert model.told[-1] == ALL
    # the agent's toolkit is as it was
    assert bot.toolkit.active_groups == ()


def test_conversations_do_not_share_what_is_active():
    """field.md P11: tool groups crossed sessions."""
    bot, model = friday(EQUIP, "one", "two")
    mine, theirs = InMemoryMemory(), InMemoryMemory()
    bot.call("go", memory=mine).run()
    bot.call("go", memory=theirs).run()
    assert model.told == [BOTH, ALL, BOTH]
    assert bot.conversation(mine).active_groups == ("web",) and bot.conversation(theirs).active_groups is None


def test_runs_at_once_do_not_share_it_either():
    bot, model = friday(EQUIP, "one", "two")
    first, second = InMemoryMemory(), InMemoryMemory()

    async def both():
        one = bot.call("go", memory=first).as_task()
        await bot.call("go", memory=second)
        await one

    run_virtual(both())
    assert sorted(map(len, model.told)) == [2, 2, 3]


def test_deactivating_shows_in_the_next_round():
    bot, model = friday(EQUIP, DROP, "done")
    bot.call("go").run()
    assert model.told == [BOTH, ALL, BOTH]
    assert bot.conversation().active_groups is None, "as at the beginning"


@pytest.mark.parametrize("end", ["interrupt", "dispose", "fail"])
def test_what_was_activated_stays_whatever_ends_the_run(end):
    """The model has read that the group is active: memory says so."""
    bot, model = friday(EQUIP, HANG if end != "fail" else RuntimeError("down"), "next")

    async def main():
        task = bot.call("go").as_task()
        while len(model.told) < 2:
            await _tick()
        if end == "interrupt":
            bot.interrupt()
        elif end == "dispose":
            task.cancel()
        try:
            await task
        except BaseException as error:
            log.debug("ended by %r", error)
        await bot.idle()
        await bot.call("next")

    run_virtual(main())
    assert_whole(bot)
    assert model.told[-1] == ALL


async def _tick() -> None:
    import asyncio

    await asyncio.sleep(0.01)


@pytest.mark.spec("W60")
@pytest.mark.parametrize("durable", [False, True])
def test_active_groups_are_saved_with_the_conversation(durable, tmp_path):
    """A restore activates and deactivates."""
    session = JsonSession(tmp_path) if durable else InMemorySession()
    bot, _ = friday(EQUIP, "one")
    bot.bind(session, "s").run()
    bot.call("go").run()
    other, model = friday("two", DROP, "three")
    assert other.load(session, "s").run()
    other.call("go").run()
    assert model.told == [ALL]
    other.call("drop it").run()
    other.save(session, "s").run()
    third, seen = friday("four")
    third.toolkit.update_tool_groups(["web"], active=True)
    third.load(session, "s").run()
    third.call("go").run()
    assert seen.told == [BOTH]


def test_a_saved_group_that_is_gone_is_left_out():
    session = InMemorySession()
    bot, _ = friday(EQUIP, "one")
    bot.bind(session, "s").run()
    bot.call("go").run()
    plain = agent(ScriptedModel("hello"))
    assert plain.load(session, "s").run() and plain.call("hi").run().text == "hello"


def test_without_groups_a_run_uses_the_toolkit_itself():
    bot = agent(ScriptedModel("hello"))
    seen: list[object] = []

    class Look(Hook):
        def on_event(self, event):
            if isinstance(event, PreReasoningEvent):
                seen.extend(run.toolkit for run in bot.runs)

    bot = ReActAgent("Friday", ScriptedModel("hello"), tools=[clock], hooks=[Look()])
    bot.call("hi").run()
    assert seen == [bot.toolkit]


def test_a_hook_brings_groups_of_tools():
    class Web(Hook):
        def tool_groups(self):
            return {ToolGroup("web", "Pages of the web"): [browse]}

    model = Seen(EQUIP, call("browse", url="a"), "Done.")
    friday = ReActAgent("Friday", model, tools=[clock], enable_meta_tool=True)
    web = Web()
    friday.hooks.add(web)
    friday.call("Go.").run()
    assert [len(each) for each in model.told] == [2, 3, 3] and "browse" in model.told[1]
    with pytest.raises(ConfigurationError, match="There is a tool group 'web' already"):
        friday.hooks.add(Web())
    friday.hooks.remove(web)
    assert friday.toolkit.names == ("clock", "reset_equipped_tools") and not friday.toolkit.groups
