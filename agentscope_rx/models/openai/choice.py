"""Tools and the choice among them on the wire. Pure.

| asked for | where the server has no such mode                                                                |
|-----------|--------------------------------------------------------------------------------------------------|
| auto      | not sent: it is how servers are                                                                  |
| none      | the tools are not sent                                                                           |
| specific  | that tool alone is sent, and a call of it required; without "required": `UnsupportedOptionError` |
| required  | the only tool there is, by name; among several: `UnsupportedOptionError`                         |

So whatever is sent has the meaning that was asked for.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentscope_rx.errors import UnsupportedOptionError
from agentscope_rx.models.openai.profile import Profile
from agentscope_rx.models.options import GenerateOptions, ToolChoice, ToolSchema


def tool_fields(tools: Sequence[ToolSchema], options: GenerateOptions, profile: Profile) -> dict[str, object]:
    """`tools`, `tool_choice` and `parallel_tool_calls`, as far as they are needed."""
    choice = options.tool_choice
    if choice is not None:
        choice.check(tools)
    if not tools:
        return {}
    chosen: object = None
    if choice is not None:
        tools, chosen = _chosen(choice, tools, profile)
        if not tools:
            return {}
    fields: dict[str, object] = {"tools": [format_tool(tool, strict=profile.strict) for tool in tools]}
    if chosen is not None:
        fields["tool_choice"] = chosen
    return fields | _parallel(options.parallel_tool_calls, profile)


def format_tool(tool: ToolSchema, *, strict: bool = True) -> dict[str, object]:
    """A tool on the wire."""
    function: dict[str, object] = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters or {"type": "object", "properties": {}},
    }
    if tool.strict is not None and strict:
        function["strict"] = tool.strict
    return {"type": "function", "function": function}


def _chosen(
    choice: ToolChoice, tools: Sequence[ToolSchema], profile: Profile
) -> tuple[Sequence[ToolSchema], object | None]:
    """The tools to send, and the choice among them."""
    modes, mode = profile.tool_choice, choice.mode
    named = [tool for tool in tools if tool.name == choice.tool]
    if mode in modes:
        return tools, _by_name(choice.tool) if mode == "specific" else mode
    if mode == "auto":
        return tools, None
    if mode == "none":
        return (), None
    if mode == "specific" and "required" in modes:
        return named, "required"
    if mode == "required" and "specific" in modes and len(tools) == 1:
        return tools, _by_name(tools[0].name)
    raise UnsupportedOptionError(
        f"{profile.title} takes no tool_choice {mode!r}, only {', '.join(sorted(modes))}. Leave it out and ask for the "
        "call in words, or try additional_body_params={'tool_choice': ...} if your model takes it.",
        option="tool_choice",
    )


def _by_name(name: str | None) -> dict[str, object]:
    return {"type": "function", "function": {"name": name}}


def _parallel(wanted: bool | None, profile: Profile) -> dict[str, object]:
    if wanted is None:
        return {}
    if profile.parallel:
        return {"parallel_tool_calls": wanted}
    if wanted:
        # it is how it is
        return {}
    raise UnsupportedOptionError(
        f"{profile.title} cannot be told to call one tool at a time (parallel_tool_calls=False).",
        option="parallel_tool_calls",
    )
