"""`SubAgent`: the declaration of an agent that a model may start, in code or in a file.

    SubAgent("researcher", "Finds facts on the web.", "You find facts. Name your sources.", tools=["search"])
    SubAgent("critic", "Finds mistakes.", agent=lambda: make_critic())

| field         | is                                                                                      |
|---------------|-----------------------------------------------------------------------------------------|
| `name`        | 1 to 64 of a-z, 0-9 and single hyphens                                                  |
| `description` | what it does, and when to use it: the model chooses by this text                        |
| `prompt`      | its instructions                                                                        |
| `tools`       | the names of those tools of its parent that it gets; None: all of them                  |
| `without_tools` | names of tools that it does not get                                                   |
| `model`       | a `ChatModel` or the name of one; None: its parent's                                    |
| `permissions` | more rules for its calls, `deny`, `ask` and `mode`; they never allow more than its parent may do |
| `max_iters`   | model rounds of one call; None: as its parent                                           |
| `limits`      | the `UsageLimits` of one call                                                           |
| `spawns`      | True: it may start sub-agents itself                                                    |
| `workspace`   | "shared": the parent's instructions and skills of the workspace; "none": without them   |
| `agent`       | a ready agent, or a function that makes it, in the place of all fields from `prompt` on |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Literal, cast, get_args

from agentscope_rx.agent import UsageLimits
from agentscope_rx.agent.ports import AgentCore
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.models.chat_model import ChatModel
from agentscope_rx.models.checks import check_count
from agentscope_rx.permissions.rule_set import RuleSet
from agentscope_rx.skills.skill import MAX_DESCRIPTION, name_problem
from agentscope_rx.tools.options import check_flag

Workspaces = Literal["shared", "none"]
RULES = ("deny", "ask", "mode")

_AGENTS_OWN = ("prompt", "tools", "without_tools", "model", "permissions", "max_iters", "limits", "spawns", "workspace")


@dataclass(frozen=True, slots=True, init=False)
class SubAgent:
    """The declaration of a sub-agent. `ConfigurationError` for what cannot work.

    | argument | meaning |
    |---|---|
    | `name` | 1 to 64 of a-z, 0-9 and single hyphens |
    | `description` | what it does, and when to use it: the model chooses by it |
    | `prompt` | its system prompt |
    | `tools`, `without_tools` | names of the parent's tools that it gets (None: all), and does not get |
    | `model` | `provider:name` or a `ChatModel`; None: the parent's |
    | `permissions` | rules of deny and ask, and a mode; `allow` is an error |
    | `max_iters`, `limits` | bounds of one call; None: the parent's rounds, no limits of its own |
    | `spawns` | True: it may start sub-agents itself |
    | `workspace` | "shared": with the parent's workspace and skills hooks; "none": without |
    | `agent` | a ready agent, or a function that makes one, in place of the prompt and the fields below it |

    A sub-agent may do at most what its parent may.
    """

    name: str
    description: str
    prompt: str
    tools: tuple[str, ...] | None
    without_tools: tuple[str, ...]
    model: ChatModel | str | None
    permissions: RuleSet | None
    max_iters: int | None
    limits: UsageLimits | None
    spawns: bool
    workspace: Workspaces
    agent: AgentCore | Callable[[], AgentCore] | None

    def __init__(
        self,
        name: str,
        description: str,
        prompt: str = "",
        *,
        tools: Iterable[str] | None = None,
        without_tools: Iterable[str] = (),
        model: ChatModel | str | None = None,
        permissions: RuleSet | Mapping[str, object] | None = None,
        max_iters: int | None = None,
        limits: UsageLimits | None = None,
        spawns: bool = False,
        workspace: Workspaces = "shared",
        agent: AgentCore | Callable[[], AgentCore] | None = None,
    ) -> None:
        values: dict[str, object] = {
            "name": _name(name),
            "description": _text("description", description, MAX_DESCRIPTION),
            "prompt": _text("prompt", prompt),
            "tools": None if tools is None else _names("tools", tools),
            "without_tools": _names("without_tools", without_tools),
            "model": model,
            "permissions": _rules(permissions),
            "max_iters": max_iters,
            "limits": limits,
            "spawns": spawns,
            "workspace": workspace,
            "agent": agent,
        }
        if max_iters is not None:
            check_count("max_iters", max_iters)
        check_flag("spawns", spawns)
        if model is not None and not isinstance(model, (str, ChatModel)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"model of sub-agent {name!r} is a ChatModel or a name, not {model!r:.60}.")
        if isinstance(model, str) and not model.strip():
            raise ConfigurationError(f"model of sub-agent {name!r} is blank. Leave it out for its parent's model.")
        if limits is not None and not isinstance(limits, UsageLimits):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"limits of sub-agent {name!r} are UsageLimits(...), not {limits!r:.60}.")
        if workspace not in get_args(Workspaces):
            raise ConfigurationError(f"workspace of sub-agent {name!r} is 'shared' or 'none', not {workspace!r:.60}.")
        if agent is not None:
            _check_agent(name, agent, values)
        for field, value in values.items():
            object.__setattr__(self, field, value)

    def allows(self, tool: str) -> bool:
        """True if it gets this tool of its parent."""
        return (self.tools is None or tool in self.tools) and tool not in self.without_tools

    def tool_problem(self, known: Iterable[str]) -> tuple[str, str] | None:
        """The field that names an unknown tool, and advice; None if all tools are known."""
        there = sorted(known)
        for field, names in (("tools", self.tools or ()), ("without_tools", self.without_tools)):
            for name in names:
                if name not in there:
                    near = get_close_matches(name[:100], there, 1, 0.5)
                    hint = f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(there) or 'none'}."
                    return field, f"{field} names {name!r:.100}, which is no tool of its parent. {hint}"
        return None

    def __repr__(self) -> str:
        return f"<SubAgent {self.name}>"


def _check_agent(name: str, agent: object, values: Mapping[str, object]) -> None:
    if not isinstance(agent, AgentCore) and (not callable(agent) or isinstance(agent, type)):
        raise ConfigurationError(
            f"agent of sub-agent {name!r} is an agent, or a function that makes one, not {agent!r:.60}."
        )
    plain: dict[str, object] = {"prompt": "", "without_tools": (), "spawns": False, "workspace": "shared"}
    for field in _AGENTS_OWN:
        if values[field] != plain.get(field):
            raise ConfigurationError(f"Sub-agent {name!r} has an agent of its own: give {field} to that agent instead.")


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise ConfigurationError(f"name of a SubAgent must be text, not {name!r:.60}.")
    if problem := name_problem(name):
        raise ConfigurationError(problem.replace("a skill", "a sub-agent").replace("my-skill", "my-agent"))
    return name


def _text(what: str, text: object, most: int | None = None) -> str:
    if not isinstance(text, str):
        raise ConfigurationError(f"{what} of a SubAgent must be text, not {text!r:.60}.")
    if most is not None and not 0 < len(text.strip()) <= most:
        raise ConfigurationError(f"{what} of a SubAgent must have 1 to {most:,} characters, not {len(text):,}.")
    return text.strip()


def _names(what: str, names: object) -> tuple[str, ...]:
    found = tuple(cast("Iterable[object]", names)) if isinstance(names, Iterable) else ()
    if isinstance(names, str) or not isinstance(names, Iterable) or not all(isinstance(each, str) for each in found):
        raise ConfigurationError(f"{what} of a SubAgent is a list of names of tools, not {names!r:.60}.")
    return cast("tuple[str, ...]", tuple(dict.fromkeys(found)))


def _rules(given: object) -> RuleSet | None:
    """The rules, which only deny and ask."""
    if given is None:
        return None
    if isinstance(given, RuleSet):
        rules = given
    elif isinstance(given, Mapping):
        fields = cast("Mapping[str, object]", given)
        for name in fields:
            if name not in (*RULES, "allow"):
                near = get_close_matches(str(name)[:100], RULES, 1)
                hint = f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(RULES)}."
                raise ConfigurationError(f"permissions of a SubAgent have no {name!r:.60}. {hint}")
        lists = {name: cast("Iterable[object]", fields.get(name) or ()) for name in ("deny", "ask", "allow")}
        rules = RuleSet.of(**lists, mode=fields.get("mode"))
    else:
        raise ConfigurationError(
            f"permissions of a SubAgent are rules, as in {{'deny': ['write_file']}}, not {given!r:.60}."
        )
    if rules.allow:
        raise ConfigurationError(
            f"permissions of a SubAgent allow nothing, and this has a rule of allow: {str(rules.allow[0])!r:.100}. A "
            "sub-agent may do what its parent may, at most: give the rule to the parent."
        )
    return rules


GENERAL_PURPOSE = SubAgent(
    "general-purpose",
    "Does any task of several steps on its own, with the tools that you have. Use it for work of which you need only "
    "the result.",
    "Do the task that you are given, completely. Use your tools, and check what you have done.",
)
"""The sub-agent that inherits the model and the tools of its parent."""
