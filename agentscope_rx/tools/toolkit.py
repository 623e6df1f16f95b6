"""`Toolkit`: the tools of an agent in the order of their registration, and how their calls run.

A call's config is, field by field: the tool's own, over the given one, over the toolkit's, over `TOOL_DEFAULTS`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from typing import TYPE_CHECKING, Self, Unpack, cast, overload

from agentscope_rx.context import ContextStore, RuntimeContext, check_store, view_of
from agentscope_rx.errors import ConfigurationError, InvalidInputError
from agentscope_rx.messages import ToolResultBlock, ToolUseBlock
from agentscope_rx.models.options import TOOL_DEFAULTS, ExecutionConfig, ToolSchema
from agentscope_rx.reactive import Flow, OneShotEvent, Semaphore, defer, just
from agentscope_rx.tools.approval import ApprovalPolicy, check_policy, needs_approval
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
    check_flag,
    made,
    made_all,
    made_methods,
    with_presets,
)
from agentscope_rx.tools.registry import Registry, ToolEntry
from agentscope_rx.tools.results.result_limit import DEFAULT_LIMIT, ResultLimit, check_limit, limit_of
from agentscope_rx.tools.servers import McpOptions, McpServerOptions, ToolServers, serve

if TYPE_CHECKING:
    from agentscope_rx.tools.mcp import McpClient, McpServer
    from agentscope_rx.tools.mcp.registration import Registration

MAX_CONCURRENCY = 16
MAX_KEPT = 64
"""Lists of schemas that are kept until the tools change, one for each set of active groups."""


class Toolkit:
    """Holds tools by name and runs their calls.

    `tools` are tools, functions to make tools of, or objects with `@tool` methods. Calls of one batch run at once, at
    most `max_concurrency` of them, or one after the other with `parallel=False`. Blocking functions without an
    executor of their own run on `executor`. `approval` selects the calls that wait for a person (see `tools.approval`).
    Tools may be in groups that are switched on and off (see `tools.groups`).
    `max_concurrency_total` bounds the calls of all batches together, with those of copies and overlays; with
    `on_failure="cancel_siblings"` a failed call ends the others of its batch. For the limits of a single tool see
    `tools.limits`. Results larger than `max_result` (None: no limit) are cut, or stored by its evictor.
    `context_store` is searched for objects that the call's context does not have. With `allow_deletion=False` no tool
    is taken out by hand: `remove` and `remove_tool_groups` are errors.
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
        if not isinstance(tools, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"Toolkit takes several tools, as in Toolkit([tool]), not {tools!r:.60}.")
        if executor is not None and not callable(getattr(executor, "submit", None)):
            raise ConfigurationError(f"executor must be an Executor of concurrent.futures, not {executor!r:.60}.")
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
        """Add one tool, made of a function or callable object if it is none yet, and return it as it is registered.

        A tool in a `group`, or several, is available while one of them is active. `options` change how it looks, and
        its arguments and results (see `RegisterOptions`). If the name is taken, it is an error, or this tool takes the
        place ("override"), is left out ("skip": the present one is returned) or gets the next free name ("rename":
        name_2, name_3, ...).
        Raises `ToolDefinitionError` for what cannot be a tool, `DuplicateToolError` if the name is taken,
        `ConfigurationError` if there is no such group.
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
        """Add all or none of the tools of a source: an object's `@tool` methods (its class's own and inherited), those
        of a toolkit, of several sources; of anything else, the one tool it is.

        `presets` are by tool name, as are the tools that `enable` and `disable` name; `prefix` stands before each name.
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
        """Add the public methods of an object as tools, marked by `@tool` or not; otherwise as `register_all`.

        Only the methods that are added (see `enable`, `disable`) need annotations.
        """
        return self._registry.add(made_methods(source, options), group, on_conflict)

    def register_meta_tool(self) -> Tool:
        """Add `reset_equipped_tools`, by which the model itself activates and deactivates groups."""
        return self.register(MetaTool())

    def register_schema(self, schema: ToolSchema | Mapping[str, object], *, reason: str | None = None) -> ExternalTool:
        """Add a tool that runs outside: its calls suspend, for `reason`. A dict is read by `schema_of`."""
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
        """Give a tool these presets in the place of its own (None: none), from its next call on; returns it.

        Copies of this toolkit keep their own; on an overlay the change is for the overlay alone.
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
        """Take a tool out and return it; a running call of it goes on.

        With `only`, it is taken out if it is that very tool, or made of it; otherwise nothing happens, and None is
        returned.
        """
        self._check_deletion(f"tool {name!r}")
        return self.take_out(name, only)

    def replace_tools(self, old: Mapping[str, Tool], register: Callable[[Self], Sequence[Tool]]) -> tuple[Tool, ...]:
        """Take the old tools out and put those that `register` adds in their place, or change nothing if it fails."""
        other = self.copy()
        for name, tool in old.items():
            other.take_out(name, tool)
        kept = other._registry.own_names
        added = tuple(register(other))
        self._registry.replace(old, kept, other._registry)
        return added

    def take_out(self, name: str, only: Tool | None) -> Tool | None:
        """Like `remove`, also with `allow_deletion=False`: a server changes its list of tools."""
        return self._registry.remove(name, only)

    def _check_deletion(self, what: str) -> None:
        if not self.allow_deletion:
            raise ConfigurationError(f"This toolkit has allow_deletion=False: {what} cannot be taken out.")

    # --- groups ---------------------------------------------------------------------------------------------------

    def create_tool_group(self, name: str, description: str, *, active: bool = False, notes: str = "") -> ToolGroup:
        """Add a group, without tools yet: `register(tool, group=name)` puts them in.

        A model chooses by the `description`, and reads the `notes` when it activates the group.
        """
        return self._registry.groups.create(name, description, active=active, notes=notes)

    def update_tool_groups(self, names: Iterable[str], active: bool) -> None:
        """Activate or deactivate these groups, and leave the others; an unknown name changes nothing."""
        self._registry.groups.update(names, active)

    def set_active_groups(self, names: Iterable[str]) -> None:
        """Make exactly these groups active; an unknown name changes nothing."""
        self._registry.groups.set_active(names)

    def remove_tool_groups(self, names: Iterable[str]) -> tuple[Tool, ...]:
        """Take out these groups and the tools that are in no other; returns the tools."""
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
        """The schema that a model sees of the tool of this name, or None."""
        entry = self._registry.find(name)
        return None if entry is None else self._schema(entry)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all tools, those of inactive groups too, in the order of registration."""
        return self._registry.names

    def schemas(self) -> tuple[ToolSchema, ...]:
        """The schemas of the tools that are available now, in the order of registration.

        The same tuple until the tools or the active groups change.
        """
        version, active = self._registry.version, self._registry.groups.active
        if self._schemas[0] != version:
            self._schemas = (version, {})
        found = self._schemas[1].get(active)
        if found is None:
            if len(self._schemas[1]) >= MAX_KEPT:
                self._schemas[1].clear()
            found = self._schemas[1][active] = tuple(self._schema(entry) for entry in self._registry.available())
        return found

    def _schema(self, entry: ToolEntry) -> ToolSchema:
        if entry.meta is None:
            return entry.schema
        return replace(entry.meta.schema_in(self), name=entry.schema.name)

    @property
    def returns_direct(self) -> bool:
        """True if a result of one of the tools may be the agent's reply."""
        return self._registry.returns_direct

    def copy(self) -> Self:
        """A toolkit of the same class, settings and tools; a change of one does not show in the other."""
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
        return len(self.names)

    def __iter__(self) -> Iterator[Tool]:
        return iter([cast("Tool", self.get(name)) for name in self.names])

    def __repr__(self) -> str:
        return f"<Toolkit {', '.join(self.names) or 'without tools'}>"

    # --- calls ----------------------------------------------------------------------------------------------------

    def needs_approval(self, call: ToolUseBlock, context: RuntimeContext | None = None) -> bool:
        """True if this call waits for a person before it may run; `ApprovalError` if the rule failed.

        The toolkit's policy is asked first, then the tool's own rule, both with the `tool_arguments` of the context in
        the place of the model's. A call that cannot run needs no approval.
        """
        entry = self._registry.find(call.name)
        if entry is None or not self.available(call.name):
            return False
        return needs_approval(layered(entry.tool, context, call.name), layered_call(call, context), self.approval)

    def prepare(
        self, call: ToolUseBlock, *, config: ExecutionConfig | None = None, runtime: RuntimeContext | None = None
    ) -> PreparedCall | ToolResultBlock:
        """The call made ready for `call`, with the `tool_arguments` of `runtime`; the result of one that cannot run."""
        registry = self._registry
        entry = registry.find(call.name)
        if entry is None:
            return not_found(call, [schema.name for schema in self.schemas()])
        if not registry.groups.available(call.name):
            return not_available(call, registry.groups.of(call.name), META_TOOL in self)
        tool = entry.tool
        size = self.max_result if tool.max_result is None else limit_of(tool.max_result, self.max_result)
        if runtime is not None and runtime.tool_arguments:
            tool = layered(tool, runtime, call.name)
        return PreparedCall(call, tool, entry.plan(config, self._config), entry.limits, self.executor, size)

    def call(
        self,
        call: ToolUseBlock | PreparedCall | ToolResultBlock,
        *,
        config: ExecutionConfig | None = None,
        context: ToolContext | None = None,
        within: ToolBatch | None = None,
        stop: Sequence[OneShotEvent] = (),
    ) -> Flow[ToolEvent]:
        """Runs one call and emits exactly one `ToolResultBlock`, last, whatever the tool does.

        `call` may be the answer of `prepare`. A tool that asks for it gets `context`, or one without a run; its
        `tool_arguments` take the place of the model's. Approval is not asked here: the caller has it. A call that has
        limits to keep waits until it may begin; `within` a batch its place there is one of them. One of the `stop`
        signals ends the wait, and with it the flow.

        Signals: `ToolBegun` of a call that has limits to keep; `ToolChunk`, `ToolRetry` as they come, the result,
        completion; no error but `SourceCancelledError`.
        Cancels: the wait or the call: an async tool's `finally` blocks run, a blocking one is abandoned.
        """
        if not isinstance(call, (ToolUseBlock, PreparedCall, ToolResultBlock)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInputError(f"A toolkit is called with a ToolUseBlock(id, name, input), not {call!r:.60}.")

        def begin() -> Flow[ToolEvent]:
            prepared = call
            if isinstance(prepared, ToolUseBlock):
                runtime = None if context is None else context.runtime
                prepared = self.prepare(prepared, config=config, runtime=runtime)
            if isinstance(prepared, ToolResultBlock):
                return just(prepared)
            given = self._context(prepared.call, context) if prepared.tool.takes_context else None
            slots = () if within is None or within.slots is None else (within.slots,)
            limits = prepared.limits
            if limits is UNLIMITED and not self._total and not slots:
                return run_tool(prepared, given)
            return run_tool(prepared, given, Admission((*limits.gates, *self._total, *slots), limits.rates, stop))

        return defer(begin)

    def _context(self, call: ToolUseBlock, context: ToolContext | None) -> ToolContext:
        # this toolkit's store is searched after all others
        stores = () if self.context_store is None else (self.context_store,)
        given = ToolContext(call, toolkit=self) if context is None else context
        return given.of(call, stores=stores) if stores else given

    def waits(self, tool: Tool, within: ToolBatch | None = None) -> bool:
        """True if a call of this tool may have to wait before it begins, which is then reported by `ToolBegun`."""
        limited = tool.limits is not UNLIMITED or bool(self._total)
        return limited or (within is not None and within.slots is not None)

    def batch(self, calls: Sequence[ToolUseBlock | None]) -> ToolBatch:
        """The batch of these calls; None stands for a call that is not to run."""
        find = self._registry.find
        entries = [None if call is None else find(call.name) for call in calls]
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
        """Runs a batch, at most `max_concurrency` calls at once, and emits the results in call order.

        Each call gets `context` as its own, with its call in the place of the one there.

        Signals: progress of all calls as it comes; each result as soon as its turn comes; completion. One failing
        tool does not touch the others, but with `on_failure="cancel_siblings"`.
        Cancels: the calls in progress; those not begun never begin.
        """

        def begin() -> Flow[ToolEvent]:
            within = self.batch(calls)

            def waits(call: ToolUseBlock) -> bool:
                tool = self.get(call.name)
                return tool is not None and self.waits(tool, within)

            return run_batch(
                calls, lambda call: self.call(call, config=config, context=context, within=within), within, waits
            )

        return defer(begin)

    # --- MCP ------------------------------------------------------------------------------------------------------

    def register_mcp(self, server: McpServer | McpClient, **options: Unpack[McpOptions]) -> Flow[tuple[Tool, ...]]:
        """Add all or none of the tools of an MCP server; they follow it when it reports a change.

        `server` is `McpStdio`, `McpHttp` or `McpInMemory`, or an `McpClient` with more options, which may be shared
        between toolkits and is its owner's to close. The options are those of `register_all`, by the server's names.

        Signals: the tools as they are registered, completion; `McpError` if the server cannot be reached or refuses,
        `ConfigurationError` for what cannot be registered: then nothing is, and the connection is closed.
        Cancels: the connecting or the listing.
        """
        return self._servers.register(self, server, options)

    @property
    def mcp(self) -> Mapping[str, McpClient]:
        """The clients of the servers that tools were taken from, by name."""
        return self._servers.clients

    def remove_mcp(self, name: str) -> Flow[None]:
        """Take out a server's tools, and close its connection if this toolkit has made it.

        Signals: None when it is closed, completion; `ConfigurationError` if there is no such server.
        Cancels: nothing.
        """
        return self._servers.remove(name)

    def serve_mcp(self, **options: Unpack[McpServerOptions]) -> Flow[str]:
        """Serve the tools to MCP clients: `toolkit.serve_mcp(name="tools").run()` is a program that does.

        By default on stdio; `transport="http"` listens on `host` and `port`. `mcp_app` is the same as an application
        inside another server.

        Signals: where it serves ("stdio", or the URL), once it does; completion when the input ends; `SetupError` if it
        cannot listen, `McpLimitError` if the client on stdio sends too much.
        Cancels: the server, and the calls in progress.
        """
        return serve(self, options)

    def add_registration(self, registration: Registration) -> None:
        """Keep the registration of a server's tools."""
        self._servers.add(registration)

    def close(self) -> Flow[None]:
        """Close the connections that this toolkit has made; the tools stay, and say that their server is closed.

        Signals: None when nothing of them is left, completion. Cancels: nothing.
        """
        return self._servers.close()
