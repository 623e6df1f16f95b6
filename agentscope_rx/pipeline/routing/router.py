"""`RouterPipeline`: a model or a function chooses the member that answers.

desk = RouterPipeline(
    "openai:gpt-5-mini",
    [Route(billing, "Invoices and payments."), Route(technician, "Devices that do not work.")],
    otherwise=clerk,
)
await desk.call("My invoice is wrong.")

choice -> billing -> the reply                          its metadata: {"route": {"member": "Billing", "by": "choice"}}
choice (invalid) -> choice (invalid) -> otherwise       without `otherwise`: `RoutingError`
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, cast

from typing_extensions import Unpack

from agentscope_rx.agent.ports import AgentCore
from agentscope_rx.agent.run import Run
from agentscope_rx.errors import ConfigurationError, InvalidInputError, RoutingError
from agentscope_rx.memory import Memory
from agentscope_rx.messages import Msg
from agentscope_rx.parts import Part
from agentscope_rx.pipeline.member_tool import MemberTool
from agentscope_rx.pipeline.members import Member
from agentscope_rx.pipeline.options import PipelineOptions
from agentscope_rx.pipeline.pipeline import Pipeline
from agentscope_rx.pipeline.routing.chooser import Chooser, choice_in, chooser_of, output_for
from agentscope_rx.pipeline.routing.route import Route, named, routes_of
from agentscope_rx.pipeline.steps import Program, Progress, Step

ROUTE = "route"
"""The key in a reply's metadata: who has answered, and why."""

RoutedBy = Literal["choice", "sticky", "otherwise"]
"""Why a member has answered: it was chosen now, or by an earlier call, or no valid choice was made."""


def _read(saved: object) -> str:
    if isinstance(saved, str):
        return saved
    raise InvalidInputError(f"The state 'router' of this conversation cannot be read: {saved!r:.60}.")


STICKY: Part[str] = Part("router", 1, "", dump=lambda name: name, read=_read)
"""The member that a sticky router has chosen in a conversation; "" for none."""


class RouterPipeline(Pipeline):
    """Calls one member with the input: the one that `chooser` chooses by its name and description.

        desk = RouterPipeline(model, [Route(billing, "Invoices."), Route(repairs, "Devices.")], otherwise=clerk)

    - **`chooser`** is a model, an agent, or a function of the last message that returns a member's name, the member or
      None (also async). A model is asked for a structured output whose schema has the names; an invalid answer is
      returned to it once.
    - **No valid choice**: `otherwise` answers, which can be chosen, too. Without it the call fails with a
      `RoutingError`. If the chooser itself fails, the error is a `StepError`.
    - **`sticky=True`**: the member that was chosen first answers all later calls of the conversation, until `release`.

    The choice is a step, `call_choice`, in the stream and in memory. `output=` of a call is requested from the member.
    """

    most_rounds: int | None = None

    def __init__(
        self,
        chooser: Chooser,
        members: Iterable[Route | Member],
        name: str = "router",
        *,
        otherwise: Route | Member | None = None,
        sticky: bool = False,
        **options: Unpack[PipelineOptions],
    ) -> None:
        routes = list(routes_of(members))
        rest = None if otherwise is None else named(otherwise)
        if rest is not None and all(route.agent is not rest.agent for route in routes):
            routes.append(rest)
        if not isinstance(sticky, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"sticky must be True or False, not {sticky!r:.60}.")
        self.chooser: AgentCore = chooser_of(chooser, routes)
        self._output = output_for(self.chooser, routes)
        self._routes = tuple(route.name for route in routes)
        self._otherwise = None if rest is None else rest.name
        self.sticky: bool = sticky
        super().__init__(name, [self.chooser, *(route.agent for route in routes)], **options)

    def _tool(self, agent: AgentCore) -> MemberTool:
        if agent is not self.chooser or self._output is None:
            return super()._tool(agent)
        return MemberTool(self, agent, interrupt_grace=self.interrupt_grace, output=self._output)

    def chosen(self, *, memory: Memory | None = None) -> str | None:
        """The member that answers the next call of a sticky router, by its name; None before a choice."""
        return STICKY.get(self.conversation(memory)) or None

    def release(self, *, memory: Memory | None = None) -> None:
        """Let the next call of a sticky router choose anew."""
        STICKY.change(self.conversation(memory), lambda _: ("", None))

    def program_in(self, run: Run, progress: Progress) -> Program:
        """The program of this run, which begins with a sticky router's member."""
        last, known = progress.last, STICKY.get(run.conversation) if self.sticky else ""
        if last is None and known in self._routes:
            return Step(known, output=True)
        if last is not None and last.member == self.chooser.name and self.sticky:
            chosen = self._choice(progress)
            if chosen is not None:
                STICKY.change(run.conversation, lambda _: (chosen, None))
        return self.program(progress)

    def program(self, progress: Progress) -> Program:
        """The choice, the chosen member, its reply."""
        last = progress.last
        if last is None:
            return Step(self.chooser.name)
        if last.member != self.chooser.name:
            by = self._routed_by(progress)
            reply = last.value
            return reply.replace(metadata={**reply.metadata, ROUTE: {"member": last.member, "by": by}})
        if last.interrupted:
            return last.value
        chosen = self._choice(progress)
        if chosen is None:
            chosen = self._otherwise
        if chosen is None:
            text = None if last.reply is None else choice_in(last.reply)
            raise RoutingError(self.name, text, self._routes) from last.error
        return Step(chosen, output=True)

    def _choice(self, progress: Progress) -> str | None:
        """The valid choice that was made, if there is one; a `StepError` if the chooser has failed otherwise."""
        made = progress.of(self.chooser.name)
        if not made or made[0].interrupted:
            return None
        error = made[0].error
        if error is not None and error.error_type == "StructuredOutputError":
            return None
        chosen = choice_in(made[0].value)
        return chosen if chosen in self._routes else None

    def _routed_by(self, progress: Progress) -> RoutedBy:
        if not progress.of(self.chooser.name):
            return "sticky"
        return "choice" if self._choice(progress) is not None else "otherwise"


def route_of(reply: Msg) -> tuple[str, RoutedBy]:
    """The name of the member that gave a router's reply, and how it was chosen: "choice", "sticky" or "otherwise".

    `InvalidInputError` for any other message.
    """
    found = reply.metadata.get(ROUTE)
    if not isinstance(found, Mapping):
        raise InvalidInputError(f"Message {reply.id} is no reply of a RouterPipeline.")
    known = cast("Mapping[str, str]", found)
    return known["member"], cast("RoutedBy", known["by"])
