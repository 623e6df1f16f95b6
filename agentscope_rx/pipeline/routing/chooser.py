"""The choice of a router: an agent that is asked for one name of a closed set, or a function that returns one.

    reply.structured() == {"choice": "billing"}

A model gives its choice as a structured output, whose schema has the names: what it writes besides is never searched
for one. An invalid choice is returned to it once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

from agentscope_rx.agent.ports import AgentCore
from agentscope_rx.agent.react.react_agent import ReActAgent
from agentscope_rx.agent.run import Run
from agentscope_rx.agent.structured_output.config import StructuredOutput
from agentscope_rx.errors import ConfigurationError, NoStructuredOutputError
from agentscope_rx.messages import GenerateReason, Msg
from agentscope_rx.messages.structured import STRUCTURED
from agentscope_rx.models.chat_model import ChatModel
from agentscope_rx.pipeline.members import FunctionAgent
from agentscope_rx.pipeline.routing.route import NamedRoute

CHOICE = "choice"
"""The name of the member that chooses, and the field of its structured output."""

RESPONSE_TOOL = "choose_member"

PROMPT = (
    "You decide who answers. Read the last message of the user, in its conversation, and choose the one whose work it "
    "is. Do not answer it yourself. There are:\n\n{routes}"
)

Chooser = ChatModel | str | AgentCore | Callable[[Msg], object]
"""A model or its name, an agent that is asked for the choice, or a function of the last message of the input."""


class ChoiceFunction(FunctionAgent):
    """A function that returns the name of a member, or the member; None is no choice."""

    def _reply(self, run: Run, value: object) -> Msg:
        name = value.name if isinstance(value, AgentCore) else value
        if name is not None and not isinstance(name, str):
            raise ConfigurationError(f"The function of a router must return the name of a member, not {value!r:.60}.")
        message = Msg.assistant(name or "no choice", self.name).replace(metadata={STRUCTURED: {CHOICE: name}})
        return run.final(message, GenerateReason.STRUCTURED_OUTPUT)


def chooser_of(given: Chooser, routes: Sequence[NamedRoute]) -> AgentCore:
    """The agent that chooses."""
    if isinstance(given, AgentCore):
        return given
    if isinstance(given, (ChatModel, str)):
        return ReActAgent(CHOICE, given, PROMPT.format(routes="\n".join(route.line for route in routes)))
    if not callable(given) or isinstance(given, type):
        raise ConfigurationError(
            f"A router takes a model, its name, an agent, or a function that returns a name, not {given!r:.60}."
        )
    return ChoiceFunction(given, CHOICE)


def output_for(chooser: AgentCore, routes: Sequence[NamedRoute]) -> StructuredOutput | None:
    """What the agent is asked for; None for a function."""
    if isinstance(chooser, ChoiceFunction):
        return None
    names = [route.name for route in routes]
    described = "; ".join(f"{route.name}: {route.description}" for route in routes if route.description)
    schema = {
        "type": "object",
        "properties": {CHOICE: {"type": "string", "enum": names, "description": described or "Who answers."}},
        "required": [CHOICE],
        "additionalProperties": False,
    }
    return StructuredOutput(schema, max_retries=1, name=RESPONSE_TOOL, description="Choose who answers.")


def choice_in(reply: Msg) -> str | None:
    """The name that was chosen; None if there is none."""
    try:
        value = reply.structured()
    except NoStructuredOutputError:
        return None
    found = cast("Mapping[str, object]", value).get(CHOICE) if isinstance(value, Mapping) else None
    return found if isinstance(found, str) else None
