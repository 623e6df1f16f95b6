"""`Toolkit`: the tools of an agent in the order of their registration, and how their calls run.

A call's config is, field by field: the tool's own, over the given one, over the toolkit's, over `TOOL_DEFAULTS`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from typing import Self, cast, get_args, overload

from agentscope_rx.context import RuntimeContext
from agentscope_rx.context_store import ContextStore, check_store, view_of
from agentscope_rx.errors import ConfigurationError, InvalidInputError
from agentscope_rx.messages import ToolResultBlock, ToolUseBlock
from agentscope_rx.models.options import TOOL_DEFAULTS, ExecutionConfig, ToolSchema
from agentscope_rx.reactive import Flow, OneShotEvent, Semaphore, concat_map_type, defer, just, merge_ordered
from agentscope_rx.tools.approval import ApprovalPolicy, check_policy, needs_approval
from agentscope_rx.tools.argument_layers import layered, layered_call
from agentscope_rx.tools.base import Tool
from agentscope_rx.tools.calls.batch import OnFailure, ToolBatch, together
from agentscope_rx.tools.calls.execute import Limits, run_tool
from agentscope_rx.tools.calls.failure import not_available, not_found
from agentscope_rx.tools.calls.signals import ToolEvent
from agentscope_rx.tools.context import ToolContext
from agentscope_rx.tools.entry import ToolEntry
from agentscope_rx.tools.external import ExternalTool
from agentscope_rx.tools.limits import UNLIMITED
from agentscope_rx.tools.meta_tool import META_TOOL, MetaTool
from agentscope_rx.tools.registering import Registering
from agentscope_rx.tools.results.evictor import evicted
from agentscope_rx.tools.results.result_limit import DEFAULT_LIMIT, ResultLimit, check_limit, limit_of
from agentscope_rx.tools.schemas.describe import schema_of
from agentscope_rx.tools.servers import ToolServers
from agentscope_rx.tools.wrapper import wraps

MAX_CONCURRENCY = 16
MAX_KEPT = 64
"""Lists of schemas, one for each set of active groups, that are kept until the tools change."""


class Toolkit(Registering, ToolServers):
    """A registry of tools by name, and the way to call them.

    `tools` are tools, functions to make tools of, or objects with `@tool` methods. Calls of one batch run at once, at
    most `max_concurrency` of them, or one after the other with `parallel=False`. Blocking functions without an
    executor of their own run on `executor`. `approval` says which calls wait for a person (see `tools.approval`).
    Tools may be in groups that are switched on and off (see `tools.groups`).
    `max_concurrency_total` bounds the calls of all batches together, with those of copies and overlays; `on_failure`
    says whether a failed call ends the others of its batch. What the tools say of their own limits: see `tools.limits`.
    Results are kept within `max_result` (None: as they are) by cutting or handing them over.
    Tools find objects in `context_store` that the call's context does not have. With `allow_deletion=False` no tool is
    taken out by hand: `remove` and `remove_tool_groups` are errors.
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
        if not isinstance(max_concurrency, int) or max_concurrency < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"max_concurrency must be a whole number of at least 1, not {max_concurrency!r}.")
        if max_concurrency_total is not None and (type(max_concurrency_total) is not int or max_concurrency_total < 1):
            raise ConfigurationError(
                f"max_concurrency_total must be a whole number of at least 1, not {max_concurrency_total!r:.60}."
            )
        if not isinstance(tools, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"Toolkit takes several tools, as in Toolkit([tool]), not {tools!r:.60}.")
        if executor is not None and not callable(getattr(executor, "submit", None)):
            raise ConfigurationError(f"executor must be an Executor of concurrent.futures, not {executor!r:.60}.")
        if not isinstance(parallel, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"parallel must be True or False, not {parallel!r:.60}.")
        if not isinstance(allow_deletion, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"allow_deletion must be True or False, not {allow_deletion!r:.60}.")
        self.parallel = parallel
        self.allow_deletion = allow_deletion
        self.max_concurrency = max_concurrency
        self.executor = executor
        self.approval = check_policy(approval)
        if on_failure not in get_args(OnFailure):
            raise ConfigurationError(f"on_failure must be one of {get_args(OnFailure)}, not {on_failure!r:.60}.")
        self.on_failure: OnFailure = on_failure
        # shared with copies and overlays: it protects what their tools have in common
        self._total = () if max_concurrency_total is None else (Semaphore(max_concurrency_total, shared=True),)
        self.max_result = check_limit(max_result, "a toolkit")
        self.context_store = check_store(context_store, "a toolkit")
        self._config = TOOL_DEFAULTS if execution_config is None else execution_config.over(TOOL_DEFAULTS)
        self._base: Toolkit | None = None
        self._entries: dict[str, ToolEntry] = {}
        self._registrations = []
        self._changes = 0
        self._schemas: tuple[int, dict[tuple[str, ...], tuple[ToolSchema, ...]]] = (-1, {})
        self._no_groups()
        for each in tools:
            self.register_all(each)

    # --- what is in it --------------------------------------------------------------------------------------------

    def register_meta_tool(self) -> Tool:
        """Add `reset_equipped_tools`, by which the model itself activates and deactivates groups."""
        return self.register(MetaTool())

    def remove_tool_groups(self, names: Iterable[str]) -> tuple[Tool, ...]:
        """Take out these groups and the tools that are in no other; returns the tools."""
        gone = set(self.check_groups(names))
        self._check_deletion("groups")
        if self._base is not None:
            raise ConfigurationError("Groups belong to the toolkit beneath this overlay: remove them there.")
        left = {tool: tuple(each for each in groups if each not in gone) for tool, groups in self._members.items()}
        removed = tuple(self.remove(tool) for tool, groups in left.items() if not groups)
        for name in gone:
            del self._groups[name]
        self._members.update({tool: groups for tool, groups in left.items() if groups})
        self._active = self._in_order(self._active)
        self._changes += 1
        return removed

    def register_schema(self, schema: ToolSchema | Mapping[str, object], *, reason: str | None = None) -> ExternalTool:
        """Add a tool that somebody outside runs: its calls suspend, for `reason`. A dict is read by `schema_of`."""
        if not isinstance(schema, (ToolSchema, Mapping)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(
                f"register_schema takes ToolSchema(name, description, parameters), not {schema!r:.60}."
            )
        made = ExternalTool.of(schema_of(schema), reason=reason)
        self.register(made)
        return made

    @overload
    def remove(self, name: str) -> Tool: ...
    @overload
    def remove(self, name: str, *, only: Tool) -> Tool | None: ...
    def remove(self, name: str, *, only: Tool | None = None) -> Tool | None:
        """Take a tool out and return it; a call of it that is running is not touched.

        With `only`, it is taken out if it is that very tool, or made of it; otherwise nothing happens, and None is
        returned.
        """
        self._check_deletion(f"tool {name!r}")
        return self._take_out(name, only)

    def _take_out(self, name: str, only: Tool | None) -> Tool | None:
        entry = self._entries.get(name)
        if only is not None and (entry is None or not wraps(entry.tool, only)):
            return None
        if entry is None:
            where = "belongs to the toolkit beneath this overlay" if name in self else "is not registered"
            raise ConfigurationError(f"Tool {name!r} {where}.")
        del self._entries[name]
        self._members.pop(name, None)
        self._changes += 1
        return entry.tool

    def _check_deletion(self, what: str) -> None:
        if not self.allow_deletion:
            raise ConfigurationError(f"This toolkit has allow_deletion=False: {what} cannot be taken out.")

    def replace_tools(self, old: Mapping[str, Tool], register: Callable[[Toolkit], Sequence[Tool]]) -> tuple[Tool, ...]:
        """Take the old tools out and put those that `register` adds in their place, or change nothing if it fails."""
        other = self.copy()
        before = [name for name in self._entries if name in old]
        for name, tool in old.items():
            # (a server's list of tools is the server's to change)
            other._take_out(name, tool)
        left = list(other._entries)
        added = tuple(register(other))
        names = list(self._entries)
        at = sum(name in left for name in names[: names.index(before[0])]) if before else len(left)
        new = [name for name in other._entries if name not in left]
        self._members.update(other._members)
        # one assignment: toolkits are shared between threads
        self._entries = {name: other._entries[name] for name in [*left[:at], *new, *left[at:]]}
        for name in set(before) - set(self._entries):
            self._members.pop(name, None)
        self._changes += 1
        return added

    def get(self, name: str) -> Tool | None:
        """The tool of this name, or None."""
        entry = self._entry(name)
        return None if entry is None else entry.tool

    def schema(self, name: str) -> ToolSchema | None:
        """What a model is told of the tool of this name, or None."""
        entry = self._entry(name)
        return None if entry is None else self._schema(entry)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all tools, those of inactive groups too, in the order of registration."""
        beneath = self._base.names if self._base is not None else ()
        return tuple(dict.fromkeys((*beneath, *self._entries)))

    def schemas(self) -> tuple[ToolSchema, ...]:
        """What a model is told of the tools that are available now, in the order of registration.

        The same tuple until the tools or the active groups change.
        """
        version = self._version()
        if self._schemas[0] != version:
            self._schemas = (version, {})
        found = self._schemas[1].get(self._active)
        if found is None:
            if len(self._schemas[1]) >= MAX_KEPT:
                self._schemas[1].clear()
            found = self._schemas[1][self._active] = tuple(self._told())
        return found

    def _told(self) -> Iterator[ToolSchema]:
        for name in self.names:
            if self.available(name):
                yield self._schema(cast("ToolEntry", self._entry(name)))

    def _schema(self, entry: ToolEntry) -> ToolSchema:
        if entry.meta is None:
            return entry.schema
        return replace(entry.meta.schema_in(self), name=entry.schema.name)

    def copy(self) -> Self:
        """A toolkit of the same class, settings and tools; a change of one does not show in the other."""
        other = copy.copy(self)
        other._entries = {name: cast("ToolEntry", self._entry(name)) for name in self.names}
        other._base = None
        other._schemas = (-1, {})
        other._groups = dict(self._groups)
        other._members = dict(self._members)
        other._registrations = [each.of(other) for each in self._registrations]
        return other

    def overlay(self, *tools: object) -> Self:
        """A view of this toolkit with more tools on top, for one run; the toolkit itself is untouched."""
        view = copy.copy(self)
        view._base = self
        view._entries = {}
        view._changes = 0
        # what the toolkit beneath is asked for in the same groups is the same
        view._schemas = (-1, {}) if tools else self._schemas
        view.context_store = view_of(self.context_store)
        for each in tools:
            view.register_all(each)
        return view

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._entry(name) is not None

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[Tool]:
        return iter([cast("Tool", self.get(name)) for name in self.names])

    def __repr__(self) -> str:
        return f"<Toolkit {', '.join(self.names) or 'without tools'}>"

    def _entry(self, name: str) -> ToolEntry | None:
        entry = self._entries.get(name)
        return self._base._entry(name) if entry is None and self._base is not None else entry

    def _version(self) -> int:
        return self._changes + (self._base._version() if self._base is not None else 0)

    @property
    def returns_direct(self) -> bool:
        """Whether a result of one of the tools may be the agent's reply."""
        own = any(entry.tool.return_direct for entry in self._entries.values())
        return own or (self._base is not None and self._base.returns_direct)

    # --- calls ----------------------------------------------------------------------------------------------------

    def needs_approval(self, call: ToolUseBlock, context: RuntimeContext | None = None) -> bool:
        """Whether this call waits for a person before it may run. `ApprovalError` if the rule that says so failed.

        The toolkit's policy is asked first, then the tool's own mark, both with the `tool_arguments` of the context in
        the place of the model's. A call that cannot run needs no approval.
        """
        entry = self._entry(call.name)
        if entry is None or not self.available(call.name):
            return False
        return needs_approval(layered(entry.tool, context, call.name), layered_call(call, context), self.approval)

    def call(
        self,
        call: ToolUseBlock,
        *,
        config: ExecutionConfig | None = None,
        context: ToolContext | None = None,
        within: ToolBatch | None = None,
        stop: Sequence[OneShotEvent] = (),
    ) -> Flow[ToolEvent]:
        """Runs one call and emits exactly one `ToolResultBlock`, last, whatever the tool does.

        `context` is what a tool that asks for it gets; without one it gets one without a run. Its `tool_arguments` are
        in the place of the model's. Approval is not asked
        here: whoever calls has it. A call that has limits to keep waits until it may begin: a place in its round is
        one of them, if it is called `within` one. One of the `stop` signals ends the wait, and with it the flow.

        Signals: `ToolBegun` of a call that has limits to keep; `ToolChunk`, `ToolRetry` as they come, the result,
        completion; no error but `SourceCancelledError`.
        Cancels: the wait or the call: an async tool's `finally` blocks run, a blocking one is abandoned.
        """

        if not isinstance(call, ToolUseBlock):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInputError(f"A toolkit is called with a ToolUseBlock(id, name, input), not {call!r:.60}.")

        def look_up() -> Flow[ToolEvent]:
            entry = self._entry(call.name)
            if entry is None:
                return just(not_found(call, [schema.name for schema in self.schemas()]))
            if not self.available(call.name):
                return just(not_available(call, self.groups_of(call.name), META_TOOL in self))
            tool = layered(entry.tool, None if context is None else context.runtime, call.name)
            given = self._given(call, context) if entry.tool.takes_context else None
            slots = None if within is None else within.slots
            limits = None
            if entry.limits is not UNLIMITED or self._total or slots is not None:
                gates = (*entry.limits.gates, *self._total, *(() if slots is None else (slots,)))
                limits = Limits(gates, entry.limits.paces, stop)
            plan = entry.plan(config, self._config)
            size = limit_of(entry.tool.max_result, self.max_result)
            if size is None or (size.evictor is None and entry.tool.postprocess is None):
                return run_tool(tool, call, plan, self.executor, given, limits, size)
            # whoever is behind the call itself sees the whole
            stored: Callable[[ToolResultBlock], Flow[ToolEvent]] = partial(evicted, size, call)
            whole = run_tool(tool, call, plan, self.executor, given, limits)
            return whole.pipe(concat_map_type(ToolResultBlock, stored))

        return defer(look_up)

    def _given(self, call: ToolUseBlock, context: ToolContext | None) -> ToolContext:
        """What a tool is given: the caller's context or one without a run, this toolkit's store behind all others."""
        stores = () if self.context_store is None else (self.context_store,)
        if context is None:
            return ToolContext(call, toolkit=self, stores=stores)
        return context.of(call, stores=stores) if stores else context

    def waits(self, tool: Tool, within: ToolBatch | None = None) -> bool:
        """Whether a call of this tool may have to wait before it begins: it then tells of it by `ToolBegun`."""
        limited = tool.limits is not UNLIMITED or bool(self._total)
        return limited or (within is not None and within.slots is not None)

    def round(self, calls: Sequence[ToolUseBlock | None]) -> ToolBatch:
        """What these calls are to each other; None in the place of a call stands for one that is not to run."""
        entries = [None if call is None else self._entry(call.name) for call in calls]
        return ToolBatch(
            len(calls),
            self.max_concurrency if self.parallel else 1,
            waits=bool(self._total) or any(entry is not None and entry.limits is not UNLIMITED for entry in entries),
            alone=[index for index, entry in enumerate(entries) if entry is not None and entry.tool.exclusive],
            cancels=self.on_failure == "cancel_siblings",
        )

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
        tool does not touch the others, but with `on_failure="cancel_siblings"`.
        Cancels: the calls in progress; those not begun never begin.
        """

        def begin() -> Flow[ToolEvent]:
            within = self.round(calls)

            def one(call: ToolUseBlock) -> Flow[ToolEvent]:
                tool = self.get(call.name)
                asked = self.call(call, config=config, context=context, within=within)
                return together(call, asked, within, waits=tool is not None and self.waits(tool, within))

            return merge_ordered(
                [one(each) for each in calls],
                max_concurrency=within.at_once,
                live=_is_progress,
                alone=within.alone,
            )

        return defer(begin)


def _is_progress(event: ToolEvent) -> bool:
    return not isinstance(event, ToolResultBlock)
