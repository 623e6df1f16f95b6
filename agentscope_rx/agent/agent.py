"""`Agent`: call, stream, observe, interrupt, idle. There is one implementation of a run, and `stream` shows all of it.

    stream(input)  =  the envelope (see `agent.lifecycle`) around the stages that a subclass provides, stamped
    call(input)    =  the message of stream(input)'s last event

Whatever ends a run - completion, failure, interruption, disposal - every call in memory has its result, and the gate is
free afterwards: for completion and failure before the terminal signal, after a disposal when its clean-up is done.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, TypeVar

from typing_extensions import Unpack

from agentscope_rx.agent.conversation import Conversation, Conversations
from agentscope_rx.agent.input import CallInput, check_words, given_of, messages_of
from agentscope_rx.agent.interrupt_reply import check_last_words
from agentscope_rx.agent.lifecycle import enveloped, held
from agentscope_rx.agent.limits import UsageLimits
from agentscope_rx.agent.observe import as_heard, input_heard, observing
from agentscope_rx.agent.persistence import Binding, StatePersistence, load, save
from agentscope_rx.agent.run import Done, InterruptSource, Run
from agentscope_rx.agent.shutdown import GracefulShutdown
from agentscope_rx.agent.stream import last_message, reply_in, stamped
from agentscope_rx.agent.structured_output.request import OutputRequest
from agentscope_rx.agent.system_prompt import SystemPrompt, check_system_prompt
from agentscope_rx.agent.tracer import NO_TRACER, Tracer
from agentscope_rx.context import RuntimeContext
from agentscope_rx.errors import ConfigurationError, InvalidInputError
from agentscope_rx.events import Event, EventStream, PreCallEvent, StreamOptions
from agentscope_rx.hooks import ClassHooks, Hook
from agentscope_rx.memory import Memory
from agentscope_rx.messages import Msg, ToolUseBlock
from agentscope_rx.messages.frozen import check_encodable
from agentscope_rx.messages.local_file import checked_root
from agentscope_rx.reactive import (
    Flow,
    Scope,
    Tail,
    concat,
    concat_map,
    defer,
    empty,
    flat_map_iterable,
    just,
    next_turn,
    then,
    throw,
)
from agentscope_rx.reactive.kernel.observer import Sink, attach
from agentscope_rx.reactive.unbegun import Unbegun
from agentscope_rx.session import Session

if TYPE_CHECKING:
    from agentscope_rx.agent.sub_agent.agent_tool import AgentTool, AgentToolOptions

T = TypeVar("T")

Stage = Flow[Event | Done | Tail[Event | Done]]
"""What a stage of a run is: its events and, last, its tail or the reply."""


class Agent(ClassHooks, ABC):
    """Somebody who can be called: the envelope of a run, without its stages (see `ReActAgent`)."""

    def __init__(
        self,
        name: str,
        memory: Memory,
        *,
        sys_prompt: SystemPrompt | None = None,
        hooks: Iterable[Hook] = (),
        check_running: bool = True,
        tracer: Tracer | None = None,
        limits: UsageLimits | None = None,
        state_persistence: StatePersistence | None = None,
        shutdown: GracefulShutdown | None = None,
    ) -> None:
        if not isinstance(name, str) or not name.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"An agent needs a name, not {name!r}.")
        check_encodable(name, "The name of an agent")
        if not isinstance(memory, Memory):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"memory must be a Memory, such as InMemoryMemory(), not {memory!r:.60}.")
        check_system_prompt(sys_prompt)
        if tracer is not None and not isinstance(tracer, Tracer):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"tracer must be a Tracer, not {tracer!r:.60}.")
        self.name = name
        self.memory = memory
        self.sys_prompt = sys_prompt
        self.hooks = self._all_hooks(hooks)
        self.check_running = check_running
        self.tracer = tracer or NO_TRACER
        check_kind("limits", limits, UsageLimits)
        self.limits = limits
        check_kind("state_persistence", state_persistence, StatePersistence)
        self.state_persistence = state_persistence or StatePersistence()
        self._conversations = Conversations(name)
        check_kind("shutdown", shutdown, GracefulShutdown)
        self.shutdown = shutdown
        if shutdown is not None:
            shutdown.add(self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    # --- what a user calls ---------------------------------------------------------------------------------------

    def call(
        self,
        msgs: CallInput = None,
        *,
        context: RuntimeContext | None = None,
        memory: Memory | None = None,
        limits: UsageLimits | None = None,
        output: object = None,
    ) -> Flow[Msg]:
        """Answer the messages; with none, go on from memory, running what is pending.

        `context` is what hooks and tools of this call may look things up in. `memory` is the conversation to answer
        in, instead of the agent's own: one agent may have many at once. `limits` hold instead of the agent's.
        `output` is the shape that the reply is to have: a type, a JSON schema or a `StructuredOutput`.

        Signals: the reply, when the conversation may go on; `AgentBusyError` at once if a call in it is running;
        else what the run failed with.
        Cancels: the run. Its memory is repaired before another call goes ahead.
        """
        if type(self).stream is not Agent.stream:
            # a subclass says what is told of a run: the reply is the last of it
            told = self.stream(msgs, context=context, memory=memory, limits=limits, output=output)
            return told.pipe(flat_map_iterable(reply_in))
        called: Flow[Msg] = Flow(self._cold(last_message, msgs, context, memory, limits, output))
        return called.warning(Unbegun("A call of agent", self.name, sys._getframe(1)))

    def stream(
        self,
        msgs: CallInput = None,
        options: StreamOptions | None = None,
        *,
        context: RuntimeContext | None = None,
        memory: Memory | None = None,
        limits: UsageLimits | None = None,
        output: object = None,
    ) -> EventStream:
        """The same run, event by event; the last one is a `PostCallEvent`, or an `ErrorEvent` and the error.

        Of the stream `.of_type(Kind)` are the events of one kind, typed, and `.text()` are the words of the answer.

        Signals: the events of one run in one order; the conversation may go on at completion.
        Cancels: as `call`.
        """
        told = self._told(msgs, options, context=context, memory=memory, limits=limits, output=output)
        return told.warning(Unbegun("A stream of agent", self.name, sys._getframe(1)))

    def _told(
        self,
        msgs: CallInput = None,
        options: StreamOptions | None = None,
        *,
        context: RuntimeContext | None = None,
        memory: Memory | None = None,
        limits: UsageLimits | None = None,
        output: object = None,
    ) -> EventStream:
        """`stream`, also for the engine itself, which forgets none."""

        def edge(events: Flow[Event], run: Run) -> Flow[Event]:
            return stamped(events, run, options)

        check_input("options", options, StreamOptions)
        return EventStream(self._cold(edge, msgs, context, memory, limits, output))

    def nested(self, msgs: CallInput, context: RuntimeContext | None, memory: Memory | None) -> Flow[Event]:
        """The `stream` of a run inside of another one, which is begun at once: there is no line to be kept."""
        if type(self).stream is not Agent.stream:
            # an agent that tells of its runs in its own way
            return self.stream(msgs, context=context, memory=memory)
        return self._told(msgs, context=context, memory=memory)

    def _cold(
        self,
        edge: Callable[[Flow[Event], Run], Flow[T]],
        msgs: CallInput,
        context: RuntimeContext | None,
        memory: Memory | None,
        limits: UsageLimits | None,
        output: object,
    ) -> Callable[[Sink[T], Scope], None]:
        """What a subscription does: a run for each; `edge` says what is seen of its events."""
        given = given_of(msgs)
        given = given._replace(messages=check_words(input_heard(given.messages, self.name)))
        check_input("context", context, RuntimeContext)
        check_input("memory", memory, Memory)
        check_input("limits", limits, UsageLimits)
        request = self.requested(output)

        def connect(sink: Sink[T], scope: Scope) -> None:
            try:
                run = self.new_run(memory if memory is not None else self.memory, scope.own_demand(), context, limits)
                if run.conversation.bond is not None:
                    run.conversation.bond.tie(run)
                if request is not None:
                    run.asked = request
                    self.ask(run, request)
            except Exception as error:
                failed: Flow[T] = throw(error)
                attach(next_turn(failed), sink, scope)
                return
            attach(edge(enveloped(self, run, given), run), sink, run.scope)

        return connect

    def observe(self, msgs: CallInput, *, memory: Memory | None = None) -> Flow[None]:
        """Remember what others said, as it is heard (see `agent.observe`), without answering; also while a run goes on.

        Hooks on PreObserveEvent may change the messages before, those on PostObserveEvent see them afterwards.

        Signals: one None when it is remembered; a `HookError`, or what a hook on PreObserveEvent raised.
        Cancels: the hook in progress, and the writing.
        """
        heard = tuple(as_heard(message) for message in messages_of(msgs))
        return observing(self.name, self.hooks, heard, memory if memory is not None else self.memory)

    def save(
        self,
        session: Session,
        key: str,
        *,
        memory: Memory | None = None,
        persistence: StatePersistence | None = None,
        overwrite: bool = False,
    ) -> Flow[None]:
        """Write the conversation to the session, under this key: messages, pending calls, answers and approvals.

        It replaces what this conversation has read there, or written, and nothing else: where another agent has saved
        since, or there is a conversation that was never loaded, nothing is written. `overwrite` replaces that, too.

        Signals: one None when it is kept; `AgentBusyError` while a call is running, `SessionConflictError` for what
        would be lost, or another `SessionError`.
        Cancels: nothing that has begun.
        """
        check_kind("overwrite", overwrite, bool, needed=True)
        return self._held(partial(save, overwrite=overwrite), session, key, memory, persistence)

    def load(
        self,
        session: Session,
        key: str,
        *,
        memory: Memory | None = None,
        persistence: StatePersistence | None = None,
        file_root: str | PathLike[str] | None = None,
    ) -> Flow[bool]:
        """Put what the session holds under this key in the place of the conversation; pending work can go on from it.

        Local files that its messages name come back locked: they are kept, but not read. Those beneath `file_root` can
        be read again.

        Signals: whether there was anything (if not, nothing is changed); `AgentBusyError` while a call is running,
        `SavedStateError` for what another agent or a newer release has saved, or a `SessionError`.
        Cancels: the reading; the change, once begun, runs to its end.
        """
        return self._held(load, session, key, memory, persistence, checked_root(file_root))

    def bind(
        self,
        session: Session,
        key: str,
        *,
        memory: Memory | None = None,
        file_root: str | PathLike[str] | None = None,
    ) -> Flow[bool]:
        """Load the conversation, if it is there, and from now on save it at the end of every run, however that ends.

        A run whose conversation cannot be saved fails, with the `SessionError`, although memory has the reply. It is a
        `SessionConflictError` if another agent has saved there since: `load` puts what is stored in the place of the
        conversation, and `save` with `overwrite` the other way round; both go on being bound.
        `file_root` as for `load`.

        Signals and cancels: as `load`.
        """
        binding = Binding(session, key, checked_root(file_root))

        def begin(conversation: Conversation) -> Flow[bool]:
            def bound(found: bool) -> bool:
                conversation.binding = binding
                return found

            where = memory if memory is not None else self.memory
            return load(conversation, self.name, where, self.state_persistence, binding).pipe(concat_map(bound))

        check_kind("session", session, Session, needed=True)
        return held(self, memory if memory is not None else self.memory, begin)

    def _held(
        self,
        act: Callable[[Conversation, str, Memory, StatePersistence, Binding], Flow[T]],
        session: Session,
        key: str,
        memory: Memory | None,
        persistence: StatePersistence | None,
        file_root: str | None = None,
    ) -> Flow[T]:
        check_kind("session", session, Session, needed=True)
        check_kind("persistence", persistence, StatePersistence)
        where = memory if memory is not None else self.memory
        what = persistence if persistence is not None else self.state_persistence
        binding = Binding(session, key, file_root)
        return held(self, where, lambda conversation: act(conversation, self.name, where, what, binding))

    def interrupt(
        self,
        msg: Msg | str | None = None,
        source: InterruptSource = InterruptSource.USER,
        *,
        memory: Memory | None = None,
        run_id: str | None = None,
    ) -> bool:
        """Ask the runs in progress to end normally; from any thread. False if there is none.

        A run ends at its next check point, or at once if it waits for its model. The given message is remembered and
        is the reply; without one the agent says that it was interrupted. During PostCall it has no effect. A call that
        still waits for the clean-up of the run before it ends as soon as it gets its turn. `memory` limits it to one
        conversation, `run_id` to one run.
        """
        if source not in tuple(InterruptSource):
            raise InvalidInputError(
                f"source must be one of {', '.join(each.value for each in InterruptSource)}, not {source!r:.60}."
            )
        message = Msg.user(msg) if isinstance(msg, str) else msg
        if message is not None and not isinstance(message, Msg):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInputError(f"interrupt() takes a Msg or a str, not {message!r:.60}.")
        if message is not None:
            check_last_words(message, "interrupt() was given")
        entered = [run for conversation in self._chosen(memory) for run in conversation.entered]
        runs = [run for run in entered if run_id is None or run.id == run_id]
        for run in runs:
            run.request_interrupt(message, InterruptSource(source))
        return bool(runs)

    def idle(self, *, memory: Memory | None = None) -> Flow[None]:
        """One None when no run is in progress or being cleaned up. (A run's own tool or hook would wait for itself.)"""

        def all_idle() -> Flow[None]:
            gates = (gate.idle() for conversation in self._chosen(memory) for gate in tuple(conversation.gates))
            return concat(*gates).pipe(then(lambda: just(None)))

        return defer(all_idle)

    @property
    def running(self) -> bool:
        """Whether a run is in progress or being cleaned up."""
        return bool(self.runs)

    @property
    def runs(self) -> tuple[Run, ...]:
        """The runs in progress or being cleaned up; `run.stats()` says where each is."""
        return tuple(run for conversation in self._conversations.all for run in conversation.runs)

    @property
    def entered(self) -> tuple[Run, ...]:
        """The runs that are to end by a reply yet: those in progress, and those that wait for a clean-up to end."""
        return tuple(run for conversation in self._conversations.all for run in conversation.entered)

    @property
    def discards_partial(self) -> bool:
        """Whether an answer that a shutdown has cut off is not remembered."""
        return self.shutdown is not None and self.shutdown.partial == "discard"

    def pending_calls(self, *, memory: Memory | None = None) -> Flow[tuple[ToolUseBlock, ...]]:
        """The calls that wait for `call()`, an answer or a result, also after `load`; nothing is run.

        Signals: the calls, in call order; none while a run goes on, whose they are then.
        Cancels: the reading.
        """
        where = memory if memory is not None else self.memory
        conversation = self._conversations.of(where)
        return where.get().pipe(concat_map(conversation.waits_in))

    def conversation(self, memory: Memory | None = None) -> Conversation:
        """What is kept between the calls in this memory (or the agent's own): pending calls, approvals."""
        return self._conversations.of(memory if memory is not None else self.memory)

    def as_tool(
        self, name: str | None = None, description: str | None = None, **options: Unpack[AgentToolOptions]
    ) -> AgentTool:
        """This agent as a tool of another one, named `call_<its name>` unless given; the options of `AgentTool`."""
        from agentscope_rx.agent.sub_agent.agent_tool import AgentTool

        return AgentTool(self, name=name, description=description, **options)

    def _chosen(self, memory: Memory | None) -> Sequence[Conversation]:
        return self._conversations.all if memory is None else (self._conversations.of(memory),)

    # --- what a subclass provides --------------------------------------------------------------------------------

    @abstractmethod
    def route(self, run: Run) -> Stage:
        """The first stage of a run whose input has been remembered."""

    def admit(self, run: Run, event: PreCallEvent, history: Sequence[Msg]) -> Flow[Event]:
        """What must happen before the input is remembered, by default nothing; raises what refuses the call."""
        if event.answers:
            raise InvalidInputError(f"{type(self).__name__} {self.name!r} has no calls to approve or reject.")
        return empty()

    def requested(self, output: object) -> OutputRequest | None:
        """What `output=` asks for, refused where it is given; an agent that takes none refuses all."""
        if output is not None:
            raise ConfigurationError(f"{type(self).__name__} {self.name!r} does not take output=.")
        return None

    def ask(self, run: Run, request: OutputRequest) -> None:
        """Make this, which `requested` gave, the run's request for an output."""
        raise NotImplementedError

    def tidied(self, run: Run) -> Flow[Event]:
        """What is to be taken out of memory when the run has ended, in whatever way; by default nothing."""
        return empty()

    def checkpoint(self, run: Run) -> Flow[object] | None:
        """What saves the conversation at the end of a run, before its gate is free; None if nothing does."""
        conversation = run.conversation
        if conversation.binding is None:
            return None
        conversation.end(run)
        return save(conversation, self.name, run.memory, self.state_persistence, conversation.binding)

    def new_run(self, memory: Memory, scope: Scope, context: RuntimeContext | None, limits: UsageLimits | None) -> Run:
        """The state of one call."""
        return Run(
            self.name,
            memory,
            scope,
            conversation=self._conversations.of(memory),
            context=context,
            limits=limits if limits is not None else self.limits,
            hooks=self.hooks.compiled,
        )


def check_kind(name: str, given: object, kind: type, *, needed: bool = False) -> None:
    """Refuse an argument of the wrong class, where it is given; None is one only if it is `needed`."""
    if (needed or given is not None) and not isinstance(given, kind):
        raise ConfigurationError(_wrong(name, given, kind))


def check_input(name: str, given: object, kind: type) -> None:
    """Refuse an argument of a call that is of the wrong class."""
    if given is not None and not isinstance(given, kind):
        raise InvalidInputError(_wrong(name, given, kind))


_SUCH_AS: dict[type, str] = {
    Memory: "a Memory, such as InMemoryMemory()",
    Session: "a Session, such as JsonSession('sessions')",
}


def _wrong(name: str, given: object, kind: type) -> str:
    wanted = _SUCH_AS.get(kind, f"{kind.__name__}(...)")
    # (the class in the place of an object of it)
    hint = f" Did you mean {given.__name__}(...)?" if isinstance(given, type) and issubclass(given, kind) else ""
    return f"{name} must be {wanted}, not {given!r:.60}.{hint}"
