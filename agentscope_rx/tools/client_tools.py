"""`ClientTools`: tools that the caller brings for one call, and runs itself.

    agent.call("Book the room.", context=RuntimeContext(ClientTools({"type": "function", "function": {...}})))

A call of one suspends the run, as that of an `ExternalTool` does: the caller's next input has the results. Give the
tools again with it, if the model may call them again. Sub-agents do not have them, because the caller cannot answer in
their conversations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.models.options import ToolSchema
from agentscope_rx.tools.from_schema import ExternalTool, schema_of
from agentscope_rx.tools.toolkit import Toolkit


class ClientTools:
    """The caller's tools for one call, as schemas: see `schema_of` for the forms. Pass it in a `RuntimeContext`.

    `ToolDefinitionError` if one is no schema of a tool, `InvalidInputError` if two have the same name. The call fails
    with an `InvalidInputError` if the agent has a tool of the same name.
    """

    __slots__ = ("_tools",)

    def __init__(self, *schemas: ToolSchema | Mapping[str, object]) -> None:
        tools: dict[str, ExternalTool] = {}
        for each in schemas:
            schema = schema_of(each)
            if schema.name in tools:
                raise InvalidInputError(f"Two tools of the caller have the name {schema.name!r:.80}.")
            tools[schema.name] = ExternalTool(
                schema.name,
                schema.description,
                schema.parameters,
                strict=schema.strict,
                reason="The client runs this tool.",
            )
        self._tools = tools

    def __repr__(self) -> str:
        return f"<ClientTools {', '.join(self._tools) or 'none'}>"

    def __iter__(self) -> Iterator[ExternalTool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def over(self, toolkit: Toolkit) -> Toolkit:
        """A view of this toolkit with the caller's tools on top."""
        for name in self._tools:
            if name in toolkit:
                raise InvalidInputError(
                    f"The caller's tool {name!r:.80} has the name of a tool of the agent. Give it another name."
                )
        return toolkit.overlay(*self._tools.values())
