"""`ExternalTool`: a tool that the model may call and that somebody else runs: a browser, a client, a person.

    toolkit.register_schema(ToolSchema("pick_file", "Let the user pick a file.", {"type": "object", ...}))

Its arguments are checked here against the schema, then the call is suspended: the run ends, and goes on when the caller
brings the result. The placeholder's metadata has the checked `arguments` (but for fixed presets, which are in no
message); the call itself has them as the model wrote them. A null for a field at the top that is not required counts as
not given, as models often send it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agentscope_rx.errors import ToolSuspend
from agentscope_rx.messages.frozen import freeze
from agentscope_rx.models.options import ToolSchema
from agentscope_rx.reactive import Flow, throw
from agentscope_rx.tools.base import NO_PARAMETERS, Tool, check_foreign_name, check_mark
from agentscope_rx.tools.schemas.check import check_of, fitting


class ExternalTool(Tool):
    """A schema without a function: each valid call suspends, for `reason`.

    `ToolDefinitionError` if `parameters` is no JSON schema of type object, or one that cannot be checked.
    """

    def __init__(
        self,
        name: str,
        description: str = "",
        parameters: Mapping[str, object] = NO_PARAMETERS,
        *,
        strict: bool | None = None,
        reason: str | None = None,
        requires_approval: bool | Callable[[Mapping[str, Any]], bool] = False,
    ) -> None:
        self.name = check_foreign_name(name)
        self.description = description
        self.parameters = freeze(parameters)
        self._check = check_of(name, self.parameters)
        self.strict = strict
        self.reason = reason
        self.requires_approval = check_mark(name, requires_approval)

    def __repr__(self) -> str:
        return f"<external tool {self.name}>"

    @classmethod
    def of(cls, schema: ToolSchema, *, reason: str | None = None) -> ExternalTool:
        """The tool that this schema describes."""
        return cls(schema.name, schema.description, schema.parameters, strict=schema.strict, reason=reason)

    def validate(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        """The arguments if they fit the schema, or `InvalidArgumentsError` with every problem."""
        return fitting(self._check, self.name, arguments)

    def call(self, arguments: Mapping[str, object]) -> Flow[object]:
        """Signals: a `ToolSuspend`. Cancels: nothing."""
        return throw(ToolSuspend(self.reason, arguments=dict(arguments)))
