"""A sub-agent's declaration in a Markdown file: front matter, and its prompt as the body.

    ---
    name: researcher                        (without it: the name of the file)
    description: Finds facts on the web. Use it for questions about the present.
    tools: search, read_file                (a text, or a list)
    model: openai:gpt-5-mini
    permissions:
      deny: ["read_file(secrets/**)"]
    limits:
      model_calls: 20
    ---
    You find facts. Name your sources.

The keys are the fields of `SubAgent`, but for `agent`. An unknown key, a value of the wrong type and a rule that would
allow something are errors with file and line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final, cast

from agentscope_rx.agent import UsageLimits
from agentscope_rx.errors import ConfigurationError, FrontMatterError, SubAgentFileError
from agentscope_rx.skills.front_matter import FrontMatter, front_matter_text, read_front_matter
from agentscope_rx.skills.skill import MAX_DESCRIPTION
from agentscope_rx.sub_agents.sub_agent import SubAgent

KEYS: Final = (
    "name",
    "description",
    "tools",
    "without_tools",
    "model",
    "permissions",
    "max_iters",
    "limits",
    "spawns",
    "workspace",
)
LIMITS: Final = ("model_calls", "tool_calls", "input_tokens", "output_tokens", "total_tokens", "deadline", "on_limit")
"""The fields of `UsageLimits` that a file may set; a cost needs prices, which are given in code."""
INHERIT: Final = "inherit"
"""The model of the parent, as other programs write it."""

_NAMES = re.compile(r"[^\s,]+")


def sub_agent_of_text(text: str, file: str, stem: str) -> SubAgent:
    """Read the text of a declaration file. `SubAgentFileError` names the file and the line.

        ---
        name: finder
        description: Finds facts in the archive.
        tools: search, read_file
        permissions:
          deny: ["read_file(secrets/**)"]
        limits:
          model_calls: 20
        ---
        You find facts. Name your source.

    The fields are those of `SubAgent`, without `agent`; `stem`, the file's name without its ending, is the default of
    `name`. `MissingExtraError` without PyYAML.
    """
    try:
        front = read_front_matter(text, file)
        return _sub_agent(front, stem)
    except FrontMatterError as error:
        raise SubAgentFileError(error.file, error.problem, error.line, sub_agent=stem) from None


def _sub_agent(front: FrontMatter, stem: str) -> SubAgent:
    for key in front.values:
        if key not in KEYS:
            near = get_close_matches(key[:100].replace("-", "_").lower(), KEYS, 1, 0.5)
            hint = f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(KEYS)}."
            raise front.error(f"there is no key {key!r:.60}. {hint}", key)
    if not front.body.strip():
        raise front.error("there is no prompt after the front matter. Write what the agent is to do.")
    model = front.text("model")
    fields: dict[str, object] = {
        "tools": front.items("tools", _NAMES) if front.values.get("tools") is not None else None,
        "without_tools": front.items("without_tools", _NAMES),
        "model": None if model == INHERIT else model,
        "permissions": _mapping(front, "permissions"),
        "max_iters": front.values.get("max_iters"),
        "limits": _limits(front),
        "spawns": False if front.values.get("spawns") is None else front.values["spawns"],
        "workspace": front.text("workspace") or "shared",
    }
    description = front.required("description", MAX_DESCRIPTION)
    name = front.text("name") or stem
    # one at a time, so that an error has the line of its key
    _made(front, "name", name, description, "", {})
    for key, value in fields.items():
        _made(front, key, name, description, "", {key: value})
    return _made(front, None, name, description, front.body, fields)


def _made(
    front: FrontMatter, key: str | None, name: str, description: str, prompt: str, fields: Mapping[str, object]
) -> SubAgent:
    try:
        return SubAgent(name, description, prompt, **fields)  # pyright: ignore[reportArgumentType]
    except ConfigurationError as error:
        raise front.error(str(error), key) from None


def _mapping(front: FrontMatter, key: str) -> Mapping[str, object] | None:
    value = front.values.get(key)
    if value is None:
        return None
    if not isinstance(value, dict):
        raise front.error(f"{key!r} must be a mapping, such as 'deny: [...]' on the next line.", key)
    return cast("dict[str, object]", value)


def _limits(front: FrontMatter) -> UsageLimits | None:
    given = _mapping(front, "limits")
    if given is None:
        return None
    for name in given:
        if name not in LIMITS:
            near = get_close_matches(name[:100], LIMITS, 1, 0.5)
            hint = f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(LIMITS)}."
            raise front.error(f"limits have no {name!r:.60}. {hint}", "limits")
    try:
        return UsageLimits(**given)  # pyright: ignore[reportArgumentType]
    except ConfigurationError as error:
        raise front.error(str(error), "limits") from None


def starting_text(name: str, description: str) -> str:
    """The text of a file to begin with; `ConfigurationError` for a name or a description that cannot be used."""
    declared = SubAgent(name, description)
    values = {"name": declared.name, "description": declared.description}
    title = name.replace("-", " ").capitalize()
    return front_matter_text(values, _BODY.format(title=title))


_BODY = """\
# {title}

What to do, step by step, and what the answer looks like: the agent that calls you reads only your last message.
"""
