"""`Route`: a member of a router, with the description by which it is chosen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from agentscope_rx.agent.ports import AgentCore
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.pipeline.members import Member, as_agent


@dataclass(frozen=True, slots=True)
class Route:
    """A member and its purpose, by which it is chosen: `Route(billing, "Invoices and payments.")`."""

    member: Member
    description: str = ""

    def __post_init__(self) -> None:
        as_agent(self.member)
        if not isinstance(self.description, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"The description of a route must be a str, not {self.description!r:.60}.")


@dataclass(frozen=True, slots=True)
class NamedRoute:
    """A route whose member is an agent."""

    agent: AgentCore
    description: str

    @property
    def name(self) -> str:
        """The name by which it is chosen."""
        return self.agent.name

    @property
    def line(self) -> str:
        """The route in one line."""
        return f"- {self.name}: {self.description}" if self.description else f"- {self.name}"


def named(route: Route | Member) -> NamedRoute:
    """The route with its member as an agent."""
    given = route if isinstance(route, Route) else Route(route)
    return NamedRoute(as_agent(given.member), given.description)


def routes_of(given: Iterable[Route | Member]) -> Sequence[NamedRoute]:
    """The routes in their order; `ConfigurationError` for none."""
    if isinstance(given, (str, Mapping, AgentCore)) or not isinstance(given, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"members takes a list of Routes or members, not {cast('object', given)!r:.60}.")
    routes = [named(each) for each in given]
    if not routes:
        raise ConfigurationError("A RouterPipeline needs at least one member.")
    return routes
