"""`Toolkit`: the tools of an agent in the order of their registration, and how their calls run."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import TYPE_CHECKING, Self, Unpack, overload

from agentscope_rx.context import ContextStore, RuntimeContext, check_store, view_of
from agentscope_rx.errors import ConfigurationError, InvalidInputError
from agentscope_rx.messages import ToolResultBlock, ToolUseBlock
from agentscope_rx.models.options import TOOL_DEFAULTS, ExecutionConfig, ToolSchema
from agentscope_rx.reactive import Flow, OneShotEvent, Semaphore, defer, just
from agentscope_rx.tools.approval import ApprovalPolicy, AskHooks, asks, check_policy, refused_by
from agentscope_rx.tools.argument_wrappers import PresetMode, layered, layered_call
from agentscope_rx.tools.base import Tool
from agentscope_rx.tools.calls.batch import OnFailure, ToolBatch, run_batch
from agentscope_rx.tools.calls.execute import Admission, PreparedCall, run_tool
from agentscope_rx.tools.calls.failure import not_available, not_found
from agentscope_rx.tools.calls.signals import ToolEvent
from agentscope_rx.tools.context import ToolContext
from agentscope_rx.tools.from_schema import ExternalTool, schema_of
from agentscope_rx.tools.groups import Group, ToolGroup
from agentscope_rx.tools.limits import UNLIMITED
from agentscope_rx.tools.meta_tool import META_TOOL, MetaTool
from agentscope_rx.tools.options import (
    Conflict,
    RegisterAllOptions,
    RegisterOptions,
    check_choice,
    check_count,
    check_executor,
    check_flag,
    check_tools,
    made,
    made_all,
    made_methods,
    with_presets,
)
from agentscope_rx.tools.registry import Registry
from agentscope_rx.tools.results.result_limit import DEFAULT_LIMIT, ResultLimit, check_limit, limit_of
from agentscope_rx.tools.servers import McpOptions, McpServerOptions, ToolServers, serve

if TYPE_CHECKING:
    from agentscope_rx.tools.mcp import McpClient, McpServer
    from agentscope_rx.tools.mcp.registration import Registration

MAX_CONCURRENCY = 64
MAX_KEPT = 64
"""Lists of schemas that are kept until the tools change, one for each set of active groups."""


class Toolkit:
    """Holds tools by name and runs their calls.

    `tools` are tools, functions, objects with `@tool` methods, toolkits, or lists of these. `tool` has the options of
    one tool, `ToolPolicy` the rules of approval, `ToolGroup` those of groups.

    | argument | default | effect |
    |---|---|---|
    | `max_concurrency` | 64 | calls of one round at once; `parallel=False` means 1 |
    | `max_concurrency_total` | None | calls of all rounds and runs at once, copies and overlays included |
    | `execution_config` | 5 minutes, one attempt | deadlines and retries; a tool's and the agent's come first |
    | `executor` | None | runs blocking functions that have none |
    | `approval` | None | the calls that need a person: a function of the call, or a `ToolPolicy` |
    | `on_failure` | "collect" | "cancel_siblings": the first failure of a round ends its other calls |
    | `max_result` | 100,000 characters | larger results are cut, or stored by an evictor; None: no limit |
    | `context_store` | None | searched for objects that the call's context does not have |
    | `allow_deletion` | True | False: `remove` and `remove_tool_groups` raise `ConfigurationError` |
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
        max_concurrency_total: int | None = None,
        on_failure: OnFailure = "collect",
        max_result: int | ResultLimit | None = DEFAULT_LIMIT,
        context_store: ContextStore | None = None,
        allow_deletion: bool = True,
    ) -> None:
        check_count("max_concurrency", max_concurrency)
        check_count("max_concurrency_total", max_concurrency_total, optional=True)
        check_flag("parallel", parallel)
        check_flag("allow_deletion", allow_deletion)
        check_choice("on_failure", on_failure, OnFailure)
        check_tools(tools)
        check_executor(executor)
        self.parallel = parallel
        self.allow_deletion = allow_deletion
        self.max_concurrency = max_concurrency
        self.executor = executor
        self.approval: ApprovalPolicy | None = check_policy(approval)
        self.on_failure: OnFailure = on_failure
        # shared with copies and overlays: it protects what their tools have in common
        self._total = () if max_concurrency_total is None else (Semaphore(max_concurrency_total, shared=True),)
        self.max_result: ResultLimit | None = check_limit(max_result, "a toolkit")
        self.context_store: ContextStore | None = check_store(context_store, "a toolkit")
        self._config = TOOL_DEFAULTS if execution_config is None else execution_config.over(TOOL_DEFAULTS)
        self._registry = Registry()
        self._servers = ToolServers()
        self._schemas: tuple[int, dict[tuple[str, ...], tuple[ToolSchema, ...]]] = (-1, {})
        for each in tools:
            self.register_all(each)

    # --- registration ---------------------------------------------------------------------------------------------

    def register(
        self, tool: object, *, group: Group = None, on_conflict: Conflict = "error", **options: Unpack[RegisterOptions]
    ) -> Tool:
        """Add a `Tool`, a function or a callable object, and return the registered tool.

        `options` change its schema, arguments and results (see `RegisterOptions`), `group` names its groups.
        `on_conflict` decides if the name is taken: "error", "override", "skip" (return the other tool) or "rename"
        (name_2, name_3, ...). Raises `ToolDefinitionError` if the object cannot be a tool, `DuplicateToolError` if the
        name is taken, `ConfigurationError` if there is no such group.
        """
        return self._registry.add([made(tool, options)], group, on_conflict)[0]

    def register_all(
        self,
        source: object,
        *,
        group: Group = None,
        on_conflict: Conflict = "error",
        **options: Unpack[RegisterAllOptions],
    ) -> tuple[Tool, ...]:
        """Add all tools of a source, or none if one of them fails.

        A source is an object with `@tool` methods (inherited ones count), a toolkit, a list of sources, or an argument
        of `register`. `presets` is a mapping by tool name; `enable` and `disable` are lists of tool names; `prefix` is
        put before each name.
        """
        return self._registry.add(made_all(source, options), group, on_conflict)

    def register_methods(
        self,
        source: object,
        *,
        group: Group = None,
        on_conflict: Conflict = "error",
        **options: Unpack[RegisterAllOptions],
    ) -> tuple[Tool, ...]:
        """Add the public methods of an object as tools, with or without `@tool`; otherwise like `register_all`.

        Methods that `enable` or `disable` leave out need no annotations.
        """
        return self._registry.add(made_methods(source, options), group, on_conflict)

    def register_meta_tool(self) -> Tool:
        """Add `reset_equipped_tools`, the tool by which a model activates and deactivates groups."""
        return self.register(MetaTool())

    def register_schema(self, schema: ToolSchema | Mapping[str, object], *, reason: str | None = None) -> ExternalTool:
        """Add a tool whose calls are run outside of this process: they suspend the run, with this `reason`."""
        if not isinstance(schema, (ToolSchema, Mapping)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(
                f"register_schema takes ToolSchema(name, description, parameters), not {schema!r:.60}."
            )
        external = ExternalTool.of(schema_of(schema), reason=reason)
        self.register(external)
        return external

    def update_presets(
        self, name: str, presets: Mapping[str, object] | None, *, preset_mode: PresetMode | None = None
    ) -> Tool:
        """Replace the presets of a tool (None: no presets) from its next call on, and return the changed tool.

        Copies of this toolkit keep their presets; a change on an overlay is for the overlay alone.
        """
        entry = self._registry.find(name)
        if entry is None:
            raise ConfigurationError(f"Tool {name!r} is not registered.")
        if preset_mode is not None:
            check_choice("preset_mode", preset_mode, PresetMode)
        changed = with_presets(entry.tool, presets, preset_mode)
        self._registry.put(changed)
        return changed

    @overload
    def remove(self, name: str) -> Tool: ...
    @overload
    def remove(self, name: str, *, only: Tool) -> Tool | None: ...
    def remove(self, name: str, *, only: Tool | None = None) -> Tool | None:
        """Remove a tool and return it; its running calls continue.

        With `only`, the tool is removed only if it is this object, or wraps it; else nothing changes and None is
        returned.
        """
        self._check_deletion(f"tool {name!r}")
        return self.take_out(name, only)

    def replace_tools(self, old: Mapping[str, Tool], register: Callable[[Self], Sequence[Tool]]) -> tuple[Tool, ...]:
        """Remove the old tools and add those that `register` adds, in one step; change nothing if it fails."""
        other = self.copy()
        for name, tool in old.items():
            other.take_out(name, tool)
        kept = other._registry.own_names
        added = tuple(register(other))
        self._registry.replace(old, kept, other._registry)
        return added

    def take_out(self, name: str, only: Tool | None) -> Tool | None:
        """Like `remove`, but allowed with `allow_deletion=False`: an MCP server may change its list of tools."""
        return self._registry.remove(name, only)

    def _check_deletion(self, what: str) -> None:
        if not self.allow_deletion:
            raise ConfigurationError(f"This toolkit has allow_deletion=False: {what} cannot be removed.")

    # --- groups ---------------------------------------------------------------------------------------------------

    def create_tool_group(self, name: str, description: str, *, active: bool = False, notes: str = "") -> ToolGroup:
        """Add a group without tools; `register(tool, group=name)` adds a tool to it.

        The model reads the `description` to choose a group, and the `notes` once it has activated the group.
        """
        return self._registry.groups.create(name, description, active=active, notes=notes)

    def update_tool_groups(self, names: Iterable[str], active: bool) -> None:
        """Activate or deactivate these groups and no others; an unknown name is an error and changes nothing."""
        self._registry.groups.update(names, active)

    def set_active_groups(self, names: Iterable[str]) -> None:
        """Activate these groups and deactivate all others; an unknown name is an error and changes nothing."""
        self._registry.groups.set_active(names)

    def remove_tool_groups(self, names: Iterable[str]) -> tuple[Tool, ...]:
        """Remove these groups, and the tools that are in no other group; returns the removed tools."""
        removed = set(self._registry.groups.check(names))
        self._check_deletion("groups")
        return self._registry.remove_groups(removed)

    @property
    def groups(self) -> tuple[ToolGroup, ...]:
        """All groups, in the order of their creation."""
        return self._registry.groups.all

    @property
    def active_groups(self) -> tuple[str, ...]:
        """The names of the active groups, in the order of the groups' creation."""
        return self._registry.groups.active

    def groups_of(self, tool: str) -> tuple[str, ...]:
        """The names of a tool's groups; none for a tool that is always available."""
        return self._registry.groups.of(tool)

    def available(self, tool: str) -> bool:
        """True if a tool of this name is in no group or in an active one."""
        return self._registry.groups.available(tool)

    def get(self, name: str) -> Tool | None:
        """The tool of this name, or None."""
        entry = self._registry.find(name)
        return None if entry is None else entry.tool

    def schema(self, name: str) -> ToolSchema | None:
        """The schema of this tool as a model sees it, or None."""
        entry = self._registry.entries.get(name) or self._registry.find(name)
        if entry is None:
            return None
        return entry.schema if entry.meta is None else entry.schema_in(self)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all tools, those of inactive groups too, in the order of registration."""
        return self._registry.names

    def schemas(self) -> tuple[ToolSchema, ...]:
        """The schemas of the tools that are available now, in the order of registration.

        Returns the same tuple until the tools or the active groups change.
        """
        version, active = self._registry.version, self._registry.groups.active
        if self._schemas[0] != version:
            self._schemas = (version, {})
        found = self._schemas[1].get(active)
        if found is None:
            if len(self._schemas[1]) >= MAX_KEPT:
                self._schemas[1].clear()
            found = self._schemas[1][active] = tuple(entry.schema_in(self) for entry in self._registry.available())
        return found

    @property
    def returns_direct(self) -> bool:
        """True if a result of one of the tools may be the agent's reply."""
        return self._registry.returns_direct

    @property
    def runs_background(self) -> bool:
        """True if calls of one of the tools may go on in the background."""
        return self._registry.background

    def copy(self) -> Self:
        """A toolkit with the same class, settings and tools; later changes of one do not affect the other."""
        other = copy.copy(self)
        other._registry = self._registry.copy()
        other._schemas = (-1, {})
        other._servers = self._servers.copy(other)
        return other

    def overlay(self, *tools: object) -> Self:
        """A view of this toolkit with more tools on top, for one run; the toolkit itself is untouched."""
        view = copy.copy(self)
        view._registry = self._registry.overlay()
        # without tools of its own, a view has the same schemas for the same groups
        view._schemas = (-1, {}) if tools else self._schemas
        view.context_store = view_of(self.context_store)
        for each in tools:
            view.register_all(each)
        return view

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._registry.find(name) is not None

    def __len__(self) -> int:
        return len(self._registry)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._registry.tools)

    def __repr__(self) -> str:
        return f"<Toolkit {', '.join(self.names) or 'without tools'}>"

    # --- calls ----------------------------------------------------------------------------------------------------

    def needs_approval(self, call: ToolUseBlock, context: RuntimeContext | None = None) -> bool:
        """True if this call needs a person's approval before it runs; `ApprovalError` if the rule fails."""
        return self.asks(call, context) is True

    def asks(self, call: ToolUseBlock, context: RuntimeContext | None, hooks: AskHooks | None = None) -> bool | None:
        """True if this call needs a person's approval, with the context's `tool_arguments` applied."""
        entry = self._registry.entries.get(call.name) or self._registry.find(call.name)
        asked = self.approval is not None or hooks is not None
        if entry is None or not (asked or entry.tool.requires_approval is not False) or not self.available(call.name):
            return None
        tool = layered(entry.tool, context, call.name)
        return asks(tool, layered_call(call, context), self.approval, hooks)

    def prepare(
        self, call: ToolUseBlock, *, config: ExecutionConfig | None = None, runtime: RuntimeContext | None = None
    ) -> PreparedCall | ToolResultBlock:
        """Look up the tool of a call and apply the `tool_arguments` of `runtime`; an error result if it cannot run."""
        entry = self._registry.entries.get(call.name) or self._registry.find(call.name)
        if entry is None:
            return not_found(call, [schema.name for schema in self.schemas()])
        groups = self._registry.groups
        if groups.members and not groups.available(call.name):
            return not_available(call, groups.of(call.name), META_TOOL in self)
        tool, own, limits = entry.tool, entry.tool.max_result, entry.limits
        if runtime is not None and runtime.tool_arguments:
            tool = layered(tool, runtime, call.name)
        if self.approval is not None and (refused := refused_by(self.approval, layered_call(call, runtime), tool)):
            return refused
        planned = entry.planned
        plan = planned[1] if planned is not None and planned[0] is config else entry.plan(config, self._config)
        size = self.max_result if own is None else limit_of(own, self.max_result)
        return PreparedCall(call, tool, plan, limits, self.executor, size, limits is not UNLIMITED or self._total != ())

    def call(
        self,
        call: ToolUseBlock | PreparedCall | ToolResultBlock,
        *,
        config: ExecutionConfig | None = None,
        context: ToolContext | None = None,
        within: ToolBatch | None = None,
        stop: Sequence[OneShotEvent] = (),
    ) -> Flow[ToolEvent]:
        """Run one call and emit exactly one `ToolResultBlock`, last, whatever the tool does.

        `call` may be the result of `prepare`. The tool gets `context` if it takes one (without it, a context without a
        run); `tool_arguments` of the context replace the model's. Approval is not checked here: see `needs_approval`.
        A call of a limited tool waits until its limits, and those of the batch `within`, let it begin. One of the
        `stop` signals ends this wait, and the flow with it.

        Signals: `ToolBegun` when a limited call begins; `ToolChunk` and `ToolRetry` as they come; the result;
        completion. The only error is `SourceCancelledError`.
        Cancels: the wait or the call: an async tool's `finally` blocks run, a blocking one is abandoned.
        """
        if isinstance(call, ToolUseBlock):
            prepare = partial(self.prepare, call, config=config, runtime=None if context is None else context.runtime)
            return defer(lambda: self.call(prepare(), context=context, within=within, stop=stop))
        if isinstance(call, ToolResultBlock):
            return just(call)
        if not isinstance(call, PreparedCall):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInputError(f"Toolkit.call takes a ToolUseBlock(id, name, input), not {call!r:.60}.")
        given = self._context(call.call, context) if call.tool.takes_context else None
        slots = () if within is None or within.slots is None else (within.slots,)
        if not call.limited and not slots:
            return run_tool(call, given)
        limits = call.limits
        return run_tool(call, given, Admission((*limits.gates, *self._total, *slots), limits.rates, stop))

    def _context(self, call: ToolUseBlock, context: ToolContext | None) -> ToolContext:
        # this toolkit's store is searched after all others
        stores = () if self.context_store is None else (self.context_store,)
        given = ToolContext(call, toolkit=self) if context is None else context
        return given.of(call, stores=stores) if stores else given

    def waits(self, tool: Tool, within: ToolBatch | None = None) -> bool:
        """True if calls of this tool have limits to wait for; `ToolBegun` then reports their beginning."""
        limited = tool.limits is not UNLIMITED or bool(self._total)
        return limited or (within is not None and within.slots is not None)

    def batch(self, calls: Sequence[ToolUseBlock | None]) -> ToolBatch:
        """The batch of these calls; None is the place of a call that does not run."""
        own, find = self._registry.entries, self._registry.find
        entries = [None if call is None else own.get(call.name) or find(call.name) for call in calls]
        waits = bool(self._total)
        alone: list[int] = []
        for index, entry in enumerate(entries):
            if entry is not None:
                waits = waits or entry.limits is not UNLIMITED
                alone += [index] if entry.tool.exclusive else []
        places = self.max_concurrency if self.parallel else 1
        return ToolBatch(len(calls), places, waits=waits, alone=alone, cancels=self.on_failure == "cancel_siblings")

    def call_all(
        self,
        calls: Sequence[ToolUseBlock],
        *,
        config: ExecutionConfig | None = None,
        context: ToolContext | None = None,
    ) -> Flow[ToolEvent]:
        """Run a batch, at most `max_concurrency` calls at once. Each gets a copy of `context` for its own call.

        Signals: the progress of all calls as it comes; the results in call order; completion. A failing tool does not
        affect the others, except with `on_failure="cancel_siblings"`.
        Cancels: the calls in progress; waiting calls never begin.
        """

        def begin() -> Flow[ToolEvent]:
            within = self.batch(calls)

            def waits(call: ToolUseBlock) -> bool:
                tool = self.get(call.name)
                return tool is not None and self.waits(tool, within)

            run = partial(self.call, config=config, context=context, within=within)
            return run_batch(calls, run, within, waits)

        return defer(begin)

    # --- MCP ------------------------------------------------------------------------------------------------------

    def register_mcp(self, server: McpServer | McpClient, **options: Unpack[McpOptions]) -> Flow[tuple[Tool, ...]]:
        """Add all tools of an MCP server, or none; they are updated when the server reports a change.

        `server` is `McpStdio`, `McpHttp`, `McpSse`, `McpInMemory`, or an `McpClient` for more options. Several toolkits
        may share a client, which its owner closes. The options are those of `register_all`, with the server's names.

        Signals: the tuple of registered tools, completion; `McpError` if the server cannot be reached or refuses,
        `ConfigurationError` if a tool cannot be registered. After an error no tool is registered.
        Cancels: the connecting or the listing.
        """
        return self._servers.register(self, server, options)

    @property
    def mcp(self) -> Mapping[str, McpClient]:
        """The clients of the registered MCP servers, by name."""
        return self._servers.clients

    def remove_mcp(self, name: str) -> Flow[None]:
        """Remove a server's tools, and close the connection if this toolkit opened it.

        Signals: None when it is closed, completion; `ConfigurationError` if there is no such server.
        Cancels: nothing.
        """
        return self._servers.remove(name)

    def serve_mcp(self, **options: Unpack[McpServerOptions]) -> Flow[str]:
        """Serve the tools to MCP clients, as in `toolkit.serve_mcp(name="tools").run()`.

        The default transport is stdio; `transport="http"` listens on `host` and `port`. To serve them inside another
        ASGI server use `mcp_app`.

        Signals: "stdio" or the URL when it is ready; completion when the input ends; `SetupError` if it cannot
        listen, `McpLimitError` if the client on stdio sends too much.
        Cancels: the server, and the calls in progress.
        """
        return serve(self, options)

    def add_registration(self, registration: Registration) -> None:
        """Keep the registration of a server's tools."""
        self._servers.add(registration)

    def close(self) -> Flow[None]:
        """Close the MCP connections that this toolkit opened; calls of their tools then fail with an error result.

        Signals: None when they are closed, completion.
        Cancels: nothing.
        """
        return self._servers.close()
