"""`MsgHub`: a group of agents, each of which hears what the others say.

    async with MsgHub([alice, bob, carol], announcement=Msg.user("Why is the sky blue?", name="Host")) as hub:
        await alice.call()              # bob and carol have observed her reply when the call completes
        await bob.call()                # he answers the question and what alice has said
        hub.delete(carol)               # from now on she hears nothing, and nothing of her is heard
        await hub.broadcast("One more minute.")

    alice's call    ...reply, saved --+-- bob observes ----+-- HubEvent, PostCallEvent|
                                      +-- carol observes --+

The messages of a hub are numbered when they are said. Every member hears them in the order of the numbers, each once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Literal, Self, TypeVar
from uuid import uuid4

from reactivex import Observable

from agentscope_rx.agent import Agent
from agentscope_rx.agent.hearing import Hearing
from agentscope_rx.agent.input import CallInput, check_kind, messages_of
from agentscope_rx.agent.observe import as_observed
from agentscope_rx.errors import ConfigurationError, InvalidInputError, UnheardMessageError
from agentscope_rx.events import Event, EventSource, HubEvent
from agentscope_rx.events.hub_event import HubChange
from agentscope_rx.memory import Memory
from agentscope_rx.messages import Msg
from agentscope_rx.models.checks import check_count
from agentscope_rx.pipeline.hub.delivery import ORDER, Delivery, Heard
from agentscope_rx.pipeline.hub.hub_log import HubLog
from agentscope_rx.pipeline.hub.member import Member
from agentscope_rx.reactive import (
    Flow,
    OneShotEvent,
    Outcome,
    Scope,
    concat,
    concat_map,
    defer,
    empty,
    flow,
    from_callable,
    just,
    on_loop,
    shield,
    then,
    throw,
    using,
)
from agentscope_rx.reactive.kernel.dropped import report_dropped
from agentscope_rx.reactive.kernel.observer import Sink
from agentscope_rx.reactive.kernel.subscription import Subscription
from agentscope_rx.tools.options import check_flag

T = TypeVar("T")

KEPT = 1000
"""How many events a hub keeps for late readers, and how many messages for late members."""


class MsgHub:
    """A group of agents: when a member's call succeeds, all others have observed the reply.

        async with MsgHub([alice, bob], announcement=Msg.user("What do we plant?", name="Host")) as hub:
            await alice.call()
            await bob.call()

    | argument | meaning |
    |---|---|
    | `participants` | the agents; at least one |
    | `announcement` | messages that all hear first |
    | `auto_broadcast` | False: replies are not passed on, only what you give to `broadcast` |
    | `timeout` | seconds in which a member has to observe a message; None: no limit |
    | `on_missed` | "report": a member that fails to observe misses the message; "fail": the speaker's call fails, too |
    | `capacity` | events kept for late readers, and messages kept for late members |

    A member is a conversation: an agent and a memory, its own unless you give another one to `add`. Methods may be
    called from any thread, also during calls of members. A missed message is in `HubEvent.missed_by`; with
    `on_missed="fail"` the speaker's call raises `UnheardMessageError`.
    """

    def __init__(
        self,
        participants: Iterable[Agent],
        announcement: CallInput = None,
        *,
        name: str | None = None,
        auto_broadcast: bool = True,
        on_missed: Literal["report", "fail"] = "report",
        timeout: float | None = None,
        capacity: int = KEPT,
    ) -> None:
        if on_missed not in ("report", "fail"):
            raise ConfigurationError(f'on_missed must be "report" or "fail", not {on_missed!r:.60}.')
        if timeout is not None and (type(timeout) not in (int, float) or not timeout > 0):
            raise ConfigurationError(f"timeout must be a number of seconds, or None for no limit, not {timeout!r:.60}.")
        check_count("capacity", capacity)
        self.name: str = name if name is not None else f"hub-{uuid4().hex[:8]}"
        self._announcement = messages_of(announcement)
        check_flag("auto_broadcast", auto_broadcast)
        self._auto = auto_broadcast
        self._fails = on_missed == "fail"
        self._timeout = timeout
        self._capacity = capacity
        self._log: HubLog | None = None
        self._entered = False
        self._number = 0
        self._said: deque[Msg] = deque(maxlen=capacity)
        # replaced, not changed, under ORDER
        self._members: tuple[Member, ...] = ()
        for agent in _agents(participants):
            self.add(agent)
        if not self._members:
            raise ConfigurationError("A MsgHub needs at least one participant.")

    def __repr__(self) -> str:
        return f"<MsgHub {self.name} of {', '.join(member.name for member in self._members)}>"

    @property
    def participants(self) -> tuple[Agent, ...]:
        """The agents that are members now, in the order in which they joined."""
        return tuple(member.agent for member in self._members)

    @property
    def events(self) -> Flow[HubEvent]:
        """The events of the hub, from the oldest one kept: members join, leave and speak, and hear messages.

        Any number of subscribers may read it. One that pulls (`async for`, `buffered`) makes speakers wait while its
        buffer is full; a plain `subscribe` never does.

        Signals: the events, in order; completion when the hub has been left.
        Cancels: this subscription.
        """

        def read() -> Flow[HubEvent]:
            with ORDER:
                log = self._open_log()
            return log.events()

        return defer(read)

    # --- in and out -----------------------------------------------------------------------------------------------

    def enter(self) -> Flow[Self]:
        """Begin: all participants join, and hear the announcement. Prefer `async with`, `with` or `run`.

        Signals: the hub; `ConfigurationError` if it is entered already; with `on_missed="fail"` `UnheardMessageError`.
        Cancels: the hub is left again.
        """

        def announce(_: None) -> Flow[Self]:
            announced = concat(*(self._tell(None, None, each) for each in self._announcement))
            return announced.pipe(then(lambda: just(self)))

        def release(_: None, outcome: Outcome) -> None:
            if outcome is not Outcome.COMPLETED:
                self.exit()

        return using(lambda: just(self._begin()), announce, release)

    def exit(self) -> None:
        """End: all members leave. They stay `participants` for the next `enter`. Idempotent."""
        with ORDER:
            if not self._entered:
                return
            self._entered = False
            log = self._open_log()
            left = [(log.take(), member) for member in self._members]
            log.seal()
            for member in self._members:
                _leave(self, member)
            # those of before are over, whatever still waits for its turn
            self._members = tuple(Member(member.agent, member.memory) for member in self._members)
        for place, member in left:
            log.put(place, self._event("left", member))
        log.close()

    def run(self, source: Observable[T] | Callable[[], Observable[T]]) -> Flow[T]:
        """Enter the hub, run the flow, leave the hub, however the flow ends.

        Signals: those of the flow; the errors of `enter`.
        Cancels: the flow; the hub is left.
        """
        make = source if callable(source) else lambda: source
        return using(self.enter, lambda hub: flow(make()), lambda hub, outcome: self.exit())

    async def __aenter__(self) -> Self:
        return await self.enter()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.exit()

    def __enter__(self) -> Self:
        return self.enter().run()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.exit()

    # --- members --------------------------------------------------------------------------------------------------

    def add(
        self, agents: Agent | Iterable[Agent], *, memory: Memory | None = None, history: bool = False
    ) -> Flow[None]:
        """Add members, from now on; an agent that is a member is not added twice.

        `memory` is that of the conversation that joins, by default the agent's own. With `history=True` new members
        first hear the last `capacity` messages. `await` the result on a loop; elsewhere the call blocks.

        Signals: one None when they have heard it.
        Cancels: the waiting.
        """
        check_kind("memory", memory, Memory)
        heard = [self._add(agent, memory, history) for agent in _agents(agents)]
        waits = [each for each in heard if each is not None]
        return concat(*waits).pipe(then(lambda: just(None))) if waits else just(None)

    def delete(self, agents: Agent | Iterable[Agent], *, memory: Memory | None = None) -> bool:
        """Remove members, from now on; True if all were members.

        After it has returned, the agent neither hears nor is heard, also during its call and for earlier messages that
        it has not heard yet. An observation that has begun runs to its end.
        """
        check_kind("memory", memory, Memory)
        # each one, also behind one that is no member
        left = [self._delete(agent, memory) for agent in _agents(agents)]
        return all(left)

    def set_auto_broadcast(self, enable: bool) -> None:
        """Turn the passing on of replies on or off; the moment when a call ends counts."""
        check_flag("auto_broadcast", enable)
        self._auto = enable

    def broadcast(self, msgs: CallInput) -> Flow[HubEvent]:
        """Let all members hear the messages. The author of a message does not hear it again.

        Signals: a `HubEvent` for each message, with those who have heard it; `ConfigurationError` if the hub is not
        entered; with `on_missed="fail"` `UnheardMessageError`.
        Cancels: messages that have no number yet.
        """
        messages = messages_of(msgs)
        if not messages:
            raise InvalidInputError("broadcast() needs at least one message.")

        def begin() -> Flow[HubEvent]:
            if not self._entered:
                return throw(ConfigurationError(f"Hub {self.name!r} is not entered: async with MsgHub(...) as hub."))
            return concat(*(self._tell(None, None, each) for each in messages))

        return defer(begin)

    def said(self, hearing: Hearing, source: EventSource, reply: Msg) -> Flow[Event]:
        """For the engine: pass on the reply of a member's call. A reply with pending calls is not passed on."""
        member = next((each for each in self._members if each.hearing is hearing), None)
        if member is None or not self._auto or reply.pending_calls:
            return empty()
        return self._tell(member, source, reply)

    # --- internals ------------------------------------------------------------------------------------------------

    def _open_log(self) -> HubLog:
        if self._log is None:
            self._log = HubLog(self.name, self._capacity)
        return self._log

    def _begin(self) -> None:
        with ORDER:
            if self._entered:
                raise ConfigurationError(f"Hub {self.name!r} is entered already.")
            if self._log is not None and self._log.closed:
                self._log = None
            log = self._open_log()
            self._entered = True
            self._number = 0
            self._said.clear()
            joined = [(log.take(), member) for member in self._members]
            for member in self._members:
                _join(self, member)
        for place, member in joined:
            log.put(place, self._event("joined", member))

    def _find(self, agent: Agent, memory: Memory | None) -> Member | None:
        where = memory if memory is not None else agent.memory
        return next((each for each in self._members if each.agent is agent and each.memory is where), None)

    def _add(self, agent: Agent, memory: Memory | None, history: bool) -> Flow[None] | None:
        member = Member(agent, memory)
        self._check_own_memory(member)
        if not history or not self._entered:
            self._enlist(member, None)
            return None
        source: Flow[None] = shield(Flow(lambda sink, scope: self._catch_up(member, sink, scope)))
        scope = Scope.here()
        if not scope.is_here():
            source.run()
            return None
        done = OneShotEvent()
        hears = Subscription[None](scope, None, lambda error: report_dropped(error, f"hub {self.name!r}"), done.fire)
        hears.start(source)
        return None if done.fired else on_loop(from_callable(done.wait), scope.loop)

    def _check_own_memory(self, member: Member) -> None:
        if any(each.memory is member.memory and each.agent is not member.agent for each in self._members):
            raise ConfigurationError(
                f"Agent {member.name!r} shares its memory with another member of hub {self.name!r}: it would hold each "
                "message twice. Give each member a memory of its own."
            )

    def _catch_up(self, member: Member, sink: Sink[None], scope: Scope) -> None:
        """Join, and hear what was said before: nothing that is said later comes in between."""
        place: int | None = None

        def ended(heard: Heard) -> None:
            if place is not None:
                self._report(heard)
                self._open_log().put(place, self._event("joined", member, heard))
            sink.on_next(None)
            sink.on_completed()

        delivery = Delivery(scope, self._timeout, _nothing, ended)
        place = self._enlist(member, delivery)
        delivery.begin()

    def _enlist(self, member: Member, delivery: Delivery | None) -> int | None:
        """The place of the event, if the member has joined now."""
        with ORDER:
            if self._find(member.agent, member.memory) is not None:
                return None
            self._members = (*self._members, member)
            if not self._entered:
                return None
            place = self._open_log().take()
            _join(self, member)
            if delivery is not None:
                delivery.enter((member,), tuple(self._said))
        if delivery is None:
            self._open_log().put(place, self._event("joined", member))
        return place

    def _delete(self, agent: Agent, memory: Memory | None) -> bool:
        with ORDER:
            member = self._find(agent, memory)
            if member is None:
                return False
            self._members = tuple(each for each in self._members if each is not member)
            if not self._entered:
                return True
            log = self._open_log()
            place = log.take()
            _leave(self, member)
        log.put(place, self._event("left", member))
        return True

    def _tell(self, speaker: Member | None, source: EventSource | None, message: Msg) -> Flow[HubEvent]:
        """Number the message and let the members hear it; nothing if the speaker has left.

        Signals: the event, when all have heard it; `UnheardMessageError`.
        Cancels: nothing that is numbered.
        """
        shown = as_observed(message)
        missed: list[UnheardMessageError] = []

        def connect(sink: Sink[HubEvent], scope: Scope) -> None:
            def event(heard: Heard) -> HubEvent:
                found = self._event("announced" if speaker is None else "said", speaker, heard)
                return found.replace(number=number, message=shown, source=source or found.source)

            def told(heard: Heard) -> None:
                if heard.missed and self._fails:
                    missed.append(self._unheard(heard))
                sink.on_next(event(heard))
                sink.on_completed()

            def ended(heard: Heard) -> None:
                self._report(heard)
                log.put(place, event(heard))

            with ORDER:
                if not self._entered or (speaker is not None and not speaker.present):
                    delivery = None
                else:
                    log = self._open_log()
                    number, self._number = self._number, self._number + 1
                    place = log.take()
                    self._said.append(shown)
                    delivery = Delivery(scope, self._timeout, told, ended)
                    delivery.enter(tuple(each for each in self._members if each is not speaker), (shown,))
            if delivery is None:
                sink.on_completed()
            else:
                delivery.begin()

        def after(event: HubEvent) -> Flow[HubEvent]:
            room = self._open_log().room()
            out: Flow[HubEvent] = concat(just(event), throw(missed[0])) if missed else just(event)
            return out if room is None else room.pipe(then(lambda: out))

        return shield(Flow(connect)).pipe(concat_map(after))

    def _event(self, change: HubChange, member: Member | None, heard: Heard | None = None) -> HubEvent:
        event = HubEvent(hub=self.name, change=change, member="" if member is None else member.name)
        if heard is None:
            return event
        return event.replace(
            heard_by=tuple(each.name for each in heard.heard),
            missed_by=tuple(each.name for each in heard.missed),
            error_text="; ".join(f"{type(error).__name__}: {error}" for error in heard.errors),
        )

    def _unheard(self, heard: Heard) -> UnheardMessageError:
        names = tuple(each.name for each in heard.missed)
        error = UnheardMessageError(self.name, names, str(heard.errors[0]) or type(heard.errors[0]).__name__)
        error.__cause__ = heard.errors[0]
        return error

    def _report(self, heard: Heard) -> None:
        for member, error in zip(heard.missed, heard.errors, strict=True):
            if not self._fails:
                report_dropped(error, f"hub {self.name!r}: {member.name!r} has missed a message")


def _agents(given: Agent | Iterable[Agent]) -> Sequence[Agent]:
    agents = (given,) if isinstance(given, Agent) else tuple(given)
    for agent in agents:
        if not isinstance(agent, Agent):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"A participant of a MsgHub is an agent, not {agent!r:.60}.")
    return agents


def _join(hub: MsgHub, member: Member) -> None:
    member.present = True
    member.hearing.audiences = (*member.hearing.audiences, hub)


def _leave(hub: MsgHub, member: Member) -> None:
    member.present = False
    member.hearing.audiences = tuple(each for each in member.hearing.audiences if each is not hub)


def _nothing(heard: Heard) -> None: ...
