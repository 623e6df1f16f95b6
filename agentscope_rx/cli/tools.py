"""The tools of a command line's agent: built-in ones, those of `--tools`, and those of MCP servers.

| source                  | tools                                                                                  |
|-------------------------|----------------------------------------------------------------------------------------|
| built-in                | the library's file tools, read-only, over the working directory; date and time         |
| `--tools MODULE:ATTR`   | the functions, tools or toolkits of a module                                           |
| `--mcp COMMAND|URL`     | those of an MCP server; tools that are not marked read-only need approval              |

`--agent MODULE:ATTR` is loaded here, too. A fault in a flag is one line that names the flag.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import shlex
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING, Annotated, cast
from zoneinfo import ZoneInfo, available_timezones

from pydantic import Field

from agentscope_rx.agent import Agent
from agentscope_rx.errors import ConfigurationError, McpError, MissingExtraError, ToolError
from agentscope_rx.tools import Tool, Toolkit, tool
from agentscope_rx.tools.files import FileTools, Workspace

if TYPE_CHECKING:
    from agentscope_rx.tools.mcp import McpServer, McpTool


def toolkit_of(specs: Iterable[str], builtin: Toolkit | None) -> Toolkit:
    """One toolkit of the tools that the specs name and of the built-in ones, if given.

    It has the settings of the first `Toolkit` that is named: its limits, and if calls run in parallel.
    """
    named = [(spec, load("--tools", spec)) for spec in specs]
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
    for each in builtin or ():
        if each.name in whole:
            raise ConfigurationError(
                f"--tools names a tool {each.name!r}, which is the name of a built-in tool, too. "
                "Rename yours, or add --no-builtin-tools."
            )
        whole.register(each)
    return whole


def agent_of(spec: str) -> Agent:
    """The agent that the spec names, or the result of the function without arguments that it names."""
    value = load("--agent", spec)
    if callable(value) and not isinstance(value, Agent):
        try:
            value = value()
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            raise ConfigurationError(f"--agent {spec}: calling it failed with {what}") from error
    if not isinstance(value, Agent):
        raise ConfigurationError(f"--agent {spec}: this is not an Agent or a function that returns one: {value!r:.60}.")
    return value


def _members(value: object) -> Iterable[object]:
    if isinstance(value, Tool):
        return (value,)
    if isinstance(value, (Toolkit, list, tuple, set, frozenset)):
        return cast("Iterable[object]", value)
    return (value,)


def load(flag: str, spec: str) -> object:
    """The attribute that `MODULE:ATTR` or `FILE.py:ATTR` names; `ConfigurationError` if there is none."""
    module_name, colon, path = spec.rpartition(":")
    if not colon or not module_name or not path:
        raise ConfigurationError(f"{flag} takes module:attribute, such as my_module:search, not {spec!r}.")
    if module_name.endswith(".py"):
        return _attribute(flag, spec, _imported_file(flag, spec, module_name), path)
    # like `python -m`: modules of the working directory can be imported
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
    return _attribute(flag, spec, value, path)


def _imported_file(flag: str, spec: str, file: str) -> object:
    if not os.path.isfile(file):
        raise ConfigurationError(f"{flag} {spec}: there is no file {file!r}.")
    folder, name = os.path.split(os.path.abspath(file))
    found = importlib.util.spec_from_file_location(name.removesuffix(".py"), file)
    if found is None or found.loader is None:
        raise ConfigurationError(f"{flag} {spec}: {file!r} cannot be imported.")
    module = importlib.util.module_from_spec(found)
    # like a script: the modules beside it can be imported
    if folder not in sys.path:
        sys.path.insert(0, folder)
    # tools find the annotations of their functions by the name of the module
    sys.modules.setdefault(module.__name__, module)
    try:
        found.loader.exec_module(module)
    except Exception as error:
        raise ConfigurationError(f"{flag} {spec}: running it failed with {type(error).__name__}: {error}") from error
    return module


def _attribute(flag: str, spec: str, value: object, path: str) -> object:
    module_name = spec.rpartition(":")[0]
    for name in path.split("."):
        if not hasattr(value, name):
            close = get_close_matches(name, [each for each in dir(value) if not each.startswith("_")], 3)
            hint = f" Did you mean {' or '.join(close)}?" if close else ""
            raise ConfigurationError(f"{flag} {spec}: {module_name!r} has no {name!r}.{hint}")
        value = getattr(value, name)
    return value


def builtin_tools(root: str | os.PathLike[str] = ".") -> Toolkit:
    """The built-in tools; the file tools see the files below `root`."""
    return Toolkit([FileTools(Workspace(root, portable=False), read_only=True), current_time])


@tool
def current_time(
    timezone: Annotated[str, Field(description="An IANA time zone.", examples=["Europe/Paris"])] = "UTC",
) -> str:
    """Tell the current time: the hour, the date today, the day of the week, now, in a city or time zone."""
    name = _zone_name(timezone)
    now = datetime.now(UTC if name == "UTC" else ZoneInfo(name))
    return f"{now:%A}, {now.day} {now:%B %Y}, {now:%H:%M} {name}"


def _zone_name(given: str) -> str:
    """The IANA name of a zone, which may be given in any case or by its city."""
    name = "_".join(given.split()).lower()
    if name in ("", "utc", "gmt"):
        return "UTC"
    zones = _zones()
    if name not in zones:
        close = get_close_matches(name[:80], zones, 3)
        hint = f" Similar ones: {', '.join(zones[each] for each in close)}." if close else ""
        raise ToolError(f"There is no time zone {given!r:.80}.{hint} Use a name such as Europe/Paris.")
    return zones[name]


@cache
def _zones() -> dict[str, str]:
    """IANA names under their city and under themselves; Area/City wins over older links such as Japan."""
    names = sorted(available_timezones(), key=lambda name: name.count("/") == 1)
    return {name.rpartition("/")[2].lower(): name for name in names} | {name.lower(): name for name in names}


class UnusableServerError(ConfigurationError):
    """A server of `--mcp` cannot be used."""


def add_servers(toolkit: Toolkit, specs: Iterable[str]) -> None:
    """Add the tools of each server; if one fails, the connections made before are closed."""
    try:
        for spec in specs:
            _add(toolkit, spec)
    except BaseException:
        toolkit.close().run()
        raise


def _add(toolkit: Toolkit, spec: str) -> None:
    try:
        # imported here: it needs the packages of an extra
        from agentscope_rx.tools.mcp.client import default_name

        server = _server(spec)
        name = base = default_name(server)
        number = 1
        while name in toolkit.mcp:
            number += 1
            name = f"{base}-{number}"
        toolkit.register_mcp(server, name=name, requires_approval=_may_change).run()
    except MissingExtraError:
        raise
    except (ConfigurationError, McpError) as error:
        raise UnusableServerError(f"--mcp {spec}: {error}") from error


def _server(spec: str) -> McpServer:
    from agentscope_rx.tools.mcp import McpHttp, McpSse, McpStdio

    if spec.startswith(("http://", "https://")):
        # the older transport's URLs end so by convention
        return McpSse(spec) if spec.partition("?")[0].rstrip("/").endswith("/sse") else McpHttp(spec)
    try:
        words = shlex.split(spec)
    except ValueError as error:
        raise ConfigurationError(f"this is not a command: {error}.") from error
    if not words:
        raise ConfigurationError("it takes a command, such as 'uvx mcp-server-time', or a URL.")
    return McpStdio(words[0], words[1:])


def _may_change(tool: McpTool) -> bool:
    """True unless the server marks the tool read-only."""
    return not tool.hints.read_only
