"""`SavingAgent`: the part of an agent that saves and loads its conversations: save, load, bind, register_state.

bind        load, then save at the end of each run            agent.bind(session, key)
session=    the same at the first run, in the run itself      ReActAgent(..., session="chat.db", session_key="ann")
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Literal, TypeVar, cast
from weakref import ref

from agentscope_rx.agent.agent_parts import AgentParts, AttributePart
from agentscope_rx.agent.conversation import Conversation, Conversations
from agentscope_rx.agent.input import check_kind
from agentscope_rx.agent.interruption import InterruptSource
from agentscope_rx.agent.leasing import check_lease
from agentscope_rx.agent.lifecycle import between_runs
from agentscope_rx.agent.persistence import bind, bind_to, load, save
from agentscope_rx.agent.ports import AgentCore
from agentscope_rx.agent.run import Run
from agentscope_rx.agent.saved_copy import Binding
from agentscope_rx.agent.state_persistence import StatePersistence, check_checkpoint
from agentscope_rx.errors import ConfigurationError, InvalidInputError
from agentscope_rx.memory import Memory
from agentscope_rx.messages.local_file import checked_root
from agentscope_rx.reactive import Flow, Semaphore, concat_map, defer, just
from agentscope_rx.session import Checkpoint, LeasePolicy, Session, SessionLease, WhenHeld
from agentscope_rx.session.entry import check_key
from agentscope_rx.session.history import checkpoint_id
from agentscope_rx.session.state_part import StatePart
from agentscope_rx.tools import Tool

T = TypeVar("T")

_ALL = StatePersistence()
_BOUND: Flow[bool] = just(False)


class SavingAgent(AgentCore):
    """What `Agent` does with sessions."""

    def _save_in(
        self,
        persistence: StatePersistence | None,
        session: Session | str | PathLike[str] | None,
        key: str | None,
        checkpoint: Literal["run", "stage"] = "run",
        lease: LeasePolicy | WhenHeld | None = None,
    ) -> None:
        """Take over the arguments of the agent that concern saving."""
        check_kind("state_persistence", persistence, StatePersistence)
        self.state_persistence: StatePersistence = persistence or _ALL
        check_checkpoint(checkpoint, self.check_running, self.state_persistence, self.memory)
        place = place_of(session, key)
        if place is None and (checkpoint != "run" or lease is not None):
            given = f"lease={lease!r:.60}" if checkpoint == "run" else f"checkpoint={checkpoint!r}"
            raise ConfigurationError(f"{given} needs a session: session='chat.db'.")
        if place is not None:
            held = self._lease_at(place.session, place.key, lease)
            place = replace(place, checkpoint=checkpoint, lease=held)
        self.place: Binding | None = place
        self._binding_turn = None if place is None else Semaphore(1)
        self._parts = AgentParts(self)
        self._conversations: Conversations = Conversations(self.name, self._parts)

    def _lease_at(self, session: Session, key: str, lease: LeasePolicy | WhenHeld | None) -> SessionLease | None:
        policy = check_lease(lease, self.name, self.state_persistence, check_running=self.check_running)
        return None if policy is None else SessionLease(session, key, policy)

    @property
    def own_tools(self) -> tuple[Tool, ...]:
        """The tools of the agent, some of which may have a state."""
        return ()

    @property
    def session(self) -> Session | None:
        """The session that was given to the agent; `await agent.session.close()` releases what it holds."""
        return None if self.place is None else self.place.session

    @property
    def interrupted(self) -> InterruptSource | None:
        """The source of the interruption that ended the last run in the agent's own memory; also after a load."""
        return self._conversations.of(self.memory).interrupted

    def register_state(
        self,
        name: str,
        part: StatePart | None = None,
        *,
        to_json: Callable[..., object] | None = None,
        from_json: Callable[..., object] | None = None,
    ) -> None:
        """Save and load this state with the agent's own conversation, under this name.

        `part` is an object with `state` and `load_state`. Without one, `name` is an attribute of the agent: its value
        is JSON, or `to_json` and `from_json` convert it. Hooks and tools with the methods of a `StatePart` are saved
        anyway.

        `ConfigurationError` if the name is taken, or the state has no JSON form.
        """
        if part is not None and (to_json is not None or from_json is not None):
            raise ConfigurationError(f"Part {name!r} has methods of its own: leave to_json and from_json out.")
        if (to_json is None) is not (from_json is None):
            raise ConfigurationError(f"State {name!r} needs both to_json and from_json, or neither.")
        if part is None:
            if not hasattr(self, str(name)):
                raise ConfigurationError(
                    f"{type(self).__name__} {self.name!r} has no attribute {name!r}. Set it before register_state, or "
                    "give an object with state() and load_state(value, version)."
                )
            part = AttributePart(ref(self), name, to_json, from_json)
        self._parts.register(name, part)

    @property
    def state_parts(self) -> Mapping[str, StatePart]:
        """The objects whose state is saved with the agent's own conversation, by name."""
        return self._parts.all()

    def save(
        self,
        session: Session,
        key: str,
        *,
        memory: Memory | None = None,
        persistence: StatePersistence | None = None,
        overwrite: bool = False,
    ) -> Flow[None]:
        """Write the conversation to the session under this key: messages, pending calls, approvals, state of parts.

        A save of a whole conversation is a checkpoint; `load(..., at=)` goes back to it. A save fails rather than lose
        the changes of others: if the key holds a conversation that this agent has not loaded, or that another agent has
        saved since. `overwrite=True` replaces it.

        Signals: one None when it is stored; `AgentBusyError` while a call is running, `SessionConflictError` if changes
        of others would be lost, or another `SessionError`.
        Cancels: nothing that has begun.
        """
        check_kind("overwrite", overwrite, bool, needed=True)
        write = partial(save, overwrite=overwrite, stage="save")
        return self._between_runs(write, self._binding_at(session, key, memory), memory, persistence)

    def load(
        self,
        session: Session,
        key: str,
        *,
        memory: Memory | None = None,
        persistence: StatePersistence | None = None,
        file_root: str | PathLike[str] | None = None,
        at: Checkpoint | int | None = None,
    ) -> Flow[bool]:
        """Replace the conversation by the one that the session holds under this key, with its pending calls.

        `at` is a checkpoint of `session.history(key)`: the agent gets the conversation of that time. The session
        changes with the next save, which goes on from there; the history keeps the later checkpoints.

        Saved messages may name any local file. The agent reads only files beneath `file_root`; other `FileSource`s are
        locked.

        Signals: True if a conversation was loaded, False if there is none; `AgentBusyError` while a call is running,
        `CheckpointError` if there is no such checkpoint, `SavedStateError` if another agent or a newer release has
        saved it, or a part refuses its state, or a `SessionError`.
        Cancels: the reading; the change, once begun, runs to its end.
        """
        read = partial(load, at=None if at is None else checkpoint_id(at))
        binding = self._binding_at(session, key, memory, checked_root(file_root))
        place = self.place
        if place is None or (memory is not None and memory is not self.memory) or not place.is_at(binding):
            return self._between_runs(read, binding, memory, persistence)

        def loaded(
            conversation: Conversation, name: str, memory: Memory, parts: StatePersistence, binding: Binding
        ) -> Flow[bool]:
            def bound(found: bool) -> bool:
                # the first run would load again
                if conversation.binding is None:
                    bind_to(conversation, place)
                return found

            return read(conversation, name, memory, parts, binding).pipe(concat_map(bound))

        return self._between_runs(loaded, binding, memory, persistence)

    def bind(
        self,
        session: Session,
        key: str,
        *,
        memory: Memory | None = None,
        file_root: str | PathLike[str] | None = None,
        history: bool = True,
        lease: LeasePolicy | WhenHeld | None = None,
        checkpoint: Literal["run", "stage"] = "run",
    ) -> Flow[bool]:
        """Load the conversation, if there is one, and save it at the end of every run, failed runs included.

        - `checkpoint="stage"` also saves after every stage of a run, and each tool call before it begins: if the
          process is killed, `call()` in another one goes on from there.
        - `lease`: each run begins with what other processes have saved. During a run elsewhere a call fails, or waits
          ("queue").
        - `history=False` saves without checkpoints, and drops those that there are.
        - `file_root` as for `load`.

        A save costs what is new, however long the conversation is. The look-up page "What stores guarantee" lists the
        entries that it writes.

        If the save fails, the run fails with the `SessionError`, although memory has the reply. After a
        `SessionConflictError` (another agent has saved under this key, or has deleted it) each further run fails in the
        same way, until you `load` the stored conversation, or replace it by `save(..., overwrite=True)`; both keep the
        binding.

        Signals and cancels: as `load`.
        """
        check_kind("history", history, bool, needed=True)
        check_kind("session", session, Session, needed=True)
        held = self._lease_at(session, key, lease)
        check_kind("memory", memory, Memory)
        where = memory if memory is not None else self.memory
        check_checkpoint(checkpoint, self.check_running, self.state_persistence, where)
        binding = Binding(session, key, checked_root(file_root), history, held, checkpoint)
        return self._between_runs(bind, binding, memory, None)

    def _binding_at(self, session: Session, key: str, memory: Memory | None, file_root: str | None = None) -> Binding:
        """The place of a single save or load, with a history unless the binding to this place has none."""
        check_kind("session", session, Session, needed=True)
        binding = Binding(session, key, file_root)
        bound = self._conversations.of(memory if memory is not None else self.memory).binding
        return (
            binding if bound is None or bound.history or not bound.is_at(binding) else replace(binding, history=False)
        )

    def _between_runs(
        self,
        act: Callable[[Conversation, str, Memory, StatePersistence, Binding], Flow[T]],
        binding: Binding,
        memory: Memory | None,
        persistence: StatePersistence | None,
    ) -> Flow[T]:
        check_kind("persistence", persistence, StatePersistence)
        where = memory if memory is not None else self.memory
        parts = persistence if persistence is not None else self.state_persistence
        return between_runs(self, where, lambda conversation: act(conversation, self.name, where, parts, binding))

    # --- session= ---------------------------------------------------------------------------------------------------

    def bound(self, memory: Memory) -> Flow[bool]:
        """Bind the agent's own conversation to the session given to the agent, unless that was done already.

        Signals: True if it was loaded now; the errors of `load`.
        Cancels: as `load`.
        """
        place = self.place

        def first() -> Flow[bool]:
            conversation = self._conversations.of(memory)
            if place is None or conversation.binding is not None or memory is not self.memory:
                return just(False)
            return bind(conversation, self.name, memory, self.state_persistence, place)

        if self._binding_turn is None:
            return _BOUND
        # calls that come together bind once
        return self._binding_turn.around(defer(first))

    def restored(self, run: Run) -> None:
        """The conversation was loaded after this run had been made (default: nothing to do)."""

    def checkpoint(self, run: Run) -> Flow[object] | None:
        """Save the conversation at the end of a run, before the next call may begin; None if it is not bound."""
        conversation = run.conversation
        if conversation.binding is None:
            return None
        conversation.end(run)
        return save(conversation, self.name, run.memory, self.state_persistence, conversation.binding, run=run.id)


def place_of(session: Session | str | PathLike[str] | None, key: str | None) -> Binding | None:
    """The place that `session=` and `session_key=` name; `ConfigurationError` for one without the other."""
    if session is None:
        if key is not None:
            raise ConfigurationError(f"session_key={key!r:.60} needs a session: session='chat.db'.")
        return None
    if key is None:
        raise ConfigurationError("session= needs the key of the conversation, too: session_key='ann'.")
    try:
        return Binding(session_at(session), check_key(key))
    except InvalidInputError as error:
        raise ConfigurationError(f"session_key: {error}") from error


def session_at(given: object) -> Session:
    """The session, or the one that a path or URL names."""
    if isinstance(given, (str, PathLike)):
        # imported with the first such agent, because the stores take time to import
        from agentscope_rx.session import open_session

        return open_session(cast("str | PathLike[str]", given))
    check_kind("session", given, Session, needed=True)
    return cast("Session", given)
