"""Laws of a hub: a small model says who must have heard what, and memories and events are compared with it.

Members join, leave, speak one by one and at once, fail, are interrupted and disposed of, take their time to hear or
refuse, at random moments of virtual time. All times differ, so that the order of what happens is known.
"""

from __future__ import annotations

import asyncio
import heapq
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx import Msg, MsgHub, ReActAgent
from agentscope_rx.events import HubEvent
from agentscope_rx.reactive import Flow, throw
from agentscope_rx.testing import Delay, collect_dropped, run_virtual
from tests.pipeline.hub.parts import SlowMemory, talker, texts

HEARS_IN = [0.0, 0.0, 0.7013, 2.3307]
"""How long the members take to hear a message."""
REFUSED = "refused by 1"
"""A text that member 1 does not take."""


@dataclass(frozen=True)
class Speak:
    who: int
    seconds: int
    end: str = "said"


@dataclass(frozen=True)
class Act:
    """ "add", "delete", "interrupt", "dispose" of one member; "broadcast", "quiet", "aloud" of the program."""

    what: str
    who: int = 0


WHO = st.integers(0, len(HEARS_IN) - 1)
SPEAKS = st.builds(Speak, WHO, st.integers(0, 4), st.sampled_from(["said", "said", "said", "fails", "refused"]))
ACTS = st.builds(Act, st.sampled_from(["add", "delete", "interrupt", "dispose"]), WHO)
OF_ALL = st.builds(Act, st.sampled_from(["broadcast", "quiet", "aloud", "aloud"]))
PROGRAMS = st.lists(st.tuples(st.integers(0, 2), SPEAKS | SPEAKS | ACTS | OF_ALL), max_size=14)


def text_of(number: int, end: str) -> str:
    return f"t{number} {REFUSED}" if end == "refused" else f"t{number}"


def takes(who: int, text: str) -> float:
    """How long the member takes to hear this text: a later one may be the faster one."""
    return HEARS_IN[who] * (0.31 if int(text[1:].split()[0]) % 2 else 1.0)


# --- the model --------------------------------------------------------------------------------------------------------


@dataclass
class Model:
    """Each member has a line; one message at a time is heard; one that has left hears nothing more."""

    now: float = 0.0
    aloud: bool = True
    members: dict[int, int] = field(default_factory=dict)  # who -> when it has joined, as a number
    said: list[tuple[str, list[int], list[int]]] = field(default_factory=list)
    heard: list[list[str]] = field(default_factory=lambda: [[] for _ in HEARS_IN])
    speaking: dict[int, int] = field(default_factory=dict)
    """who -> its call, until the reply is there; and those whose reply is on its way."""
    telling: set[int] = field(default_factory=set)
    lines: list[list[Callable[[], float]]] = field(default_factory=lambda: [[] for _ in HEARS_IN])
    agenda: list[tuple[float, int, Callable[[], object]]] = field(default_factory=list)
    numbers: count[int] = field(default_factory=count)

    def at(self, time: float, call: Callable[[], object]) -> None:
        heapq.heappush(self.agenda, (time, next(self.numbers), call))

    def until(self, time: float) -> None:
        while self.agenda and self.agenda[0][0] < time:
            self.now, _, call = heapq.heappop(self.agenda)
            call()
        self.now = time

    def busy(self, who: int) -> bool:
        return who in self.speaking or who in self.telling

    def tell(self, who: int | None, text: str) -> None:
        if who is not None and not (self.aloud and who in self.members):
            return
        entry: tuple[str, list[int], list[int]] = (text, [], [])
        self.said.append(entry)
        listeners = [(each, since) for each, since in self.members.items() if each != who]
        left = {each for each, _ in listeners}
        if who is not None and left:
            self.telling.add(who)
        for each, since in listeners:
            self.enter(each, since, entry, who, left)

    def enter(self, each: int, since: int, entry: tuple[str, list[int], list[int]], who: int | None, left: set[int]):
        text, heard, missed = entry

        def begin() -> float:
            if self.members.get(each) != since:
                return 0.0
            return takes(each, text) if not (each == 1 and REFUSED in text) else -1.0

        def turn() -> None:
            seconds = begin()
            present = self.members.get(each) == since
            self.at(self.now + max(0.0, seconds), lambda: end(present and seconds >= 0, present and seconds < 0))

        def end(hears: bool, misses: bool) -> None:
            if hears:
                heard.append(each)
                self.heard[each].append(text)
            if misses:
                missed.append(each)
            left.discard(each)
            if not left and who is not None:
                self.telling.discard(who)
            line = self.lines[each]
            line.pop(0)
            if line:
                line[0]()

        self.lines[each].append(turn)  # type: ignore[arg-type]
        if len(self.lines[each]) == 1:
            turn()

    def play(self, number: int, step: Speak | Act) -> None:
        who = step.who
        if isinstance(step, Speak):
            if self.busy(who):
                return
            self.speaking[who] = number

            def reply() -> None:
                if self.speaking.get(who) == number:
                    del self.speaking[who]
                    if step.end != "fails":
                        self.tell(who, text_of(number, step.end))

            self.at(self.now + step.seconds + 0.0107 * (number + 1), reply)
        elif step.what == "add":
            self.members.setdefault(who, next(self.numbers))
        elif step.what == "delete":
            self.members.pop(who, None)
        elif step.what == "broadcast":
            self.tell(None, f"t{number}")
        elif step.what in ("quiet", "aloud"):
            self.aloud = step.what == "aloud"
        elif who in self.speaking:
            cut = self.speaking.pop(who)
            if step.what == "interrupt":
                self.tell(who, f"t{cut} cut")


# --- the program ------------------------------------------------------------------------------------------------------


class Own(SlowMemory):
    """The memory of a member: takes its time, and refuses what member 1 refuses."""

    def __init__(self, who: int) -> None:
        super().__init__(0.0)
        self.who = who

    def add(self, messages: Sequence[Msg], marks: Collection[str] = ()) -> Flow[None]:
        for message in messages:
            if self.who == 1 and REFUSED in message.text and message.name != "1":
                return throw(OSError("refused"))
            self.seconds = takes(self.who, message.text)
        return super().add(messages, marks)


def members(program: Sequence[tuple[int, Speak | Act]]) -> list[ReActAgent]:
    turns: list[list[list[object]]] = [[] for _ in HEARS_IN]
    model = Model()
    time = 0.0
    # the turns that are played: those of calls that the model does not refuse
    for who in range(len(HEARS_IN)):
        model.members[who] = next(model.numbers)
    for number, (gap, step) in enumerate(program):
        time += gap + 1
        model.until(time)
        if isinstance(step, Speak) and not model.busy(step.who):
            end: object = ValueError("fails") if step.end == "fails" else text_of(number, step.end)
            turns[step.who].append([Delay(step.seconds + 0.0107 * (number + 1)), end])
        model.play(number, step)
    return [talker(str(who), *turns[who], memory=Own(who)) for who in range(len(HEARS_IN))]  # type: ignore[arg-type]


async def perform(
    program: Sequence[tuple[int, Speak | Act]], agents: list[ReActAgent], events: list[HubEvent], model: Model
) -> None:
    tasks: dict[int, asyncio.Task[Msg]] = {}
    every: list[asyncio.Task[Msg]] = []
    numbers: dict[int, int] = {}
    time = 0.0
    hub = MsgHub(agents, name="hub")
    hub.events.subscribe(events.append)
    async with hub:
        for number, (gap, step) in enumerate(program):
            await asyncio.sleep(gap + 1)
            time += gap + 1
            model.until(time)
            agent = agents[step.who]
            if isinstance(step, Speak):
                assert agent.running == model.busy(step.who)
                if not agent.running:
                    tasks[step.who] = agent.call().as_task()
                    every.append(tasks[step.who])
                    numbers[step.who] = number
            elif step.what == "add":
                hub.add(agent)
            elif step.what == "delete":
                hub.delete(agent)
            elif step.what == "broadcast":
                every.append(hub.broadcast(Msg.user(f"t{number}", name="all")).as_task())  # type: ignore[arg-type]
            elif step.what in ("quiet", "aloud"):
                hub.set_auto_broadcast(step.what == "aloud")
            elif step.what == "interrupt":
                agent.interrupt(Msg.assistant(f"t{numbers.get(step.who)} cut", agent.name))
            elif step.who in tasks:
                tasks[step.who].cancel()
            model.play(number, step)
        await asyncio.sleep(1000)
        model.until(time + 1000)
        await asyncio.gather(*every, return_exceptions=True)
        assert not any(agent.running for agent in agents)


@given(PROGRAMS)
def test_who_has_heard_what_is_what_the_model_says(program: list[tuple[int, Speak | Act]]):
    agents = members(program)
    events: list[HubEvent] = []
    model = Model()
    for who in range(len(HEARS_IN)):
        model.members[who] = next(model.numbers)
    with collect_dropped() as dropped:
        run_virtual(perform(program, agents, events, model))
    assert {type(each) for each in dropped} <= {OSError}

    async def remembered() -> list[list[str]]:
        return [
            [line.split(": ", 1)[1] for line in await texts(agent) if not line.startswith(f"{agent.name}: ")]
            for agent in agents
        ]

    assert run_virtual(remembered()) == model.heard
    said = [each for each in events if each.message is not None]
    assert [each.number for each in said] == list(range(len(said)))
    assert [each.message.text for each in said if each.message] == [text for text, _, _ in model.said]
    assert [(set(each.heard_by), set(each.missed_by)) for each in said] == [
        (set(map(str, heard)), set(map(str, missed))) for _, heard, missed in model.said
    ]


def test_100_members_and_100_messages_cost_as_many_deliveries():
    """Python calls for each delivery do not grow with the number of members, messages or deliveries."""

    def calls_of(size: int) -> float:
        agents = [talker(f"m{n}", *(["hi"] if n < size else [])) for n in range(size)]
        made = 0

        def profile(frame: object, event: str, arg: object) -> None:
            nonlocal made
            made += event == "call"

        async def main() -> None:
            async with MsgHub(agents):
                sys.setprofile(profile)
                try:
                    for agent in agents:
                        await agent.call()
                finally:
                    sys.setprofile(None)

        run_virtual(main())
        assert all(len(agent.memory.get().run()) == size for agent in agents)
        return made / (size * (size - 1))

    small, large = calls_of(20), calls_of(100)
    # the call itself counts in, too, which is shared by more deliveries
    assert large < small
    assert large < 150
