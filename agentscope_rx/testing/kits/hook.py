"""`check_hook`: the laws of a `Hook`, over events of your own or over those of a run with a tool call and a summary."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import TypeVar, cast

from reactivex import operators as ops

from agentscope_rx.agent import ReActAgent
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.events import (
    ActingChunkEvent,
    BackgroundEvent,
    ChunkEvent,
    CitationEvent,
    ContextEvent,
    ErrorEvent,
    Event,
    HubEvent,
    MemoryEvent,
    PlanEvent,
    PostObserveEvent,
    RetrievalEvent,
    RetryEvent,
)
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.hooks import CompiledHooks, Hook
from agentscope_rx.messages import Msg
from agentscope_rx.reactive import Flow, flow, from_callable, just
from agentscope_rx.testing.kits.probe import Probe
from agentscope_rx.testing.kits.publisher import apply_rules
from agentscope_rx.testing.kits.publisher_rules import Publisher
from agentscope_rx.testing.kits.rules import Kit, KitReport, SkippedRule, equal, quiet, require
from agentscope_rx.testing.record import DroppedErrors
from agentscope_rx.testing.scripted_model import ScriptedModel, call
from agentscope_rx.tools import tool

H = TypeVar("H", bound=Hook)

_OBSERVED = (
    BackgroundEvent,
    CitationEvent,
    ContextEvent,
    ErrorEvent,
    HubEvent,
    MemoryEvent,
    PlanEvent,
    PostObserveEvent,
    RetrievalEvent,
    RetryEvent,
)


def check_hook(
    hook: H | Callable[[], H],
    *,
    event: Event | Sequence[Event] | None = None,
    idle: Callable[[H], Awaitable[object]] | None = None,
    name: str | None = None,
) -> KitReport:
    """Check a hook. Give a class or a function instead of an object, and each rule gets a new hook.

    The rules are checked for each `event`; by default for those events of a sample run that the hook gets. A hook
    without `kinds`, such as one that only stands around parts of a run, is checked in runs only. If a hook has work in
    the background, `idle(hook)` waits for its end.
    """
    if not isinstance(hook, Hook):
        _check_maker(hook)
    made: list[H] = []

    def make() -> H:
        new = cast("H", hook if isinstance(hook, Hook) else hook())
        if not isinstance(new, Hook):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"The function for check_hook must return a new hook, not {new!r:.60}.")
        made.append(new)
        return new

    async def clean_up() -> None:
        done, made[:] = [*made], []
        for each in done:
            if idle is not None:
                await idle(each)

    one = make()
    kit = Kit(name or one.name, clean_up=clean_up)
    kit.check("definition", "it has a priority, kinds of events and a name", partial(_definition, one))
    events = kit.run(_sample()) if event is None else [event] if isinstance(event, Event) else list(event)
    seen = CompiledHooks([one]).seen
    taken = [each for each in events if type(each) in seen]
    if not taken and (event is not None or one.kinds != ()):
        kinds = ", ".join(sorted({type(each).__name__ for each in events}))
        raise ConfigurationError(f"{one!r} gets none of these events: {kinds}. Give the kit one: event=...")
    case = _Case(make, taken)
    for rule, law, check in LAWS:
        kit.check(rule, law, partial(check, case))
    for each in {type(each): each for each in taken}.values():
        prefix = f"{each.type} "
        apply_rules(kit, Publisher(lambda each=each: fired(make(), each), ahead=None), prefix)
    return kit.report()


def _check_maker(make: object) -> None:
    problem = ConfigurationError(
        f"check_hook takes a hook, or a function without parameters that returns a new one, not {make!r:.60}. Make a "
        "function of an event a hook by @hook(PreReasoningEvent)."
    )
    if not callable(make):
        raise problem
    try:
        inspect.signature(make).bind()
    except TypeError:
        raise problem from None
    except ValueError:
        # it has no signature, as some built-in types
        return


@dataclass(frozen=True, slots=True)
class _Case:
    make: Callable[[], Hook]
    events: list[Event]

    def needs_events(self) -> None:
        """Skip the rule for a hook that gets no events."""
        if not self.events:
            raise SkippedRule("it gets no events")


def fired(hook: Hook, event: Event) -> Flow[Event]:
    """The event as the hook leaves it, in the way that a run calls hooks."""
    hooks = CompiledHooks([hook], agent=event.agent)
    if isinstance(event, _OBSERVED):
        return hooks.observe(event)
    if isinstance(event, (ChunkEvent, ActingChunkEvent)):
        operator = hooks.chunks(type(event))
        return just(event) if operator is None else flow(operator(just(event)))
    return hooks.fire(event)


async def _outcome(hook: Hook, event: Event) -> list[Event]:
    return await fired(hook, event).pipe(ops.to_list())


async def _definition(hook: Hook, dropped: DroppedErrors) -> None:
    require(type(hook.priority) is int, f"its priority is {hook.priority!r}, no int")
    kinds = cast("object", hook.kinds)
    listed: tuple[object, ...] = cast("tuple[object, ...]", kinds) if isinstance(kinds, tuple) else (kinds,)
    typed = kinds is None or all(isinstance(kind, type) and issubclass(kind, Event) for kind in listed)
    require(typed, f"its kinds are {kinds!r:.100}, neither None nor a tuple of event classes")
    require(hook.name.strip(), "it has no name for errors")


async def _one_event(case: _Case, dropped: DroppedErrors) -> None:
    case.needs_events()
    hook = case.make()
    for event in case.events:
        found = await _outcome(hook, event)
        kinds = [type(each).__name__ for each in found]
        require(all(type(each) is type(event) for each in found), f"of a {type(event).__name__} it made {kinds}")
        if not isinstance(event, (ChunkEvent, ActingChunkEvent)):
            equal(len(found), 1, f"the number of events for a {type(event).__name__}")
        for each in found:
            # must have a JSON form, as subscribers may send it on
            each.to_json()


def _picture(event: Event) -> tuple[object, ...]:
    """What can be seen of an event, with the messages around it."""
    around: list[object] = []
    for field in ("messages", "history", "input", "hints"):
        found = cast("Sequence[Msg] | None", getattr(event, field, None))
        around.append(None if found is None else [message.to_json() for message in found])
    return (event.to_json(), *around)


async def _unchanged(case: _Case, dropped: DroppedErrors) -> None:
    case.needs_events()
    hook = case.make()
    for event in case.events:
        before = _picture(event)
        await _outcome(hook, event)
        equal(_picture(event), before, f"the {type(event).__name__} that it was given, afterwards,")


_RUNS = count(1)


def _of_run(event: Event, run: str) -> Event:
    return event.replace(source=replace(event.source, run_id=run, path=()))


def _plain(events: list[Event], run: str) -> object:
    """The events without what differs from run to run: its id, and ids and times of new messages."""

    def without(value: object) -> object:
        if isinstance(value, dict):
            items = cast("dict[str, object]", value).items()
            return {key: without(inner) for key, inner in items if key not in ("id", "timestamp", "message_id")}
        if isinstance(value, list):
            return [without(inner) for inner in cast("list[object]", value)]
        return value.replace(run, "run") if isinstance(value, str) else value

    return [without(event.to_dict()) for event in events]


async def _apart(case: _Case, dropped: DroppedErrors) -> None:
    case.needs_events()

    async def run(hook: Hook) -> object:
        """All events of a run, in their order."""
        name = f"run-{next(_RUNS)}"
        return [_plain(await _outcome(hook, _of_run(event, name)), name) for event in case.events]

    hook = case.make()
    alone = [await run(hook) for _ in range(2)]
    hook = case.make()
    together = list(await asyncio.gather(run(hook), run(hook)))
    equal(together, alone, "what it makes of two runs at the same time")


async def _run(case: _Case, dropped: DroppedErrors) -> None:
    hook = case.make()
    agents = [_agent(hook) for _ in range(3)]
    await agents[0].call("Weather?")
    await asyncio.gather(agents[1].call("Weather?"), agents[2].call("Weather?"))
    await agents[0].call("And now?")
    await quiet()
    for agent in agents:
        await _whole(agent)


async def _left(case: _Case, dropped: DroppedErrors) -> None:
    for at in range(1, 9):
        # at an event, and between events
        agent = _agent(case.make())
        await _whole(agent, Probe(act=lambda probe, at=at: len(probe.values) == at and probe.dispose()))
        agent = _agent(case.make())
        probe = Probe()
        timer = asyncio.get_running_loop().call_later(at * 0.4, probe.dispose)
        await _whole(agent, probe)
        timer.cancel()


async def _whole(agent: ReActAgent, probe: Probe | None = None) -> None:
    """Wait for the agent's run, with this subscriber if there is one; its memory has one result for each call."""
    if probe is not None:
        await probe.start(agent.stream("Weather?")).end()
        probe.verify()
    await agent.idle()
    memory = await agent.memory.get()
    calls = [call.id for message in memory for call in message.tool_calls]
    results = [result.id for message in memory for result in message.tool_results]
    equal(results, calls, "the results in memory after a run with the hook")


@tool
async def _look(city: str) -> str:
    """The weather of a city."""
    await asyncio.sleep(1)
    return f"Sunny in {city}"


def _agent(*hooks: Hook) -> ReActAgent:
    model = ScriptedModel(["I look.", call("_look", city="Paris")], ["It is ", "sunny."], repeat=True)
    return ReActAgent("tester", model, tools=[_look], hooks=list(hooks))


async def _sample() -> list[Event]:
    """The events of three runs: one with a call and an answer, one that is summarized, one that fails."""
    found: list[Event] = []

    class Collector(Hook):
        observe_only = True

        def on_event(self, event: Event) -> None:
            found.append(event)

    await _agent(Collector()).call("Weather?")
    busy = ReActAgent(
        "tester",
        ScriptedModel(call("_look", city="Paris"), "It was sunny."),
        tools=[_look],
        hooks=[Collector()],
        max_iters=1,
    )
    await busy.call("Weather?")
    broken = ReActAgent("tester", ScriptedModel(RuntimeError("broken")), hooks=[Collector()])
    failed = from_callable(lambda: broken.call("Weather?").as_task()).pipe(ops.materialize(), ops.last())
    await flow(failed)
    return found


LAWS: tuple[tuple[str, str, Callable[[_Case, DroppedErrors], Coroutine[object, object, None]]], ...] = (
    ("one event", "of each event it makes one of the same kind, with a JSON form; of a chunk any number", _one_event),
    ("unchanged", "it changes copies, never the event that it is given", _unchanged),
    ("apart", "two runs at the same time get what each alone gets", _apart),
    ("run", "runs with the hook end, one alone and two at the same time", _run),
    ("disposal", "a run that is left at any event leaves nothing, and memory is whole", _left),
)
