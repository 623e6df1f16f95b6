"""`Agent`: call, stream, observe, interrupt, idle. There is one implementation of a run, and `stream` shows all of it.

    stream(input)  =  using(acquire the gate,
                            PreCall -> recurse(stages) -> PostCall     |> errors: close open calls, ErrorEvent
                            release the gate)
    call(input)    =  the message of stream(input)'s last event

Whatever ends a run - completion, failure, interruption, disposal - every call in memory has its result, and the gate is
free afterwards: for completion and failure before the terminal signal, after a disposal when its clean-up is done.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import cast

from agentscope_rx.agent.edge import last_message, stamped
from agentscope_rx.agent.gate import Gate
from agentscope_rx.agent.input import CallInput, check_roles, messages_of
from agentscope_rx.agent.run import Done, InterruptSource, Run
from agentscope_rx.agent.tracer import NO_TRACER, Tracer
from agentscope_rx.errors import ConfigurationError, InvalidInputError
from agentscope_rx.event import ErrorEvent, Event, PostCallEvent, PreCallEvent, StreamOptions
from agentscope_rx.hook import Hook, Hooks
from agentscope_rx.memory import Memory
from agentscope_rx.message import Msg, ToolResultKind
from agentscope_rx.reactive import (
    Ending,
    Flow,
    Scope,
    Tail,
    and_then,
    catch,
    concat,
    concat_map,
    defer,
    empty,
    fail,
    flat_map_kind,
    just,
    recurse,
    shielded,
    using,
)
from agentscope_rx.reactive.dropped import report_dropped
from agentscope_rx.reactive.observer import Sink, attach

Stage = Flow[Event | Done | Tail[Event | Done]]
"""What a stage of a run is: its events and, last, its tail or the reply."""


class Agent(ABC):
    """Somebody who can be called: the envelope of a run, without its stages (see `ReActAgent`)."""

    def __init__(
        self,
        name: str,
        memory: Memory,
        *,
        sys_prompt: str | None = None,
        hooks: Iterable[Hook] = (),
        check_running: bool = True,
        tracer: Tracer | None = None,
    ) -> None:
        if not isinstance(name, str) or not name.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"An agent needs a name, not {name!r}.")
        if not isinstance(memory, Memory):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"memory must be a Memory, such as InMemoryMemory(), not {memory!r:.60}.")
        if sys_prompt is not None and not isinstance(sys_prompt, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"sys_prompt must be a str, not {sys_prompt!r:.60}.")
        if tracer is not None and not isinstance(tracer, Tracer):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"tracer must be a Tracer, not {tracer!r:.60}.")
        self.name = name
        self.memory = memory
        self.sys_prompt = sys_prompt
        self.hooks = Hooks(hooks)
        self.check_running = check_running
        self.tracer = tracer or NO_TRACER
        self._gate = Gate(name)
        # with check_running=False every run has a gate of its own: all can be interrupted and waited for
        self._gates: set[Gate] = {self._gate}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    # --- what a user calls ---------------------------------------------------------------------------------------

    def call(self, msgs: CallInput = None) -> Flow[Msg]:
        """Answer the messages; with none, go on from memory, running what is pending.

        Signals: the reply, when the agent may be called again; `AgentBusyError` at once if it is running; else what
        the run failed with.
        Cancels: the run. Its memory is repaired before another call goes ahead.
        """
        return last_message(self.stream(msgs))

    def stream(self, msgs: CallInput = None, options: StreamOptions | None = None) -> Flow[Event]:
        """The same run, event by event; the last one is a `PostCallEvent`, or an `ErrorEvent` and the error.

        Signals: the events of one run in one order; the agent may be called again at completion.
        Cancels: as `call`.
        """
        given = messages_of(msgs)
        if options is not None and not isinstance(options, StreamOptions):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInputError(f"options must be StreamOptions(kinds=..., incremental=...), not {options!r:.60}.")

        def connect(sink: Sink[Event], scope: Scope) -> None:
            scope = scope.own_demand()
            attach(self._gated(given, Run(self.name, self.memory, scope), options), sink, scope)

        return Flow(connect)

    def observe(self, msgs: CallInput) -> Flow[None]:
        """Remember the messages without answering; does not look at the running flag.

        Signals: one None when they are remembered.
        """
        return self.memory.add(messages_of(msgs))

    def interrupt(self, msg: Msg | str | None = None, source: InterruptSource = InterruptSource.USER) -> bool:
        """Ask the run in progress to end normally; from any thread. False if there is none.

        The run ends at its next check point, or at once if it waits for its model. The given message is remembered and
        is the reply; without one the agent says that it was interrupted. During PostCall it has no effect. A call that
        still waits for the clean-up of the run before it ends as soon as it gets its turn.
        """
        message = Msg.user(msg) if isinstance(msg, str) else msg
        if message is not None and not isinstance(message, Msg):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInputError(f"interrupt() takes a Msg or a str, not {message!r:.60}.")
        runs = [run for gate in tuple(self._gates) for run in gate.interruptible]
        for run in runs:
            run.request_interrupt(message, source)
        return bool(runs)

    def idle(self) -> Flow[None]:
        """One None when no run is in progress or being cleaned up. (A run's own tool or hook would wait for itself.)"""

        def all_idle() -> Flow[None]:
            gates = (gate.idle() for gate in tuple(self._gates))
            return concat(*gates).pipe(and_then(lambda: just(None)))

        return defer(all_idle)

    @property
    def running(self) -> bool:
        """Whether a run is in progress or being cleaned up."""
        return any(gate.run is not None for gate in tuple(self._gates))

    # --- what a subclass provides --------------------------------------------------------------------------------

    @abstractmethod
    def route(self, run: Run) -> Stage:
        """The first stage of a run whose input has been remembered."""

    def admit(self, run: Run, input: tuple[Msg, ...]) -> Flow[Event]:
        """What must happen before the input is remembered; by default nothing."""
        return empty()

    # --- the run -------------------------------------------------------------------------------------------------

    def _gated(self, given: tuple[Msg, ...], run: Run, options: StreamOptions | None) -> Flow[Event]:
        gate = self._gate if self.check_running else Gate(self.name)

        def acquire() -> Flow[Run]:
            self._gates.add(gate)
            return gate.acquire(run)

        def free() -> None:
            gate.release(run)
            if gate is not self._gate:
                self._gates.discard(gate)

        events = using(
            acquire,
            lambda _: self.tracer.trace_call(self._begun(given, run, gate), agent=self.name, run_id=run.id),
            lambda run, ending: self._release(run, ending, free),
            leaving=gate.leave,
        )
        return stamped(events, run, options)

    def _calls_of_others(self, run: Run) -> set[str]:
        """Ids of the calls that are another run's to answer, if runs overlap (`check_running=False`)."""
        runs = [other for gate in tuple(self._gates) if (other := gate.run) is not None and other is not run]
        return {id for other in runs for id in tuple(other.open)}

    def _begun(self, given: tuple[Msg, ...], run: Run, gate: Gate) -> Flow[Event]:
        """The events of the run, once memory is whole: a run that was lost with its loop could not see to that."""
        lost = gate.take_lost()
        for other in tuple(self._gates):
            if other is not gate and (taken := other.take_lost()):
                lost = (*lost, *taken)
                if other is not self._gate:
                    self._gates.discard(other)
        repairs = [self._repaired(each) for each in lost]
        events = self._events(given, run)
        return concat(*repairs).pipe(and_then(lambda: events)) if repairs else events

    def _events(self, given: tuple[Msg, ...], run: Run) -> Flow[Event]:
        stages = concat(
            self._pre_call(given, run),
            recurse(lambda: self.route(run)),
        )
        return stages.pipe(
            flat_map_kind(Done, lambda done: self._post_call(done.message, run)),
            catch(lambda error: self._failed(error, run)),
        )

    def _pre_call(self, given: tuple[Msg, ...], run: Run) -> Flow[Event | Done]:
        system = Msg.system(self.sys_prompt) if self.sys_prompt and self.sys_prompt.strip() else None

        def begin(event: PreCallEvent) -> Flow[Event]:
            check_roles(event.input)
            run.system_message = event.system_message
            remembered = run.remember(event.input)
            return concat(just(event), self.admit(run, event.input), remembered.pipe(and_then(empty)))

        fired = run.history().pipe(
            concat_map(
                lambda history: self.hooks.fire(
                    PreCallEvent(source=run.source, input=given, system_message=system, history=history)
                )
            ),
            concat_map(begin),
        )
        return cast("Flow[Event | Done]", fired)

    def _post_call(self, message: Msg, run: Run) -> Flow[Event]:
        def end(event: PostCallEvent) -> Flow[Event]:
            if event.message is message or event.message == message:
                return just(event)
            # a hook changed the reply: memory must say the same
            return shielded(run.memory.replace(event.message.replace(id=message.id))).pipe(
                and_then(lambda: just(event.replace(message=event.message.replace(id=message.id))))
            )

        return self.hooks.fire(PostCallEvent(source=run.source, message=message, usage=run.usage)).pipe(concat_map(end))

    def _failed(self, error: Exception, run: Run) -> Flow[Event]:
        told = cast("Flow[Event]", self.hooks.observe(ErrorEvent.of(error, source=run.source)))
        return concat(self._repaired(run, ToolResultKind.FAILED), told, fail(error))

    def _repaired(self, run: Run, kind: ToolResultKind = ToolResultKind.INTERRUPTED) -> Flow[Event]:
        """The run's open calls closed; what memory refuses is reported and does not replace why the run ended."""

        def unrepaired(error: Exception) -> Flow[Event]:
            report_dropped(error, f"repairing the memory of agent {self.name}")
            return empty()

        return cast("Flow[Event]", run.close_open(kind)).pipe(catch(unrepaired))

    def _release(self, run: Run, ending: Ending, free: Callable[[], None]) -> Flow[object] | None:
        if ending is not Ending.DISPOSED:
            free()
            return None

        def freed() -> Flow[object]:
            free()
            return empty()

        return concat(cast("Flow[object]", self._repaired(run)), defer(freed))
