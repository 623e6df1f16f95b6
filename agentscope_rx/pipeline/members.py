"""The members of a pipeline: agents, and functions that are lifted to agents, each with a name of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import cast

from reactivex import operators as ops

from agentscope_rx.agent.agent import Agent
from agentscope_rx.agent.hearing import ORIGIN
from agentscope_rx.agent.interruption import Cut
from agentscope_rx.agent.ports import AgentCore
from agentscope_rx.agent.run import Run, Stage
from agentscope_rx.agent.sub_agent.agent_tool import tool_name
from agentscope_rx.errors import AgentShuttingDownError, ConfigurationError, InvalidInputError
from agentscope_rx.memory import InMemoryMemory
from agentscope_rx.messages import GenerateReason, Msg, MsgRole
from agentscope_rx.reactive import Flow, concat_map, take_until, throw
from agentscope_rx.tools.calls.lift import kind_of, lift

Member = AgentCore | Callable[[Msg], object]
"""An agent, or a function of the last message of its input that returns a text or a `Msg`."""

STOPPED = "I was interrupted before I had an answer."


class FunctionAgent(Agent):
    """A function as an agent: each call of the agent calls the function, with the last message of the input.

    The function returns text or a `Msg`, or an awaitable or Observable of one. A plain `def` runs on a worker thread.
    As a member of a pipeline it begins with an empty memory each time.
    """

    def __init__(self, function: Callable[[Msg], object], name: str | None = None) -> None:
        if not callable(function):
            raise ConfigurationError(f"FunctionAgent takes a function of a message, not {function!r:.60}.")
        super().__init__(name if name is not None else name_of(function), InMemoryMemory())
        self.function = function
        self._kind = kind_of(function)

    def route(self, run: Run) -> Stage:
        """Call the function, and remember its result as the reply."""
        given = run.input.messages
        message = given[-1] if given else Msg.user(())
        values: Flow[object] = lift(self._kind, lambda: self.function(message)).pipe(ops.take(1))
        answers = values.pipe(take_until(run.interruption.event), ops.to_list())
        return answers.pipe(concat_map(lambda found: self._answered(run, found)))

    def _answered(self, run: Run, found: list[object]) -> Stage:
        if found:
            return run.end_with(self._reply(run, found[0]))
        if not run.interrupted:
            return throw(InvalidInputError(f"The function of {self.name!r} ended without a value."))
        if run.interruption.cut is Cut.SHUTDOWN:
            run.conversation.cut_off = run.input.given
            return throw(AgentShuttingDownError(self.name, run.id, run.conversation.saved_as))
        run.interruption.ended_by = run.interruption.source
        message = run.interruption.message or Msg.assistant(STOPPED, self.name)
        return run.end_with(run.final(message, GenerateReason.INTERRUPTED))

    def _reply(self, run: Run, value: object) -> Msg:
        if isinstance(value, str):
            value = Msg.assistant(value, self.name)
        if not isinstance(value, Msg):
            raise InvalidInputError(
                f"The function of {self.name!r} must return a text or a Msg, not {value!r:.60}. It gets one message."
            )
        if value.tool_calls or value.tool_results or value.role is MsgRole.SYSTEM:
            raise InvalidInputError(f"The function of {self.name!r} must return a message without calls and results.")
        if value.name != self.name or value.role is not MsgRole.ASSISTANT or value in run.input.messages:
            # its reply, even if it is the input
            kept = {key: each for key, each in value.metadata.items() if key != ORIGIN}
            value = Msg.assistant(value.content, self.name).replace(metadata=kept)
        return run.final(value, GenerateReason.MODEL_STOP)


def name_of(function: object) -> str:
    """The name of a function as a member."""
    name: object = getattr(function, "__name__", None)
    if not isinstance(name, str) or name == "<lambda>":
        raise ConfigurationError(
            "A function without a name of its own, such as a lambda, needs one: members={'shorten': lambda m: ...}, "
            "or FunctionAgent(function, 'shorten')."
        )
    return name


def as_agent(member: object, name: str | None = None) -> AgentCore:
    """The member as an agent; `ConfigurationError` for anything that is neither an agent nor a function."""
    if isinstance(member, AgentCore):
        if name is not None and name != member.name:
            raise ConfigurationError(f"The agent {member.name!r} is a member by its own name, not as {name!r}.")
        return member
    if not callable(member) or isinstance(member, type):
        raise ConfigurationError(f"A member of a pipeline is an agent, or a function of a message, not {member!r:.60}.")
    return FunctionAgent(cast("Callable[[Msg], object]", member), name)


def members_of(pipeline: str, given: Iterable[Member] | Mapping[str, Member]) -> Mapping[str, AgentCore]:
    """The members by name, in their order; `ConfigurationError` if two have names that cannot be told apart."""
    members: dict[str, AgentCore] = {}
    tools: dict[str, str] = {}
    for agent in agents_of(pipeline, given):
        tool = tool_name(agent.name)
        if agent.name in members:
            raise ConfigurationError(
                f"Pipeline {pipeline!r} has two members named {agent.name!r}. Give each member a name of its own."
            )
        if tool in tools:
            raise ConfigurationError(
                f"Pipeline {pipeline!r}: the names of members {tools[tool]!r} and {agent.name!r} differ too little: "
                f"both are {tool!r} as a step."
            )
        members[agent.name] = agent
        tools[tool] = agent.name
    return members


def agents_of(pipeline: str, given: object) -> Iterator[AgentCore]:
    """The members as agents, in their order; a function that is given several times is one agent."""
    if isinstance(given, Mapping):
        for name, member in cast("Mapping[str, object]", given).items():
            yield as_agent(member, name)
        return
    if isinstance(given, (str, AgentCore)) or not isinstance(given, Iterable):
        raise ConfigurationError(f"Pipeline {pipeline!r} takes a list of members, not {given!r:.60}.")
    known: dict[int, AgentCore] = {}
    for member in tuple(cast("Iterable[object]", given)):
        if id(member) not in known:
            known[id(member)] = as_agent(member)
        yield known[id(member)]
