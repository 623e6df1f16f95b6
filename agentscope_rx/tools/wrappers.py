"""Wrappers for whole toolsets: each function takes a toolkit, a tool, an object with `@tool` methods, or several of
these, and returns changed tools; the given ones stay as they are. The functions can be nested.

    Toolkit([prefixed("fs_", only(files, "read", "list")), approving(without(shell, "status"))])

For other changes, derive from `WrapperTool`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.models.options import ExecutionConfig, ToolSchema
from agentscope_rx.tools.argument_wrappers import PresetMode
from agentscope_rx.tools.base import Tool
from agentscope_rx.tools.coerce import tools_of
from agentscope_rx.tools.options import Approval, RegisterOptions, check_prefix, chosen, made, under_name
from agentscope_rx.tools.results.postprocess import Postprocess
from agentscope_rx.tools.wrapper import WrapperTool, delegated

Tools = tuple[Tool, ...]

_NO_LIMITS = {
    *(each.name for each in fields(ToolSchema)),
    "streams",
    "takes_context",
    "postprocess",
    "requires_approval",
    "return_direct",
    "shared_by_hooks",
}


def only(tools: object, *names: str) -> Tools:
    """The tools of these names, in their original order.

    Like `without`, `renamed`, `prefixed`, `preset`, `approving`, `mapped` and `limited`, it takes a toolkit, a tool, an
    object with `@tool` methods, or several of these. It returns changed tools and leaves the given ones as they are.
    The functions nest:

        Toolkit([prefixed("fs_", only(files, "read", "list")), approving(without(shell, "status"))])
    """
    return tuple(chosen(tools_of(tools), names, (), ()))


def without(tools: object, *names: str) -> Tools:
    """The tools without those of these names."""
    return tuple(chosen(tools_of(tools), None, names, ()))


def renamed(tools: object, names: Mapping[str, str]) -> Tools:
    """The tools under new names, by old name; others keep theirs."""
    found = chosen(tools_of(tools), None, (), names)
    return tuple(under_name(each, names[each.name]) if each.name in names else each for each in found)


def prefixed(prefix: str, tools: object) -> Tools:
    """The tools with this prefix before their names."""
    check_prefix(prefix)
    return tuple(under_name(each, prefix + each.name) for each in tools_of(tools))


def preset(tools: object, values: Mapping[str, Mapping[str, object]], mode: PresetMode = "fixed") -> Tools:
    """The tools with presets, by tool name: arguments that you give in the model's place (see `Toolkit.register`)."""
    found = chosen(tools_of(tools), None, (), values)
    return tuple(
        made(each, {"presets": values[each.name], "preset_mode": mode}) if each.name in values else each
        for each in found
    )


def approving(tools: object, policy: Approval = True) -> Tools:
    """The tools with an approval rule: all calls wait for a person (True), none (False), or a function decides."""
    return _each(tools, {"requires_approval": policy})


def mapped(tools: object, function: Postprocess) -> Tools:
    """The tools with each result changed by `function`, after the tool's own `postprocess`."""
    return _each(tools, {"postprocess": function})


def limited(tools: object, config: ExecutionConfig | None = None, **limits: object) -> Tools:
    """The tools with these deadlines and retries over their own, and with other limits of `Tool`, by name.

    For example:

        limited(tools, ExecutionConfig(timeout=10), max_concurrency=2, interruptible=False)
    """
    known = sorted(name for name in delegated() if name not in _NO_LIMITS)
    for name in limits:
        if name not in known:
            raise ConfigurationError(f"A tool has no limit {name!r}: it has {', '.join(known)}.")
    if not isinstance(limits.get("interruptible", True), bool):
        raise ConfigurationError(f"interruptible must be True or False, not {limits['interruptible']!r:.60}.")
    return tuple(_with(each, limits) for each in _each(tools, {"execution_config": config}))


def _each(tools: object, options: RegisterOptions) -> Tools:
    return tuple(made(each, options) for each in tools_of(tools))


def _with(tool: Tool, limits: Mapping[str, object]) -> Tool:
    if not limits:
        return tool
    wrapper = WrapperTool(tool)
    for name, value in limits.items():
        setattr(wrapper, name, value)
    return wrapper
