"""`SubagentsHook`: shows a model the sub-agents that it may start, and gives it the tools for that.

    agent = ReActAgent("Friday", model, tools=[...], hooks=[SubagentsHook(*usual_sub_agents("."))])

    PreCall       look at the sources (worker) -> the list of names and descriptions, in the system message
    agent_spawn   a sub-agent does a task, in a conversation of its own
    agent_send    goes on with one
    agent_list    those that were started

The list is made again at a call if a declaration has changed. One that cannot be used is reported once, and the others
are there.
"""

from __future__ import annotations

from collections.abc import Callable
from weakref import ref

from agentscope_rx.agent import ReActAgent
from agentscope_rx.agent.sub_agent.running import Forward
from agentscope_rx.errors import ConfigurationError, DeadlineError, SubAgentFileError, WorkersExhaustedError
from agentscope_rx.events import Event, PreCallEvent
from agentscope_rx.events.kinds import appended
from agentscope_rx.hooks import Hook
from agentscope_rx.hooks.problem_reports import ProblemReports
from agentscope_rx.messages import Msg
from agentscope_rx.models.checks import check_count, check_seconds
from agentscope_rx.models.registry import REGISTRY
from agentscope_rx.models.tokens import EstimatedTokens, TokenCounter
from agentscope_rx.reactive import ENGINE_WORKERS, Flow, catch, concat_map, defer, just, on_worker, timeout
from agentscope_rx.reactive.kernel.dropped import report_dropped
from agentscope_rx.skills.wording import skills_section
from agentscope_rx.sub_agents.building import MAKING, MoreHooks, SubAgentFactory, tools_of
from agentscope_rx.sub_agents.catalog import AnySubAgents, SubAgentCatalog, SubAgents
from agentscope_rx.sub_agents.limits import SubAgentLimits
from agentscope_rx.sub_agents.source import FoundSubAgent, GivenSubAgents
from agentscope_rx.sub_agents.spawn_tools import AgentList, AgentSend, AgentSpawn, SubAgentCalls
from agentscope_rx.sub_agents.sub_agent import GENERAL_PURPOSE
from agentscope_rx.sub_agents.wording import INSTRUCTION, TAG
from agentscope_rx.tools import Tool
from agentscope_rx.tools.options import check_flag

MAX_TOKENS = 2_000


class SubagentsHook(Hook):
    """Lists the sub-agents of its sources in the system message, and adds the tools that start them.

    A source is a `SubAgent`, the path of a folder with files, a `Workspace` or a `SubAgentSource`; earlier sources hide
    sub-agents of the same name in later ones. One hook may serve any number of agents and conversations.

    | tool of the model | does |
    |---|---|
    | `agent_spawn(agent, task, label, timeout_seconds)` | starts one in a new conversation; it sees only the task |
    | `agent_send(agent, message, timeout_seconds)` | continues the conversation of one, by its label or id |
    | `agent_list()` | lists those that were started, with their states |

    A call that takes longer than `timeout_seconds` (30; at most 600; 0: at once) goes on in the background.

    | option | sets |
    |---|---|
    | `general_purpose` | True: adds one with the model and the tools of its parent |
    | `limits` | `SubAgentLimits`: depth, number, share of the budget |
    | `hooks` | a function of a `SubAgent` that makes more hooks for its agent |
    | `forward` | the part of their runs in the parent's stream: "events", "text" or "none" |
    | `max_tokens` | the budget of the list, measured by `counter` (default: an estimate) |
    | `instruction` | the text above the list; "" is none |
    | `timeout` | seconds for the sources (None: no limit); after them the previous list is used |
    | `on_problem` | gets each problem of a declaration, in place of the dropped-error hook |
    """

    kinds: tuple[type[Event], ...] | None = (PreCallEvent,)

    def __init__(
        self,
        *sources: AnySubAgents,
        general_purpose: bool = False,
        limits: SubAgentLimits | None = None,
        hooks: MoreHooks | None = None,
        forward: Forward = "events",
        max_tokens: int = MAX_TOKENS,
        counter: TokenCounter | None = None,
        instruction: str = INSTRUCTION,
        timeout: float | None = 10.0,
        on_problem: Callable[[SubAgentFileError], object] | None = None,
        priority: int = 80,
    ) -> None:
        check_flag("general_purpose", general_purpose)
        check_count("max_tokens", max_tokens)
        check_seconds("timeout", timeout, optional=True)
        if not sources and not general_purpose:
            raise ConfigurationError(
                "SubagentsHook needs sub-agents: SubAgent('name', 'description', 'prompt'), a source such as "
                "usual_sub_agents('.'), or general_purpose=True."
            )
        if limits is not None and not isinstance(limits, SubAgentLimits):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"limits must be SubAgentLimits(...), not {limits!r:.60}.")
        if not isinstance(instruction, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"instruction must be text, not {instruction!r:.60}.")
        for name, function in (("hooks", hooks), ("on_problem", on_problem)):
            if function is not None and not callable(function):
                raise ConfigurationError(f"{name} must be a function, not {function!r:.60}.")
        own = (GivenSubAgents([GENERAL_PURPOSE]),) if general_purpose else ()
        self.catalog: SubAgentCatalog = SubAgentCatalog(*sources, *own)
        self.limits: SubAgentLimits = limits if limits is not None else SubAgentLimits()
        self.max_tokens = max_tokens
        self.instruction = instruction
        self.priority = priority
        self._counter: TokenCounter = counter or EstimatedTokens()
        self._timeout = timeout
        self._reports = ProblemReports(on_problem, "a sub-agent", "a SubagentsHook")
        self._made: tuple[tuple[FoundSubAgent, ...] | None, str] = None, ""
        self._last = SubAgents()
        self._agents: dict[str, tuple[ref[ReActAgent], bool]] = {}
        calls = SubAgentCalls(self.sub_agents, SubAgentFactory(self, hooks), self.limits, forward)
        declared = self.catalog.is_declared
        self._tools: tuple[Tool, ...] = (
            AgentSpawn(calls, declared=declared),
            AgentSend(calls, declared=declared),
            AgentList(calls),
        )

    def sub_agents(self) -> Flow[SubAgents]:
        """The sub-agents now, with those that are hidden, and the problems.

        Signals: one `SubAgents`. If sources are not read in time, that is reported as a dropped error, and the previous
        ones are used.
        Cancels: the waiting.
        """
        if self.catalog.in_memory:
            return defer(lambda: just(self._read()))
        read = on_worker(self._read, ENGINE_WORKERS)
        if self._timeout is not None:
            what = f"reading the sub-agents of {self.catalog!r:.200}"
            read = read.pipe(timeout(total=self._timeout, error=lambda which, limit: DeadlineError(which, limit, what)))

        def failed(error: Exception) -> Flow[SubAgents]:
            if not isinstance(error, (DeadlineError, WorkersExhaustedError, OSError)):
                raise error
            report_dropped(error, f"the sub-agents of {self.catalog!r:.200}")
            return just(self._last)

        return read.pipe(catch(failed))

    def tools(self) -> tuple[Tool, ...]:
        """`agent_spawn`, `agent_send` and `agent_list`."""
        return self._tools

    def added_to(self, agent: object) -> None:
        """`ConfigurationError` if a declaration in code names a model or a tool that does not exist."""
        if not isinstance(agent, ReActAgent):
            return
        # a sub-agent has a part of its parent's tools: what needs others is not in its list
        own = MAKING.get()
        known = self._tools_of(agent)
        for each in () if own else self.catalog.in_code:
            if each.declared.agent is None and (problem := each.declared.tool_problem(known)):
                raise ConfigurationError(f"Sub-agent {each.name!r} of agent {agent.name!r}: {problem[1]}")
            if isinstance(each.declared.model, str):
                REGISTRY.split(each.declared.model)
        self._agents[agent.name] = ref(agent), own

    def section(self, agent: str = "") -> Flow[str]:
        """The list as the agent of this name gets it now; empty without sub-agents.

        Signals: one text; an error of the counter.
        Cancels: the waiting for the sources.
        """
        return self.sub_agents().pipe(concat_map(lambda found: just(self._section(found, agent))))

    def on_event(self, event: Event) -> Flow[Event] | None:
        if not isinstance(event, PreCallEvent):
            return None

        def put(text: str) -> Event:
            return event.replace(system_message=appended(event.system_message, text)) if text else event

        return self.section(event.agent).pipe(concat_map(put))

    # --- the list -------------------------------------------------------------------------------------------------

    def _read(self) -> SubAgents:
        found = self._last = self.catalog.read()
        self._reports.report(found.problems)
        return found

    def _section(self, found: SubAgents, agent: str) -> str:
        usable = tuple(self._usable(found, agent))
        made = self._made
        if made[0] != usable:
            declared = [each.declared for each in usable]
            text, left_out = skills_section(declared, self.instruction, self.max_tokens, self._count, TAG)
            self._made = made = usable, text
            if left_out:
                problem = f"{left_out} sub-agents have no room in the list: raise max_tokens={self.max_tokens}."
                self._reports.report((SubAgentFileError("SubagentsHook", problem),))
        return made[1]

    def _usable(self, found: SubAgents, agent: str) -> list[FoundSubAgent]:
        """Those whose tools the agent of this name has; the others are reported."""
        known, own = self._agents.get(agent, (None, False))
        parent = None if known is None else known()
        if parent is None:
            return list(found.by_name.values())
        usable: list[FoundSubAgent] = []
        tools = self._tools_of(parent)
        for each in found.by_name.values():
            problem = each.declared.tool_problem(tools) if each.declared.agent is None else None
            if problem is None:
                usable.append(each)
            elif not own:
                self._reports.report((SubAgentFileError(each.place, problem[1], sub_agent=each.name),))
        return usable

    def _tools_of(self, agent: ReActAgent) -> frozenset[str]:
        """The names of the tools of the agent, also of those that its hooks are about to bring."""
        brought = (tool.name for hook in (self, *agent.hooks.all) for tool in tools_of(hook))
        return frozenset((*agent.toolkit.names, *brought))

    def _count(self, text: str) -> int:
        return self._counter.count((Msg.system(text),))

    def __repr__(self) -> str:
        return f"<SubagentsHook {', '.join(map(repr, self.catalog.sources))}>"
