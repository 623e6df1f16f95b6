"""`AgentCore`: the agent as seen by lifecycle, repair, persistence and sub-agents. `Agent` implements it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from agentscope_rx.agent.conversation import Conversation
from agentscope_rx.agent.input import CallInput
from agentscope_rx.agent.limits import UsageLimits
from agentscope_rx.agent.run import Run, Stage
from agentscope_rx.agent.saved_copy import Binding
from agentscope_rx.agent.shutdown import GracefulShutdown
from agentscope_rx.agent.state_persistence import StatePersistence
from agentscope_rx.agent.structured_output.request import OutputRequest
from agentscope_rx.agent.system_prompt import SystemPrompt
from agentscope_rx.context import RuntimeContext
from agentscope_rx.events import Event, PreCallEvent
from agentscope_rx.hooks import Hooks
from agentscope_rx.memory import Memory
from agentscope_rx.messages import Msg
from agentscope_rx.reactive import Flow, Scope


class AgentCore(ABC):
    """An agent, as the engine sees it. The methods are documented at `Agent`."""

    name: str
    memory: Memory
    sys_prompt: SystemPrompt | None
    hooks: Hooks
    check_running: bool
    queue_limit: int
    limits: UsageLimits | None
    shutdown: GracefulShutdown | None
    place: Binding | None
    """The session and key that the agent's own conversation is bound to at its first run; None without a session."""
    state_persistence: StatePersistence
    is_workflow: bool = False
    """True if a program, and no model, decides on the next step."""

    @property
    @abstractmethod
    def discards_partial(self) -> bool: ...

    @abstractmethod
    def conversation(self, memory: Memory | None = None) -> Conversation: ...

    @abstractmethod
    def nested(
        self, msgs: CallInput, context: RuntimeContext | None, memory: Memory | None, output: object = None
    ) -> Flow[Event]: ...

    @abstractmethod
    def new_run(
        self, memory: Memory, scope: Scope, context: RuntimeContext | None, limits: UsageLimits | None
    ) -> Run: ...

    @abstractmethod
    def route(self, run: Run) -> Stage: ...

    @abstractmethod
    def admit(self, run: Run, event: PreCallEvent, history: Sequence[Msg]) -> Flow[Event]: ...

    @abstractmethod
    def requested(self, output: object) -> OutputRequest | None: ...

    @abstractmethod
    def ask(self, run: Run, request: OutputRequest) -> None: ...

    @abstractmethod
    def tidied(self, run: Run) -> Flow[Event]: ...

    @abstractmethod
    def bound(self, memory: Memory) -> Flow[bool]: ...

    @abstractmethod
    def restored(self, run: Run) -> None: ...

    @abstractmethod
    def checkpoint(self, run: Run) -> Flow[object] | None: ...
