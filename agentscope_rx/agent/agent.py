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
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.event import ErrorEvent, Event, PostCallEvent, PreCallEvent, StreamOptions
from agentscope_rx.hook import Hook, Hooks
from agentscope_rx.memory import Memory
from agentscope_rx.message import Msg, ToolResultKind
from agentscope_rx.reactive import (
    Ending,
    Flow,
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
    using,
)
from agentscope_rx.reactive.dropped import report_dropped
from agentscope_rx.reactive.observer import attach

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
        self.name = name
        self.memory = memory
        self.sys_prompt = sys_prompt
        self.hooks = Hooks(hooks)
        self.check_running = check_running
        self.tracer = tracer or NO_TRACER
        self._gate = Gate(name)
        # with check_running=False every run has a gate of its own: all can be interrupted and waited for
        self._gates: set[Gate] = {self._gate}

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
        return Flow(
            lambda sink, scope: attach(self._gated(given, Run(self.name, self.memory, scope), options), sink, scope)
        )

    def observe(self, msgs: CallInput) -> Flow[None]:
        """Remember the messages without answering; does not look at the running flag.

        Signals: one None when they are remembered.
        """
        return self.memory.add(messages_of(msgs))

    def interrupt(self, msg: Msg | str | None = None, source: InterruptSource = InterruptSource.USER) -> bool:
        """Ask the run in progress to end normally; from any thread. False if there is none.

        The run ends at its next check point, or at once if it waits for its model. The given message is remembered and
        is the reply; without one the agent says that it was interrupted. During PostCall it has no effect.
        """
        message = Msg.user(msg) if isinstance(msg, str) else msg
        runs = [run for gate in tuple(self._gates) if (run := gate.run) is not None]
        for run in runs:
            run.request_interrupt(message, source)
        return bool(runs)

    def idle(self) -> Flow[None]:
        """One None when no run is in progress or being cleaned up."""

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
            lambda _: self.tracer.trace_call(self._events(given, run), agent=self.name, run_id=run.id),
            lambda run, ending: self._release(run, ending, free),
            leaving=gate.leave,
        )
        return stamped(events, run, options)

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
            return run.memory.replace(event.message.replace(id=message.id)).pipe(
                and_then(lambda: just(event.replace(message=event.message.replace(id=message.id))))
            )

        return self.hooks.fire(PostCallEvent(source=run.source, message=message, usage=run.usage)).pipe(concat_map(end))

    def _failed(self, error: Exception, run: Run) -> Flow[Event]:
        def unrepaired(second: Exception) -> Flow[Event]:
            report_dropped(second, f"repairing the memory of agent {self.name}")
            return empty()

        repair = cast("Flow[Event]", run.close_open(ToolResultKind.FAILED)).pipe(catch(unrepaired))
        told = cast("Flow[Event]", self.hooks.observe(ErrorEvent.of(error, source=run.source)))
        return concat(repair, told, fail(error))

    def _release(self, run: Run, ending: Ending, free: Callable[[], None]) -> Flow[object] | None:
        if ending is not Ending.DISPOSED:
            free()
            return None

        def unrepaired(error: Exception) -> Flow[object]:
            report_dropped(error, f"repairing the memory of agent {self.name}")
            return empty()

        def freed() -> Flow[object]:
            free()
            return empty()

        repair = cast("Flow[object]", run.close_open()).pipe(catch(unrepaired))
        return concat(repair, defer(freed))
