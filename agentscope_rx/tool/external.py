"""`ExternalTool`: a tool that the model may call and that somebody else runs: a browser, a client, a person.

    toolkit.register_schema(ToolSchema("pick_file", "Let the user pick a file.", {"type": "object", ...}))

Its arguments are checked here, then the call is suspended: the run ends, and goes on when the caller brings the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agentscope_rx.errors import ToolSuspend
from agentscope_rx.message.frozen import freeze
from agentscope_rx.model.options import ToolSchema
from agentscope_rx.reactive import Flow, fail
from agentscope_rx.tool.tool import NO_PARAMETERS, Tool, check_name


class ExternalTool(Tool):
    """A schema without a function: each valid call suspends, for `reason`."""

    def __init__(
        self,
        name: str,
        description: str = "",
        parameters: Mapping[str, object] = NO_PARAMETERS,
        *,
        strict: bool | None = None,
        reason: str | None = None,
        requires_approval: bool | Callable[[Mapping[str, object]], bool] = False,
    ) -> None:
        self.name = check_name(name)
        self.description = description
        self.parameters = freeze(parameters)
        self.strict = strict
        self.reason = reason
        self.requires_approval = requires_approval

    @classmethod
    def of(cls, schema: ToolSchema, *, reason: str | None = None) -> ExternalTool:
        """The tool that this schema describes."""
        return cls(schema.name, schema.description, schema.parameters, strict=schema.strict, reason=reason)

    def call(self, arguments: Mapping[str, object]) -> Flow[object]:
        """Signals: a `ToolSuspend`. Cancels: nothing."""
        return fail(ToolSuspend(self.reason))
