"""The options of a registration: `made(source, options)` wraps the tool of any source.

Inside out: the tool, its presets, the schema in the place of its own, the added fields, the name and the other options.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Literal, TypedDict, cast

from pydantic import BaseModel

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.models.options import ExecutionConfig
from agentscope_rx.tools.argument_wrappers import ExtendedTool, OverriddenTool, PresetMode, PresetTool
from agentscope_rx.tools.background import Background, BackgroundOption, background_of
from agentscope_rx.tools.base import (
    MAX_FOREIGN_NAME,
    Approval,
    Tool,
    check_foreign_name,
    check_keywords,
    check_mark,
    check_name,
    check_read_only,
    is_plain,
)
from agentscope_rx.tools.coerce import as_tool, public_methods, tools_of
from agentscope_rx.tools.effects import Effects, check_effects
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
    """Changes each result: `(call, result) -> result`, or None for unchanged."""
    execution_config: ExecutionConfig | None
    """Limits and retries; unset fields are the tool's own."""
    requires_approval: Approval | None
    """In the place of the tool's own rule."""
    read_only: bool | None
    """In the place of the tool's own: True if its calls change nothing outside of the conversation."""
    effects: Effects | None
    """In the place of the tool's own: which arguments are paths, a command or code, for rules about them."""
    always_asks: bool | None
    """In the place of the tool's own: True if no hook and no rule lifts its `requires_approval`."""
    return_direct: bool | None
    """In the place of the tool's own: True if a result that is no error is the agent's reply."""
    background: BackgroundOption
    """In the place of the tool's own, with False too: when its calls go on in the background."""


class RegisterOptions(CommonOptions, total=False):
    """How one tool appears in a toolkit: `toolkit.register(tool, name=..., presets=...)`.

    | option | effect |
    |---|---|
    | `name`, `description` | replace the tool's own |
    | `parameters` | a JSON schema that is shown and checked; the tool's own validation follows |
    | `extend` | a pydantic model whose fields the model fills in, too; the tool does not get them |
    | `presets` | arguments that are given here; checked at registration |
    | `preset_mode="fixed"` | presets are hidden, also from messages and events; a model's value is dropped |
    | `preset_mode="default"` | presets are shown as defaults; the model's value counts |
    | `postprocess` | `(call, result) -> result`, or None for unchanged; may be async; sees errors, too |
    | `execution_config` | its set fields come before the tool's own |
    | `requires_approval`, `always_asks`, `read_only` | in the place of the tool's own |
    | `effects`, `return_direct`, `background` | in the place of the tool's own |

    In both modes a null counts as not sent, where null is no value of the parameter. `functools.partial` fixes and
    hides its arguments, too.
    """

    name: str | None
    description: str | None
    parameters: Mapping[str, object] | None
    """A JSON schema that is shown and checked in the place of the tool's own."""
    extend: type[BaseModel] | None
    """A model whose fields the model fills in beside the tool's own parameters."""
    presets: Mapping[str, object] | None
    """Arguments that are given here, in the model's place."""


class RegisterAllOptions(CommonOptions, total=False):
    """How the tools of a source appear: `toolkit.register_all(source, prefix="fs_", disable=["delete"])`.

    `presets` is a mapping by tool name. `enable` and `disable` are names of the source's tools; an unknown name is an
    error. `prefix` stands before each name. The other options are those of `RegisterOptions`.
    """

    presets: Mapping[str, Mapping[str, object]] | None
    """Arguments that are given here, by tool name."""
    enable: Iterable[str] | None
    """The tools to register; None: all."""
    disable: Iterable[str]
    """The tools to leave out."""
    prefix: str
    """Stands before each name."""


class RegisteredTool(WrapperTool):
    """A tool with options; `source` is the tool without them."""

    def __init__(self, source: Tool, options: RegisterOptions) -> None:
        chosen = options.get("background")
        background = source.background if chosen is None else background_of(source.name, chosen)
        asked = background is not None and background.asked
        super().__init__(_wrapped(source, options, asked=asked))
        self.source = source
        self.options = options
        if (name := options.get("name")) is not None:
            # a tool that is described elsewhere may have any name, and so may one that begins with it
            self.name: str = check_name(name) if is_plain(source.name) else check_foreign_name(name)
        if (description := options.get("description")) is not None:
            self.description = description
        if (config := options.get("execution_config")) is not None:
            self.execution_config: ExecutionConfig | None = config.over(source.execution_config)
        if (rule := options.get("requires_approval")) is not None:
            self.requires_approval: Approval = check_mark(self.name, rule)
        if (read_only := options.get("read_only")) is not None:
            self.read_only: bool = check_read_only(self.name, read_only)
        if (effects := options.get("effects")) is not None:
            self.effects: Effects | None = check_effects(self.name, effects, source.parameters)
        if (always := options.get("always_asks")) is not None:
            self.always_asks: bool = always
        if (direct := options.get("return_direct")) is not None:
            self.return_direct = direct
        if asked or chosen is not None:
            self.background: Background | None = (
                background.by_argument(self.name) if background and asked else background
            )
        if (postprocess := options.get("postprocess")) is not None:
            self.postprocess: Postprocess | None = both(source.postprocess, postprocess)


def made(source: object, options: RegisterOptions) -> Tool:
    """The source as a tool with these options; `ConfigurationError` for an option of the wrong type."""
    if not options:
        return _as_it_is(as_tool(source), options)
    check_keywords("register", options, RegisterOptions)
    mode = options.get("preset_mode", "fixed")
    check_choice("preset_mode", mode, PresetMode)
    for name, (kind, what) in _TYPES.items():
        value = options.get(name)
        if value is not None and not isinstance(value, kind):
            raise ConfigurationError(f"{name} must be {what}, not {value!r:.60}.")
    tool = as_tool(source)
    own = mode == "fixed" and all(value is None for name, value in options.items() if name != "preset_mode")
    asked = tool.background is not None and tool.background.asked
    return tool if own and not asked else RegisteredTool(tool, options)


def _as_it_is(tool: Tool, options: RegisterOptions) -> Tool:
    """The tool without options; it is wrapped only for the argument by which a model sends it to the background."""
    return tool if tool.background is None or not tool.background.asked else RegisteredTool(tool, options)


_TYPES: Mapping[str, tuple[Any, str]] = {
    "description": (str, "text"),
    "parameters": (Mapping, "a JSON schema (a dict)"),
    "presets": (Mapping, "a dict of arguments"),
    "return_direct": (bool, "True or False"),
    "always_asks": (bool, "True or False"),
    "effects": (Effects, "Effects(paths=(...))"),
    "execution_config": (ExecutionConfig, "an ExecutionConfig"),
    "postprocess": (Callable, "a function of a call and its result"),
}


def made_all(source: object, options: RegisterAllOptions) -> list[Tool]:
    """The tools of a source with these options; every name that the options mention must be there."""
    if not options:
        return [_as_it_is(each, {}) for each in tools_of(source)]
    check_keywords("register_all", options, RegisterAllOptions)
    common = cast("CommonOptions", {name: value for name, value in options.items() if name not in _OF_SEVERAL})
    presets, prefix = options.get("presets") or {}, options.get("prefix", "")
    check_prefix(prefix)
    found = chosen(tools_of(source), options.get("enable"), options.get("disable", ()), presets)
    return [
        made(each, {**common, "name": prefix + each.name if prefix else None, "presets": presets.get(each.name)})
        for each in found
    ]


def made_methods(source: object, options: RegisterAllOptions) -> list[Tool]:
    """The public methods of an object as tools; only those that are enabled need annotations."""
    methods = {_name_of(each): each for each in public_methods(source)}
    enable, disable = options.get("enable"), options.get("disable", ())
    for name in (*(enable or ()), *disable, *(options.get("presets") or ())):
        if name not in methods:
            raise ConfigurationError(f"There is no method {name!r} here. The methods are {', '.join(sorted(methods))}.")
    wanted, unwanted = methods if enable is None else set(enable), set(disable)
    found = [each for name, each in methods.items() if name in wanted and name not in unwanted]
    return made_all(found, {**options, "enable": None, "disable": ()})


def _name_of(method: object) -> str:
    return method.name if isinstance(method, Tool) else str(getattr(method, "__name__", ""))


def with_presets(tool: Tool, presets: Mapping[str, object] | None, mode: PresetMode | None) -> Tool:
    """The tool with these presets in the place of those given at its registration."""
    source, options = _parts(tool)
    kept = options.get("preset_mode", "fixed")
    return made(source, {**options, "presets": presets, "preset_mode": kept if mode is None else mode})


def under_name(tool: Tool, name: str) -> Tool:
    """The tool under another name."""
    source, options = _parts(tool)
    return made(source, {**options, "name": name})


def _parts(tool: Tool) -> tuple[Tool, RegisterOptions]:
    return (tool.source, tool.options) if isinstance(tool, RegisteredTool) else (tool, {})


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
        raise ConfigurationError(f"prefix must be a str, such as 'fs_', not {prefix!r:.60}.")


def check_choice(option: str, value: object, choices: object) -> None:
    """`ConfigurationError` if the value is not one of the Literal's."""
    known = cast("tuple[object, ...]", getattr(choices, "__args__", ()))
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


def check_tools(tools: object) -> None:
    """`ConfigurationError` if it is no list of tools."""
    if not isinstance(tools, Iterable):
        raise ConfigurationError(f"Toolkit takes a list of tools, as in Toolkit([tool]), not {tools!r:.60}.")


def check_executor(executor: object) -> None:
    """`ConfigurationError` if it is neither None nor has a method `submit`."""
    if executor is not None and not callable(getattr(executor, "submit", None)):
        raise ConfigurationError(f"executor must be an Executor of concurrent.futures, not {executor!r:.60}.")


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
            raise ConfigurationError(
                f"There is no tool {name!r} here. The tools are {', '.join(sorted(names)) or 'none'}."
            )
    return [tool for tool in found if tool.name in wanted and tool.name not in unwanted]


def _names(option: str, names: Iterable[str]) -> Iterable[str]:
    if isinstance(names, str):
        raise ConfigurationError(f"{option} takes a list of names, as in {option}=[{names!r}].")
    return names


def _wrapped(tool: Tool, options: RegisterOptions, *, asked: bool) -> Tool:
    parameters, presets, extend = options.get("parameters"), options.get("presets"), options.get("extend")
    mode = options.get("preset_mode", "fixed")
    if presets:
        tool = PresetTool(tool, presets, mode)
        if parameters is not None:
            # the schema may describe all parameters of the tool, or those without presets
            change = hidden if mode == "fixed" else shown_default
            parameters = change(parameters, presets)
    if parameters is not None:
        tool = OverriddenTool(tool, parameters)
    if extend is not None:
        tool = ExtendedTool(tool, extend)
    if asked:
        from agentscope_rx.tools.background_argument import Asked

        tool = ExtendedTool(tool, Asked)
    return tool
