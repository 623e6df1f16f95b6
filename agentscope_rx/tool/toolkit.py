"""`Toolkit`: the tools of an agent in the order of their registration, and how their calls run.

A call's config is, field by field: the tool's own, over the given one, over the toolkit's, over `TOOL_DEFAULTS`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor
from typing import Self, cast

from agentscope_rx.errors import ConfigurationError, DuplicateToolError
from agentscope_rx.message import ToolResultBlock, ToolUseBlock
from agentscope_rx.model.options import TOOL_DEFAULTS, ExecutionConfig, ToolSchema
from agentscope_rx.reactive import Flow, defer, just, merge_ordered
from agentscope_rx.tool.approval import ApprovalPolicy, check_policy, needs_approval
from agentscope_rx.tool.call import run_tool
from agentscope_rx.tool.context import ToolContext
from agentscope_rx.tool.entry import Entry
from agentscope_rx.tool.event import ToolEvent
from agentscope_rx.tool.external import ExternalTool
from agentscope_rx.tool.failure import not_found
from agentscope_rx.tool.making import as_tool, tool_methods
from agentscope_rx.tool.tool import Tool

MAX_CONCURRENCY = 16


class Toolkit:
    """A registry of tools by name, and the way to call them.

    `tools` are tools, functions to make tools of, or objects with `@tool` methods. Calls of one batch run at once, at
    most `max_concurrency` of them, or one after the other with `parallel=False`. Blocking functions without an
    executor of their own run on `executor`. `approval` says which calls wait for a person (see `tool.approval`).
    """

    def __init__(
        self,
        tools: Iterable[object] = (),
        *,
        parallel: bool = True,
        max_concurrency: int = MAX_CONCURRENCY,
        execution_config: ExecutionConfig | None = None,
        executor: Executor | None = None,
        approval: ApprovalPolicy | None = None,
    ) -> None:
        if not isinstance(max_concurrency, int) or max_concurrency < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"max_concurrency must be a whole number of at least 1, not {max_concurrency!r}.")
        if not isinstance(tools, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"Toolkit takes several tools, as in Toolkit([tool]), not {tools!r:.60}.")
        self.parallel = parallel
        self.max_concurrency = max_concurrency
        self.executor = executor
        self.approval = check_policy(approval)
        self._config = TOOL_DEFAULTS if execution_config is None else execution_config.over(TOOL_DEFAULTS)
        self._base: Toolkit | None = None
        self._entries: dict[str, Entry] = {}
        self._changes = 0
        self._schemas: tuple[int, tuple[ToolSchema, ...]] | None = None
        for each in tools:
            self.register_all(each)

    # --- what is in it --------------------------------------------------------------------------------------------

    def register(self, tool: object) -> Tool:
        """Add one tool, made of a function or callable object if it is none yet, and return it.

        Raises `ToolDefinitionError` for what cannot be a tool, `DuplicateToolError` if the name is taken.
        """
        made = as_tool(tool)
        if made.name in self:
            raise DuplicateToolError(made.name)
        self._entries[made.name] = Entry(made)
        self._changes += 1
        return made

    def register_all(self, source: object) -> tuple[Tool, ...]:
        """Add the `@tool` methods of an object, its class's own and inherited; of anything else, the one tool it is."""
        methods = () if isinstance(source, Tool) else tool_methods(source)
        return tuple(self.register(each) for each in methods or (source,))

    def register_schema(self, schema: ToolSchema, *, reason: str | None = None) -> ExternalTool:
        """Add a tool that somebody outside runs: its calls suspend, for `reason`."""
        if not isinstance(schema, ToolSchema):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(
                f"register_schema takes ToolSchema(name, description, parameters), not {schema!r:.60}."
            )
        made = ExternalTool.of(schema, reason=reason)
        self.register(made)
        return made

    def remove(self, name: str) -> Tool:
        """Take a tool out and return it; a call of it that is running is not touched."""
        entry = self._entries.pop(name, None)
        if entry is None:
            where = "belongs to the toolkit beneath this overlay" if name in self else "is not registered"
            raise ConfigurationError(f"Tool {name!r} {where}.")
        self._changes += 1
        return entry.tool

    def get(self, name: str) -> Tool | None:
        """The tool of this name, or None."""
        entry = self._entry(name)
        return None if entry is None else entry.tool

    def schema(self, name: str) -> ToolSchema | None:
        """What a model is told of the tool of this name, or None."""
        entry = self._entry(name)
        return None if entry is None else entry.schema

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in the order of registration."""
        return tuple(schema.name for schema in self.schemas())

    def schemas(self) -> tuple[ToolSchema, ...]:
        """What a model is told of the tools, in the order of registration: the same tuple until the tools change."""
        version = self._version()
        if self._schemas is None or self._schemas[0] != version:
            beneath = self._base.schemas() if self._base is not None else ()
            named = {schema.name: schema for schema in beneath}
            named.update({name: entry.schema for name, entry in self._entries.items()})
            self._schemas = (version, tuple(named.values()))
        return self._schemas[1]

    def copy(self) -> Self:
        """A toolkit of the same class, settings and tools; a change of one does not show in the other."""
        other = copy.copy(self)
        other._entries = {name: cast("Entry", self._entry(name)) for name in self.names}
        other._base = None
        other._schemas = None
        return other

    def overlay(self, *tools: object) -> Self:
        """A view of this toolkit with more tools on top, for one run; the toolkit itself is untouched."""
        view = copy.copy(self)
        view._base = self
        view._entries = {}
        view._schemas = None
        for each in tools:
            view.register_all(each)
        return view

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._entry(name) is not None

    def __len__(self) -> int:
        return len(self.schemas())

    def __iter__(self) -> Iterator[Tool]:
        return iter([cast("Tool", self.get(name)) for name in self.names])

    def __repr__(self) -> str:
        return f"<Toolkit {', '.join(self.names) or 'without tools'}>"

    def _entry(self, name: str) -> Entry | None:
        entry = self._entries.get(name)
        return self._base._entry(name) if entry is None and self._base is not None else entry

    def _version(self) -> int:
        return self._changes + (self._base._version() if self._base is not None else 0)

    # --- calls ----------------------------------------------------------------------------------------------------

    def needs_approval(self, call: ToolUseBlock) -> bool:
        """Whether this call waits for a person before it may run. `ApprovalError` if the rule that says so failed.

        The toolkit's policy is asked first, then the tool's own mark. A call that cannot run needs no approval.
        """
        entry = self._entry(call.name)
        return entry is not None and needs_approval(entry.tool, call, self.approval)

    def call(
        self, call: ToolUseBlock, *, config: ExecutionConfig | None = None, context: ToolContext | None = None
    ) -> Flow[ToolEvent]:
        """Runs one call and emits exactly one `ToolResultBlock`, last, whatever the tool does.

        `context` is what a tool that asks for it gets; without one it gets one without a run. Approval is not asked
        here: whoever calls has it.

        Signals: `ToolChunk`, `ToolRetry` as they come, the result, completion; no error but `SourceCancelledError`.
        Cancels: the call: an async tool's `finally` blocks run, a blocking one is abandoned.
        """

        def look_up() -> Flow[ToolEvent]:
            entry = self._entry(call.name)
            if entry is None:
                return just(not_found(call, self.names))
            return run_tool(entry.tool, call, entry.plan(config, self._config), self.executor, context)

        return defer(look_up)

    def call_all(
        self,
        calls: Sequence[ToolUseBlock],
        *,
        config: ExecutionConfig | None = None,
        context: ToolContext | None = None,
    ) -> Flow[ToolEvent]:
        """Runs a batch, at most `max_concurrency` calls at once, and emits the results in call order.

        Each call gets `context` as its own: with its call in the place of the one there.

        Signals: progress of all calls as it comes; each result as soon as its turn comes; completion. One failing
        tool does not touch the others.
        Cancels: the calls in progress; those not begun never begin.
        """
        return merge_ordered(
            [self.call(each, config=config, context=context) for each in calls],
            max_concurrency=self.max_concurrency if self.parallel else 1,
            live=_is_progress,
        )


def _is_progress(event: ToolEvent) -> bool:
    return not isinstance(event, ToolResultBlock)
