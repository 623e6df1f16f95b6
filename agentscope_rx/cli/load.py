"""`--tools module:attr`, `--agent module:attr`: what a module of the user's offers; what is wrong is one clear line."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable
from difflib import get_close_matches
from typing import cast

from agentscope_rx.agent import Agent
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.tools import Tool, Toolkit


def toolkit_of(specs: Iterable[str], builtin: Toolkit | None) -> Toolkit:
    """One toolkit of all that the specs name, and of the built-in tools if they are wanted.

    The settings of the first `Toolkit` named (parallel or not, its limits) are those of the whole.
    """
    named = [(spec, _load("--tools", spec)) for spec in specs]
    toolkits = [value for _, value in named if isinstance(value, Toolkit)]
    whole = toolkits[0].copy() if toolkits else Toolkit()
    for spec, value in named:
        if toolkits and value is toolkits[0]:
            continue
        for each in _members(value):
            try:
                whole.register_all(each)
            except ConfigurationError as error:
                raise ConfigurationError(f"--tools {spec}: {error}") from error
    for tool in builtin or ():
        if tool.name in whole:
            raise ConfigurationError(
                f"--tools names a tool {tool.name!r}, and so does the command line itself. "
                "Rename yours, or add --no-builtin-tools."
            )
        whole.register(tool)
    return whole


def agent_of(spec: str) -> Agent:
    """The agent that the spec names: one, or what a function without arguments makes."""
    value = _load("--agent", spec)
    if callable(value) and not isinstance(value, Agent):
        try:
            value = value()
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            raise ConfigurationError(f"--agent {spec}: calling it failed with {what}") from error
    if not isinstance(value, Agent):
        raise ConfigurationError(f"--agent {spec}: this is no Agent, and no function that makes one: {value!r:.60}.")
    return value


def _members(value: object) -> Iterable[object]:
    if isinstance(value, Tool):
        return (value,)
    if isinstance(value, (Toolkit, list, tuple, set, frozenset)):
        return cast("Iterable[object]", value)
    return (value,)


def _load(flag: str, spec: str) -> object:
    module_name, colon, path = spec.partition(":")
    if not colon or not module_name or not path:
        raise ConfigurationError(f"{flag} takes module:attribute, such as my_module:search, not {spec!r}.")
    # as `python -m` does: the modules of the working directory are at hand
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        value: object = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = f"There is no module {error.name!r}" + (
            "" if error.name == module_name else f", which {module_name} needs"
        )
        raise ConfigurationError(f"{flag} {spec}: {missing}.") from error
    except Exception as error:
        raise ConfigurationError(f"{flag} {spec}: importing it failed with {type(error).__name__}: {error}") from error
    for name in path.split("."):
        if not hasattr(value, name):
            close = get_close_matches(name, [each for each in dir(value) if not each.startswith("_")], 3)
            hint = f" Did you mean {' or '.join(close)}?" if close else ""
            raise ConfigurationError(f"{flag} {spec}: {module_name!r} has no {name!r}.{hint}")
        value = getattr(value, name)
    return value
