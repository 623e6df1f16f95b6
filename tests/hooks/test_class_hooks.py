"""Class-wide hooks: for agents of a class and its subclasses only (D10), built from then on."""

from __future__ import annotations

import threading

import pytest

from agentscope_rx import Hook, ReActAgent, hook, tool
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.events import PreReasoningEvent
from agentscope_rx.testing import ScriptedModel, run_virtual


class Hinting(Hook):
    """Adds its label as a hint."""

    kinds = (PreReasoningEvent,)

    def __init__(self, label: str, priority: int = 100) -> None:
        self.label = label
        self.priority = priority

    def on_event(self, event):
        return event.with_hint(self.label)


def family() -> tuple[type[ReActAgent], type[ReActAgent], type[ReActAgent]]:
    """A base and two siblings."""
    base = type("Base", (ReActAgent,), {})
    return base, type("One", (base,), {}), type("Other", (base,), {})


def hints(cls: type[ReActAgent], **options) -> list[str]:
    return hints_of(cls("Friday", ScriptedModel("Yes."), **options))


def hints_of(agent: ReActAgent) -> list[str]:
    run_virtual(agent.call("hi"))
    return [message.text for message in agent.model.requests[-1].messages[1:]]


@pytest.mark.spec("D10", "R10")
def test_a_class_hook_reaches_the_class_and_its_subclasses_only():
    """AgentScope Python keeps all class hooks in one dict of the base."""
    base, one, other = family()
    one.add_class_hook(Hinting("one"))
    assert (hints(base), hints(one), hints(other)) == ([], ["one"], [])
    assert hints(type("Child", (one,), {})) == ["one"]
    base.add_class_hook(Hinting("base"))
    assert (hints(base), hints(one), hints(other)) == (["base"], ["base", "one"], ["base"])
    assert hints(ReActAgent) == []


def test_hooks_go_by_priority_then_class_then_method_then_given():
    class Base(ReActAgent):
        class_hooks = (Hinting("base"),)

        def pre_reasoning(self, event: PreReasoningEvent):
            return event.with_hint("method")

    class Derived(Base):
        class_hooks = (Hinting("derived"), Hinting("late", 900))

    assert hints(Derived, hooks=[Hinting("given"), Hinting("early", 1)]) == [
        "early", "base", "derived", "method", "given", "late",
    ]  # fmt: skip


def test_a_diamond_takes_each_hook_once():
    shared = Hinting("shared")
    base = type("Base", (ReActAgent,), {"class_hooks": (shared,)})
    left = type("Left", (base,), {"class_hooks": (Hinting("left"), shared)})
    right = type("Right", (base,), {"class_hooks": [Hinting("right")]})
    assert hints(type("Both", (left, right), {})) == ["shared", "right", "left"]


def test_agents_that_are_there_keep_their_hooks():
    """An agent's hooks are compiled when it is built: no run changes its hooks half-way."""
    base, one, _ = family()
    removed = Hinting("removed")
    base.add_class_hook(removed)
    before = one("Friday", ScriptedModel("Yes."))
    base.add_class_hook(Hinting("added"))
    base.remove_class_hook(removed)
    assert hints_of(before) == ["removed"]
    assert hints(one) == ["added"]


def test_a_hook_is_removed_from_its_own_class_only():
    base, one, other = family()
    mine = Hinting("mine")
    base.add_class_hook(mine)
    with pytest.raises(ConfigurationError, match=r"One has no class hook .* It is a class hook of Base"):
        one.remove_class_hook(mine)
    with pytest.raises(ConfigurationError, match=r"Base has no class hook [^.]*Hinting[^.]*of its own\.$"):
        base.remove_class_hook(Hinting("mine"))
    base.remove_class_hook(mine)
    assert hints(other) == []


def test_adding_does_not_change_a_list_of_the_class_body():
    given = [Hinting("given")]
    mine = type("Mine", (ReActAgent,), {"class_hooks": given})
    mine.add_class_hook(Hinting("added"))
    assert len(given) == 1 and hints(mine) == ["given", "added"]


@pytest.mark.spec("case 47")
def test_class_hooks_may_bring_tools():
    @tool
    def clock() -> str:
        """Tells the time."""
        return "noon"

    class Bringing(Hook):
        def tools(self):
            return (clock,)

    mine = type("Mine", (ReActAgent,), {"class_hooks": (Bringing(),)})
    assert mine("Friday", ScriptedModel()).toolkit.names == ("clock",)


@pytest.mark.parametrize(
    ("wrong", "match"),
    [(Hinting("x"), r"Wrong\.class_hooks must be a tuple"), ((Hinting,), r"Wrong\.class_hooks holds .*Hinting")],
)
def test_invalid_class_hooks_are_errors_that_name_the_class(wrong, match):
    with pytest.raises(ConfigurationError, match=match):
        type("Wrong", (ReActAgent,), {"class_hooks": wrong})("Friday", ScriptedModel())


def test_only_hooks_can_be_added():
    with pytest.raises(ConfigurationError, match=r"ReActAgent.add_class_hook takes a Hook object"):
        ReActAgent.add_class_hook(lambda event: None)


def test_adding_and_removing_from_many_threads_loses_none():
    base, one, _ = family()
    kept: list[Hook] = []
    built: list[int] = []

    def work(number: int) -> None:
        for index in range(50):
            stays, goes = hook(PreReasoningEvent)(lambda event: None), hook(PreReasoningEvent)(lambda event: None)
            cls = base if index % 2 else one
            cls.add_class_hook(stays)
            cls.add_class_hook(goes)
            built.append(len(one("Friday", ScriptedModel()).hooks.all))
            cls.remove_class_hook(goes)
            kept.append(stays)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {id(each) for each in (*base.class_hooks, *one.class_hooks)} == {id(each) for each in kept}
    assert len(built) == 200 and min(built) > 0
