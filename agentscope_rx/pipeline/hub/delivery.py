"""`Delivery`: messages on their way into the memories of some members of a hub.

    under ORDER    number the message, enter the line of each listener      so all hear in the order of the numbers
    then           A's turn -- observe --|
                   B's turn ......... observe --|                           a slow member delays no other one
                                                told: who has heard it, who has missed it

A member that is hearing an earlier message cannot take one that is said within that observation, by an agent that a
hook of it calls: the call would wait for itself. Such a message stays in the member's line, and the call goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import partial
from typing import NamedTuple

from agentscope_rx.agent.hearing import Hearing, origin_of
from agentscope_rx.errors import DeadlineError
from agentscope_rx.messages import Msg
from agentscope_rx.pipeline.hub.member import Member
from agentscope_rx.reactive import Flow, Scope, admitted, defer, just, timeout
from agentscope_rx.reactive.kernel.forking import new_lock
from agentscope_rx.reactive.kernel.observer import Sink, Upstream, attach

ORDER = new_lock()
"""Held while a message is numbered and enters the lines of its listeners: never during work of a member."""

_HEARING: ContextVar[frozenset[Hearing]] = ContextVar("agentscope_rx_hearing", default=frozenset())
"""The conversations in whose observation this code runs."""


class Heard(NamedTuple):
    """What became of a message: who has heard it, who has missed it, and why."""

    heard: tuple[Member, ...]
    missed: tuple[Member, ...]
    errors: tuple[Exception, ...]


class Delivery:
    """The way of messages to some members: `enter` under `ORDER`, then `begin` without it.

    `ended` is called when all have heard them, `told` when those have that the speaker waits for; both once, on the
    loop of the scope. A member that takes longer than `deadline` seconds misses the messages.
    """

    __slots__ = (
        "_deadline",
        "_ended",
        "_heard",
        "_later",
        "_listeners",
        "_missed",
        "_ready",
        "_scope",
        "_told",
        "_waits",
    )

    def __init__(
        self,
        scope: Scope,
        deadline: float | None,
        told: Callable[[Heard], object],
        ended: Callable[[Heard], object],
    ) -> None:
        # without the demand of the run's consumer: others hear whatever it does
        self._scope = Scope(scope.loop, scope.context, None, scope.work)
        self._deadline = deadline
        self._told: Callable[[Heard], object] | None = told
        self._ended: Callable[[Heard], object] | None = ended
        self._listeners: Sequence[Member] = ()
        self._ready: list[Callable[[], object]] | None = []
        self._heard: set[Member] = set()
        self._missed: dict[Member, Exception] = {}
        self._waits: set[Member] = set()
        self._later: set[Member] = set()

    def enter(self, listeners: Sequence[Member], messages: tuple[Msg, ...]) -> None:
        """Take a place in the line of each listener."""
        self._listeners = listeners
        within = self._scope.context.get(_HEARING, frozenset())
        for member in listeners:
            (self._later if member.hearing in within else self._waits).add(member)
        for member in listeners:
            new = tuple(each for each in messages if member.hearing.take(origin_of(each)))
            use = partial(self._turn, member, new)
            attach(admitted((member.hearing.line,), use), _Listener(self, member, new), self._scope)

    def begin(self) -> None:
        """Let those members hear whose turn it is already."""
        ready, self._ready = self._ready or [], None
        for start in ready:
            start()
        self._report()

    def _turn(self, member: Member, messages: tuple[Msg, ...], waited: float) -> Flow[None]:
        def observe() -> Flow[None]:
            if not member.present:
                raise MemberLeftError(member.name)
            return member.observe(messages) if messages else just(None)

        def connect(sink: Sink[None], scope: Scope) -> None:
            context = scope.context.copy()
            context.run(_HEARING.set, context.get(_HEARING, frozenset()) | {member.hearing})
            observed = defer(observe)
            if self._deadline is not None:
                observed = observed.pipe(timeout(total=self._deadline, error=partial(_late, member)))
            start = partial(attach, observed, sink, Scope(scope.loop, context, None, scope.work))
            if self._ready is None:
                start()
            else:
                # not under the lock
                self._ready.append(start)

        return Flow(connect)

    def settle(self, member: Member, error: Exception | None) -> None:
        """The member has heard it, or has missed it by this error."""
        if member.hearing in _HEARING.get():
            # what follows is no part of the observation
            self._scope.call_soon(lambda: self._settle(member, error))
        else:
            self._settle(member, error)

    def _settle(self, member: Member, error: Exception | None) -> None:
        if error is None:
            self._heard.add(member)
        elif not isinstance(error, MemberLeftError):
            self._missed[member] = error
        self._waits.discard(member)
        self._later.discard(member)
        if self._ready is None:
            self._report()

    def _report(self) -> None:
        if self._waits:
            return
        heard = Heard(
            tuple(each for each in self._listeners if each in self._heard),
            tuple(each for each in self._listeners if each in self._missed),
            tuple(self._missed[each] for each in self._listeners if each in self._missed),
        )
        if not self._later and self._ended is not None:
            ended, self._ended = self._ended, None
            ended(heard)
        if self._told is not None:
            told, self._told = self._told, None
            told(heard)


def _late(member: Member, which: str, limit: float) -> Exception:
    return DeadlineError(which, limit, f"Member {member.name!r} of a hub")


class MemberLeftError(Exception):
    """A member has left before its turn to hear; internal."""


class _Listener:
    """The sink of one observation. It is not disposed: a message that was numbered is heard."""

    __slots__ = ("_delivery", "_member", "_messages")

    disposed = False

    def __init__(self, delivery: Delivery, member: Member, messages: tuple[Msg, ...]) -> None:
        self._delivery = delivery
        self._member = member
        self._messages = messages

    def on_subscribe(self, upstream: Upstream, /) -> None: ...

    def on_next(self, value: None, /) -> None: ...

    def on_error(self, error: Exception, /) -> None:
        for message in self._messages:
            self._member.hearing.give_back(origin_of(message))
        self._delivery.settle(self._member, error)

    def on_completed(self) -> None:
        self._delivery.settle(self._member, None)
