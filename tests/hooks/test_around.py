"""`around`: where an operator stands, what it gets, in which order, in all its forms; and what is refused at once."""

from __future__ import annotations

from functools import partial

import pytest
import reactivex as rx
from hypothesis import given, settings
from hypothesis import strategies as st
from reactivex import Observable
from reactivex import operators as ops
from reactivex.disposable import Disposable

from agentscope_rx import Hook, Msg, ReActAgent, RuntimeContext
from agentscope_rx.agent import Tracer
from agentscope_rx.agent.user import UserAgent
from agentscope_rx.events import Event, MemoryEvent, PreActingEvent
from agentscope_rx.hooks import (
    AroundHook,
    CallRequest,
    ModelRequest,
    StageRequest,
    ToolRequest,
    around,
)
from agentscope_rx.messages import ToolResultBlock
from agentscope_rx.models.options import GenerateOptions
from agentscope_rx.models.response import ChatResponse
from agentscope_rx.reactive import (
    RetryPolicy,
    catch,
    concat,
    concat_map,
    flow,
    just,
    retry,
    then,
    throw,
    timeout,
)
from agentscope_rx.testing import Delay, ScriptedModel, call, run_virtual
from tests.agent.parts import agent, weather
from tests.hooks.around_parts import watch

KINDS = ["call", "reasoning", "acting", "summarizing", "model", "tool"]


def script() -> ScriptedModel:
    return ScriptedModel(call("weather", "c1", city="Rome"), ["Sun", "ny."])


def plain() -> list[str]:
    return watch(agent(script())).types


# --- what it gets ---------------------------------------------------------------------------------------------------


def test_each_kind_gets_its_flow_and_its_request():
    seen: dict[str, list[tuple[object, list[object]]]] = {}

    def noting(kind):
        def over(source, request):
            items: list[object] = []
            seen.setdefault(kind, []).append((request, items))
            return source.pipe(ops.do_action(items.append))

        return around(kind, over)

    options = GenerateOptions(temperature=0.5)
    friday = agent(script(), hooks=[noting(kind) for kind in KINDS], generate_options=options)
    context = RuntimeContext()
    watched = watch(friday, "Weather?", context=context)
    assert watched.types == plain() and watched.reply == "Sunny."

    ((request, events),) = seen["call"]
    assert isinstance(request, CallRequest)
    assert [message.text for message in request.input] == ["Weather?"] and request.answers == ()
    assert request.agent == "Friday" and request.run_id == watched.events[0].run_id
    assert request.context is context and request.path == (request.run_id,)
    assert [event.type for event in events] == watched.types

    assert "summarizing" not in seen
    rounds = [(request.stage, request.iteration) for request, _ in seen["reasoning"]]
    assert rounds == [("reasoning", 0), ("reasoning", 1)]
    ((request, events),) = seen["acting"]
    assert isinstance(request, StageRequest) and [each.id for each in request.calls] == ["c1"]
    assert all(isinstance(event, Event) for event in events)
    assert [event.type for event in events] == ["pre_acting", "acting_chunk", "post_acting"]

    request, responses = seen["model"][1]
    assert isinstance(request, ModelRequest) and (request.stage, request.iteration) == ("reasoning", 1)
    assert [message.role.value for message in request.messages] == ["system", "user", "assistant", "tool"]
    assert "weather" in [schema.name for schema in request.tools]
    assert request.model_name == "scripted" and request.options == options
    assert [block.text for response in responses for block in response.content] == ["Sun", "ny."]

    ((request, items),) = seen["tool"]
    assert isinstance(request, ToolRequest) and request.call.id == "c1" and request.schema.name == "weather"
    assert [type(item) for item in items] == [ToolResultBlock]


def test_the_summary_has_its_stage_and_its_model_call():
    seen: list[str] = []

    def note(source, request):
        seen.append(f"{type(request).__name__} {request.stage}")
        return source

    # a summary without words is asked for again, in a stage of its own
    model = ScriptedModel(call("weather", city="Rome"), call("weather", city="Oslo"), "At last.")
    watched = watch(agent(model, hooks=[around("summarizing", note), around("model", note)], max_iters=1))
    assert watched.reply == "At last."
    assert seen == [
        "ModelRequest reasoning",
        *["StageRequest summarizing", "ModelRequest summarizing"] * 2,
    ]


def test_requests_are_read_only():
    request = ModelRequest(stage="reasoning")
    with pytest.raises(AttributeError):
        request.model_name = "other"  # pyright: ignore[reportAttributeAccessIssue]
    assert request.context is not None and request.agent == ""


STOCK = {
    "do_action": ops.do_action(lambda item: None),
    "retry": ops.retry(2),
    "timeout": ops.timeout(60),
    "catch": ops.catch(lambda error, source: source),
    "finally_action": ops.finally_action(lambda: None),
    "map": ops.map(lambda item: item),
    "delay": ops.delay(1),
    "share": ops.share(),
    "materialize": lambda source: source.pipe(ops.materialize(), ops.dematerialize()),
    "buffer": lambda source: source.pipe(ops.buffer_with_count(3), ops.flat_map(rx.from_iterable)),
    "our retry": retry(RetryPolicy()),
    "our timeout": timeout(total=60),
    "our catch": catch(lambda error: throw(error)),
    "our concat_map": concat_map(lambda item: item),
    "flow": flow,
    "partial": partial(ops.do_action(lambda item: None)),
}


@pytest.mark.parametrize("kind", [*KINDS, "stage"])
@pytest.mark.parametrize("name", STOCK)
def test_stock_and_kernel_operators_fit_as_they_are(kind, name):
    model = ScriptedModel(call("weather", "c1", city="Rome"), ["Sun", "ny."])
    friday = agent(model, hooks=[around(kind, STOCK[name])], max_iters=1)
    watched = watch(friday)
    assert watched.error is None and watched.reply == "Sunny."
    assert watched.types == watch(agent(script(), max_iters=1)).types


# --- order ----------------------------------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from([-5, 1, 100, 100, 700]), max_size=6), st.sampled_from(KINDS))
def test_lower_priorities_stand_outside(priorities: list[int], kind: str):
    order: list[tuple[int, int]] = []

    def noted(number, priority):
        def over(source):
            return source.pipe(ops.do_action(on_completed=lambda: order.append((priority, number))))

        return around(kind, over, priority)

    hooks = [noted(number, priority) for number, priority in enumerate(priorities)]
    model = ScriptedModel(call("weather", city="Rome"), "Sunny.")
    assert watch(agent(model, hooks=hooks, max_iters=1)).reply == "Sunny."
    # completion comes from the inside: the reverse of priority and registration
    once = sorted(((priority, number) for number, priority in enumerate(priorities)), reverse=True)
    assert order == once * (2 if kind == "model" else 1)


def test_a_stage_operator_is_ordered_among_those_of_one_stage():
    order: list[str] = []

    def noted(name):
        return ops.do_action(on_completed=lambda: order.append(name))

    hooks = [around("reasoning", noted("b")), around("stage", noted("c")), around("stage", noted("a"), priority=1)]
    watch(agent(ScriptedModel("Hi."), hooks=hooks))
    assert order == ["c", "b", "a"]


# --- forms ----------------------------------------------------------------------------------------------------------


class Everything(Hook):
    """A hook with a method for each kind."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def around_call(self, source: Observable[Event], request: CallRequest) -> Observable[Event]:
        self.seen.append("call")
        return source

    def around_stage(self, source: Observable[Event], request: StageRequest) -> Observable[Event]:
        self.seen.append(f"stage {request.stage}")
        return source

    def around_reasoning(self, source: Observable[Event], request: StageRequest) -> Observable[Event]:
        self.seen.append("reasoning")
        return source

    def around_acting(self, source: Observable[Event]) -> Observable[Event]:
        self.seen.append("acting")
        return source

    def around_summarizing(self, source: Observable[Event]) -> Observable[Event]:
        self.seen.append("summarizing")
        return source

    def around_model(self, source: Observable[ChatResponse], request: ModelRequest) -> Observable[ChatResponse]:
        self.seen.append("model")
        return source

    def around_tool(self, source, request):
        self.seen.append(f"tool {request.call.name}")
        return source


ONE_RUN = [
    "call",
    *("stage reasoning", "reasoning", "model"),
    *("stage acting", "acting", "tool weather"),
    *("stage summarizing", "summarizing", "model"),
]


def test_a_class_has_a_method_for_each_kind():
    hook = Everything()
    assert hook.kinds == ()
    watch(agent(script(), hooks=[hook], max_iters=1))
    assert hook.seen == ONE_RUN


def test_methods_for_events_and_around_them_may_be_mixed():
    class Both(Hook):
        def __init__(self) -> None:
            self.seen: list[str] = []

        def on_pre_acting(self, event: PreActingEvent) -> None:
            self.seen.append(event.type)

        def around_tool(self, source):
            self.seen.append("tool")
            return source

    hook = Both()
    assert hook.kinds == (PreActingEvent,)
    watch(agent(script(), hooks=[hook]))
    assert hook.seen == ["pre_acting", "tool"]


def test_methods_of_an_agent_stand_around_its_flows():
    seen: list[str] = []

    class Own(ReActAgent):
        def around_model(self, source, request):
            seen.append(f"model of {self.name}")
            return source

        @around("tool", priority=10)
        def watched(self, source, request):
            seen.append(f"{request.call.name} of {self.name}")
            return source

        @around("acting")
        def alone(self, source):
            seen.append("acting")
            return source

    friday = Own("Friday", script(), tools=[weather])
    watch(friday)
    assert seen == ["model of Friday", "acting", "weather of Friday", "model of Friday"]
    assert [hook.name for hook in friday.hooks] == ["Own.watched", "Own.around_model", "Own.alone"]


def test_hooks_of_a_class_stand_around_its_flows():
    class Own(ReActAgent):
        class_hooks = (Everything(),)

    watch(Own("Friday", script(), tools=[weather], max_iters=1))
    assert Own.class_hooks[0].seen == ONE_RUN


def test_a_decorated_function_and_a_bound_method():
    class Guard:
        def __init__(self) -> None:
            self.seen = 0

        @around("model")
        def check(self, source, request):
            self.seen += 1
            return source

    @around("model", priority=5)
    def outer(source):
        """Does nothing."""
        return source

    guard = Guard()
    friday = agent(ScriptedModel("One.", "Two."), hooks=[guard.check, outer])
    assert outer.name == "outer" and outer.priority == 5 and outer.__doc__ == "Does nothing."
    assert [hook.name for hook in friday.hooks] == ["outer", "check"]
    watch(friday)
    assert guard.check in friday.hooks
    friday.hooks.remove(guard.check)
    watch(friday)
    assert guard.seen == 1


def test_a_change_is_in_force_from_the_next_run_on():
    seen: list[str] = []

    def adding(source, request):
        seen.append("outer")
        if added not in friday.hooks:
            friday.hooks.add(added)
        return source

    added = around("model", lambda source: (seen.append("added"), source)[1])
    friday = agent(ScriptedModel(call("weather", city="Rome"), "One.", "Two."), hooks=[around("model", adding)])
    watch(friday)
    assert seen == ["outer", "outer"]
    watch(friday)
    assert seen[2:] == ["outer", "added"]
    friday.hooks.remove(added)
    assert added not in friday.hooks


def test_tools_of_a_hook_with_operators_are_registered():
    class WithTool(Hook):
        def tools(self):
            return (weather,)

        def around_tool(self, source):
            return source

    assert "weather" in agent(ScriptedModel(), tools=None, hooks=[WithTool()]).toolkit


def test_where_there_is_none_there_is_no_operator():
    compiled = agent(ScriptedModel(), hooks=[around("tool", ops.retry(2))]).hooks.compiled
    assert compiled.around_tool is not None
    rest = (compiled.around_call, compiled.around_reasoning, compiled.around_acting, compiled.around_summarizing)
    assert (*rest, compiled.around_model) == (None,) * 5
    assert compiled.seen == frozenset()


def test_the_reprs_name_the_place():
    assert repr(around("model", ops.retry(2))) == "<hook around('model'), priority 100>"
    assert repr(AroundHook("tool", later_plain, 3)) == "<hook later_plain around tool, priority 3>"


def later_plain(source):
    return source


def test_a_sub_agent_has_its_own():
    seen: list[tuple[str, str]] = []

    @around("model")
    def noting(source, request):
        seen.append((request.agent, request.path[0]))
        return source

    inner = ReActAgent("Inner", ScriptedModel("Deep."), hooks=[noting])
    outer = ReActAgent("Outer", ScriptedModel(call("call_inner", message="?"), "Done."), tools=[inner])
    watched = watch(outer)
    assert watched.reply == "Done."
    assert seen == [("Inner", watched.events[0].run_id)]


def test_the_repr_of_a_hook_names_what_it_stands_around():
    class Both(Hook):
        def on_pre_acting(self, event):
            """Nothing."""

        def around_model(self, source):
            return source

        def around_tool(self, source):
            return source

    class Only(Hook):
        def around_call(self, source):
            return source

    assert repr(Both()) == "<hook Both on PreActingEvent and around model and tool, priority 100>"
    assert repr(Only()) == "<hook Only around call, priority 100>"


def test_a_tracer_is_a_hook_outside_of_all_others():
    order: list[str] = []

    class Spans(Tracer):
        def around_model(self, source):
            order.append("tracer")
            return source

    inner = around("model", lambda source: (order.append("first"), source)[1], priority=-100)
    tracer = Spans()
    friday = agent(ScriptedModel("Hi."), hooks=[inner], tracer=tracer)
    watch(friday)
    assert order == ["tracer", "first"] and tracer in friday.hooks and tracer.kinds == ()


def test_an_operator_that_ends_takes_its_source_with_it():
    """Completed by a custom operator, which never disposes of its source."""

    def forgetful(source):
        def subscribe(observer, scheduler=None):
            def on_next(event):
                observer.on_next(event)
                if event.type == "reasoning_chunk":
                    observer.on_completed()

            source.subscribe(on_next, observer.on_error, observer.on_completed, scheduler=scheduler)
            return Disposable()

        return rx.create(subscribe)

    model = ScriptedModel(["a", Delay(5), "late"])
    friday = agent(model, hooks=[around("reasoning", forgetful)])
    watched = watch(friday)
    assert "not completed" in str(watched.error) and watched.times[-1] == 0
    assert len(model.closed) == 1


def test_a_stage_of_a_subclass_may_write_before_its_operators():
    class Own(ReActAgent):
        def reasoning(self, run, *, sent_back=False):
            note = Msg.user("noted")
            wrote = run.remember((note,), MemoryEvent(source=run.source, added=(note,)))
            shown = wrote.pipe(then(lambda: just(run.unemitted[-1])))
            return concat(shown, super().reasoning(run, sent_back=sent_back))

    watched = watch(Own("Friday", ScriptedModel("Hi."), hooks=[around("reasoning", ops.retry(2))]))
    assert watched.reply == "Hi."


def test_a_user_agent_has_operators_around_its_calls():
    seen: list[str] = []

    @around("call")
    def note(source, request):
        return source.pipe(ops.do_action(lambda event: seen.append(event.type)))

    ann = UserAgent("Ann", lambda request: "Me.", hooks=[note])
    assert run_virtual(ann.call("Who?")).text == "Me."
    assert seen == ["pre_call", "post_call"]
