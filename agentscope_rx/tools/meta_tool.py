"""`reset_equipped_tools`: the tool by which a model chooses its groups of tools.

Its schema names the groups of the toolkit, or of the view of a run, that lists it; its calls change that same view, so
the choice belongs to the conversation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from agentscope_rx.errors import ToolError
from agentscope_rx.messages.frozen import freeze
from agentscope_rx.models.options import ToolSchema
from agentscope_rx.reactive import Flow, defer, just
from agentscope_rx.tools.arguments import InvalidArgumentsError
from agentscope_rx.tools.base import Tool, ToolSource, check_names
from agentscope_rx.tools.context import ToolContext

META_TOOL = "reset_equipped_tools"

_DESCRIPTION = (
    "Choose which groups of tools you are equipped with. Tools of an inactive group cannot be called; activate a group "
    "before you need its tools, and deactivate what you no longer need."
)


class MetaTool(Tool):
    """Activates and deactivates groups of the toolkit that it is called through; all names are checked first."""

    name = META_TOOL
    read_only = True
    description = _DESCRIPTION
    parameters: Mapping[str, object] = freeze(
        {
            "type": "object",
            "properties": {
                "to_activate": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "Names of the groups to activate.",
                },
                "to_deactivate": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "Names of the groups to deactivate.",
                },
            },
            "additionalProperties": False,
        }
    )

    def schema_in(self, toolkit: ToolSource) -> ToolSchema:
        """The schema with the groups of this toolkit, as they are now."""
        names = [group.name for group in toolkit.groups]
        properties = cast("Mapping[str, Mapping[str, object]]", self.parameters["properties"])
        named = {
            name: {**each, "items": {"type": "string", "enum": names} if names else {"type": "string"}}
            for name, each in properties.items()
        }
        return ToolSchema(self.name, _described(toolkit), freeze({**self.parameters, "properties": named}))

    def validate(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        check_names(self, arguments)
        given = dict(arguments)
        problems: list[str] = []
        for name, value in list(given.items()):
            if value is None:
                # models send null for what they leave out
                del given[name]
            elif not isinstance(value, list) or not all(isinstance(each, str) for each in cast("list[object]", value)):
                problems.append(f"{name}: must be a list of names of groups; given {value!r:.100}")
        if not given:
            problems.append("to_activate: is required and was not given, nor was to_deactivate")
        if problems:
            raise InvalidArgumentsError(self.name, problems)
        return given

    def call(self, arguments: Mapping[str, object]) -> Flow[object]:
        raise ToolError(f"{META_TOOL} can only be called through a toolkit.")

    def call_with(self, arguments: Mapping[str, object], context: ToolContext) -> Flow[object]:
        return defer(lambda: just(self._equip(cast("Mapping[str, list[str]]", arguments), context.toolkit)))

    def _equip(self, arguments: Mapping[str, list[str]], toolkit: ToolSource | None) -> str:
        if toolkit is None:
            raise ToolError(f"{META_TOOL} can only be called through a toolkit.")
        on, off = arguments.get("to_activate", []), arguments.get("to_deactivate", [])
        known = [group.name for group in toolkit.groups]
        problems = [
            f"{name}: there is no group {each!r}; the groups are {', '.join(known) or 'none'}"
            for name, names in (("to_activate", on), ("to_deactivate", off))
            for each in names
            if each not in known
        ]
        problems += [f"to_deactivate: {each!r} is in to_activate, too" for each in off if each in on]
        if problems:
            raise InvalidArgumentsError(self.name, problems)
        toolkit.update_tool_groups(off, active=False)
        toolkit.update_tool_groups(on, active=True)
        return _equipped(toolkit, on)


def _described(toolkit: ToolSource) -> str:
    groups = toolkit.groups
    active = [f"- {group.name}: {group.description}" for group in groups if group.name in toolkit.active_groups]
    others = [f"- {group.name}: {group.description}" for group in groups if group.name not in toolkit.active_groups]
    return "\n".join(
        [_DESCRIPTION, "", "Active groups:", *(active or ["none"]), "Inactive groups:", *(others or ["none"])]
    )


def _equipped(toolkit: ToolSource, activated: list[str]) -> str:
    """The result that the model reads: the active groups, and the tools and notes of those just activated."""
    lines = [f"Active groups: {', '.join(toolkit.active_groups) or 'none'}."]
    for group in toolkit.groups:
        if group.name not in activated:
            continue
        lines.append(f"Group {group.name!r}: {group.description}")
        lines += [
            f"- {schema.name}: {schema.description.partition(chr(10))[0]}"
            for schema in toolkit.schemas()
            if group.name in toolkit.groups_of(schema.name)
        ]
        if group.notes:
            lines.append(group.notes)
    return "\n".join(lines)
