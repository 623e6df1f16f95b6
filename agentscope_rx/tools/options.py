"""The options of a registration: `made(source, options)` wraps the tool of any source.

Inside out: the tool, its presets, the schema in the place of its own, the added fields, the name and the other options.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypedDict, get_args

from pydantic import BaseModel

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.models.options import ExecutionConfig
from agentscope_rx.tools.argument_wrappers import ExtendedTool, OverriddenTool, PresetMode, PresetTool
from agentscope_rx.tools.base import (
    MAX_FOREIGN_NAME,
    Approval,
    Tool,
    check_foreign_name,
    check_mark,
    check_name,
    is_plain,
)
from agentscope_rx.tools.coerce import as_tool, public_methods, tools_of
from agentscope_rx.tools.results.postprocess import Postprocess, both
from agentscope_rx.tools.schemas.edit import hidden, shown_default
from agentscope_rx.tools.wrapper import WrapperTool

Conflict = Literal["error", "override", "skip", "rename"]
_OF_SEVERAL = ("presets", "enable", "disable", "prefix")


class CommonOptions(TypedDict, total=False):
    """Options for each tool of a registration."""

    preset_mode: PresetMode
    """`"fixed"`: hidden from the model, whose value is dropped; `"default"`: the model's value counts."""
    postprocess: Postprocess | None
    """Changes each result (see `tools.results.postprocess`)."""
    execution_config: ExecutionConfig | None
    """Limits and retries; unset fields are the tool's own."""
    requires_approval: Approval | None
    """In the place of the tool's own rule."""
    return_direct: bool | None
    """In the place of the tool's own: True if a result that is no error is the agent's reply."""


class RegisterOptions(CommonOptions, total=False):
    """Options for one tool."""

    name: str | None
    description: str | None
    parameters: Mapping[str, object] | None
    """A JSON schema that is shown and checked in the place of the tool's own."""
    extend: type[BaseModel] | None
    """A model whose fields the model fills in beside the tool's own parameters."""
    presets: Mapping[str, object] | None
    """Arguments that are given here (see `tools.argument_wrappers`)."""


class RegisterAllOptions(CommonOptions, total=False):
    """Options for the tools of a source."""

    presets: Mapping[str, Mapping[str, object]] | None
    """Arguments that are given here, by tool name (see `tools.argument_wrappers`)."""
    enable: Iterable[str] | None
    """The tools to register; None: all."""
    disable: Iterable[str]
    """The tools to leave out."""
    prefix: str
    """Stands before each name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOptions:
    """`RegisterOptions` as a checked value; None stands for the tool's own."""

    name: str | None = None
    description: str | None = None
    parameters: Mapping[str, object] | None = None
    extend: type[BaseModel] | None = None
    presets: Mapping[str, object] | None = None
    preset_mode: PresetMode = "fixed"
    postprocess: Postprocess | None = None
    execution_config: ExecutionConfig | None = None
    requires_approval: Approval | None = None
    return_direct: bool | None = None

    def __post_init__(self) -> None:
        check_choice("preset_mode", self.preset_mode, PresetMode)
        _check("description", self.description, str, "text")
        _check("parameters", self.parameters, Mapping, "a JSON schema (a dict)")
        _check("presets", self.presets, Mapping, "a dict of arguments")
        _check("return_direct", self.return_direct, bool, "True or False")
        _check("execution_config", self.execution_config, ExecutionConfig, "an ExecutionConfig")
        if self.postprocess is not None and not callable(self.postprocess):
            raise ConfigurationError(
                f"postprocess must be a function of a call and its result, not {self.postprocess!r:.60}."
            )


class RegisteredTool(WrapperTool):
    """A tool with options; `source` is the tool without them."""

    def __init__(self, source: Tool, options: ToolOptions) -> None:
        super().__init__(_wrapped(source, options))
        self.source = source
        self.options = options
        if options.name is not None:
            # a tool that is described elsewhere may have any name, and so may one that begins with it
            self.name = check_name(options.name) if is_plain(source.name) else check_foreign_name(options.name)
        if options.description is not None:
            self.description = options.description
        if options.execution_config is not None:
            self.execution_config = options.execution_config.over(source.execution_config)
        if options.requires_approval is not None:
            self.requires_approval = check_mark(self.name, options.requires_approval)
        if options.return_direct is not None:
            self.return_direct = options.return_direct
        if options.postprocess is not None:
            self.postprocess = both(source.postprocess, options.postprocess)


def made(source: object, options: ToolOptions) -> Tool:
    """The source as a tool with these options."""
    tool = as_tool(source)
    return tool if options == NO_OPTIONS else RegisteredTool(tool, options)


def made_all(source: object, options: RegisterAllOptions) -> list[Tool]:
    """The tools of a source with these options; every name that the options mention must be there."""
    common = {name: value for name, value in options.items() if name not in _OF_SEVERAL}
    presets, prefix = options.get("presets") or {}, options.get("prefix", "")
    check_prefix(prefix)
    found = chosen(tools_of(source), options.get("enable"), options.get("disable", ()), presets)
    return [
        made(each, ToolOptions(name=prefix + each.name if prefix else None, presets=presets.get(each.name), **common))  # pyright: ignore[reportArgumentType]
        for each in found
    ]


def chosen_methods(source: object, options: RegisterAllOptions) -> list[object]:
    """The public methods of an object that the options choose; the options then hold no more choice."""
    methods = {_name_of(each): each for each in public_methods(source)}
    enable, disable = options.pop("enable", None), options.pop("disable", ())
    for name in (*(enable or ()), *disable, *(options.get("presets") or ())):
        if name not in methods:
            raise ConfigurationError(f"There is no method {name!r} here: there are {', '.join(sorted(methods))}.")
    wanted, unwanted = methods if enable is None else set(enable), set(disable)
    return [each for name, each in methods.items() if name in wanted and name not in unwanted]


def _name_of(method: object) -> str:
    return method.name if isinstance(method, Tool) else str(getattr(method, "__name__", ""))


def with_presets(tool: Tool, presets: Mapping[str, object] | None, mode: PresetMode | None) -> Tool:
    """The tool with these presets in the place of those given at its registration."""
    source, options = (tool.source, tool.options) if isinstance(tool, RegisteredTool) else (tool, NO_OPTIONS)
    return made(source, replace(options, presets=presets, preset_mode=options.preset_mode if mode is None else mode))


def under_name(tool: Tool, name: str) -> Tool:
    """The tool under another name."""
    if isinstance(tool, RegisteredTool):
        return made(tool.source, replace(tool.options, name=name))
    return made(tool, ToolOptions(name=name))


def free_name(name: str, taken: Collection[str]) -> str:
    """The name, or the first of name_2, name_3, ... that is not taken; never longer than models accept."""
    number, found = 1, name
    while found in taken:
        number += 1
        end = f"_{number}"
        found = name[: (64 if is_plain(name) else MAX_FOREIGN_NAME) - len(end)] + end
    return found


def check_prefix(prefix: object) -> None:
    """`ConfigurationError` if it is not text."""
    if not isinstance(prefix, str):
        raise ConfigurationError(f"prefix must be text to stand before names, such as 'fs_', not {prefix!r:.60}.")


def check_choice(option: str, value: object, choices: object) -> None:
    """`ConfigurationError` if the value is not one of the Literal's."""
    known = get_args(choices)
    if value not in known:
        raise ConfigurationError(f"{option} must be one of {', '.join(map(repr, known))}, not {value!r:.60}.")


def check_count(option: str, value: object, *, optional: bool = False) -> None:
    """`ConfigurationError` if the value is no whole number of at least 1."""
    if (type(value) is not int or value < 1) and not (optional and value is None):
        raise ConfigurationError(f"{option} must be a whole number of at least 1, not {value!r:.60}.")


def check_flag(option: str, value: object) -> None:
    """`ConfigurationError` if the value is neither True nor False."""
    if not isinstance(value, bool):
        raise ConfigurationError(f"{option} must be True or False, not {value!r:.60}.")


def chosen(
    tools: Iterable[Tool], enable: Iterable[str] | None, disable: Iterable[str], mentioned: Iterable[str]
) -> list[Tool]:
    """The tools that are enabled (all, if None) and not disabled; every name that is mentioned must exist."""
    found = list(tools)
    names = {tool.name for tool in found}
    wanted = names if enable is None else set(_names("enable", enable))
    unwanted = set(_names("disable", disable))
    for name in [*wanted, *unwanted, *mentioned]:
        if name not in names:
            raise ConfigurationError(f"There is no tool {name!r} here: there are {', '.join(sorted(names)) or 'none'}.")
    return [tool for tool in found if tool.name in wanted and tool.name not in unwanted]


def _names(option: str, names: Iterable[str]) -> Iterable[str]:
    if isinstance(names, str):
        raise ConfigurationError(f"{option} takes several names, as in {option}=[{names!r}].")
    return names


def _wrapped(tool: Tool, options: ToolOptions) -> Tool:
    parameters, presets = options.parameters, options.presets
    if presets:
        tool = PresetTool(tool, presets, options.preset_mode)
        if parameters is not None:
            # the schema may describe all parameters of the tool, or those without presets
            change = hidden if options.preset_mode == "fixed" else shown_default
            parameters = change(parameters, presets)
    if parameters is not None:
        tool = OverriddenTool(tool, parameters)
    return tool if options.extend is None else ExtendedTool(tool, options.extend)


def _check(option: str, value: object, kind: type, what: str) -> None:
    if value is not None and not isinstance(value, kind):
        raise ConfigurationError(f"{option} must be {what}, not {value!r:.60}.")


NO_OPTIONS = ToolOptions()
