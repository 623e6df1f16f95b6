"""`SkillsHook`: shows a model which skills there are, and gives it the tools to read them when it needs them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from agentscope_rx.errors import ConfigurationError, DeadlineError, SkillError, WorkersExhaustedError
from agentscope_rx.events import Event, PreCallEvent
from agentscope_rx.events.kinds import appended
from agentscope_rx.hooks import Hook
from agentscope_rx.hooks.problem_reports import ProblemReports
from agentscope_rx.messages import Msg
from agentscope_rx.models.checks import check_count, check_seconds
from agentscope_rx.models.tokens import EstimatedTokens, TokenCounter
from agentscope_rx.reactive import ENGINE_WORKERS, Flow, catch, concat_map, just, on_worker, timeout
from agentscope_rx.reactive.kernel.dropped import report_dropped
from agentscope_rx.skills.catalog import AnySource, SkillCatalog, Skills
from agentscope_rx.skills.scripts import ScriptTool, SkillScripts
from agentscope_rx.skills.skill_tools import SkillTools
from agentscope_rx.skills.wording import INSTRUCTION, skills_section
from agentscope_rx.tools import Tool, Toolkit
from agentscope_rx.tools.groups import ToolGroup

MAX_TOKENS = 2_000


class SkillsHook(Hook):
    """Shows the model the skills of its sources, and gives it the tools to read them when it needs them.

        PreCall          look at the sources (worker) -> the list of names and descriptions, in the system message
        load_skill       the instructions of one skill; its own tools become available, in this conversation
        read_skill_file  one of its files
        run_skill_script one of its scripts, if the program allows that: see `SkillScripts`

    | option | |
    |---|---|
    | `tools` | tools by the name of a skill: they are available once the skill is loaded |
    | `run_scripts` | `SkillScripts(workspace)`: adds `run_skill_script` (None: scripts are only read) |
    | `max_tokens` | the budget of the list, measured by `counter` (default: an estimate) |
    | `instruction` | the text above the list; "" is none |
    | `timeout` | seconds for the sources (None: no limit); after them the call has the list of before |
    | `on_problem` | gets each problem of a skill instead of the dropped-error hook |

    A source is a `SkillSource`, a `Workspace`, a `Skill`, or the path of a folder that holds skills; earlier sources
    come first.

    - At each call the hook looks at the times and sizes of the files, and reads changed ones. Otherwise the list is
      the same text, sorted by name, so that a prompt cache holds.
    - If the list is too long, descriptions are cut to one length, then the last names are left out. The text says so.
    - A skill that cannot be used is reported once, with file and line, and takes no other one away.
    - The field `allowed-tools` of a skill permits nothing.
    - One hook may serve any number of agents and conversations; loaded skills are saved with each.
    """

    in_sub_agents = True
    kinds: tuple[type[Event], ...] | None = (PreCallEvent,)

    def __init__(
        self,
        *sources: AnySource,
        tools: Mapping[str, Iterable[object]] | None = None,
        run_scripts: SkillScripts | None = None,
        max_tokens: int = MAX_TOKENS,
        counter: TokenCounter | None = None,
        instruction: str = INSTRUCTION,
        timeout: float | None = 10.0,
        on_problem: Callable[[SkillError], object] | None = None,
        priority: int = 85,
    ) -> None:
        check_count("max_tokens", max_tokens)
        check_seconds("timeout", timeout, optional=True)
        if not sources:
            raise ConfigurationError(
                "SkillsHook needs a source of skills, such as usual_sources('.'): those of a workspace, of the user "
                "and of installed packages."
            )
        if not isinstance(instruction, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"instruction must be text, not {instruction!r:.60}.")
        if on_problem is not None and not callable(on_problem):
            raise ConfigurationError(f"on_problem must be a function of a SkillError, not {on_problem!r:.60}.")
        if run_scripts is not None and not isinstance(run_scripts, SkillScripts):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"run_scripts takes SkillScripts('.'), not {run_scripts!r:.60}.")
        self.catalog: SkillCatalog = SkillCatalog(*sources)
        self.max_tokens = max_tokens
        self.instruction = instruction
        self.priority = priority
        self._counter: TokenCounter = counter or EstimatedTokens()
        self._timeout = timeout
        self._reports = ProblemReports(on_problem, "a skill", "a SkillsHook")
        self._made: tuple[Skills, str] = Skills(), ""
        self._groups = _groups_of(tools, self.catalog)
        names = {group.name.partition(":")[2]: group.name for group in self._groups}
        reading = SkillTools(self.catalog.read, names, runs=run_scripts)
        running = () if run_scripts is None else (ScriptTool(run_scripts, reading.find).tool,)
        self._tools: tuple[Tool, ...] = (*reading.all, *running)

    def skills(self) -> Flow[Skills]:
        """The skills now, with those that are hidden and the problems.

        Signals: one `Skills`; the error of a source.
        Cancels: the waiting.
        """
        return on_worker(self.catalog.read, ENGINE_WORKERS)

    def tools(self) -> tuple[Tool, ...]:
        """`load_skill` and `read_skill_file`; with `run_scripts`, `run_skill_script`."""
        return self._tools

    def tool_groups(self) -> Mapping[ToolGroup, Sequence[Tool]]:
        """The tools of skills, a group for each skill."""
        return self._groups

    def section(self) -> Flow[str]:
        """The text that a call gets now; empty if there are no skills.

        Signals: one text; an error of the counter. Sources that are not read in time are reported as a dropped error,
        and the text is the one before.
        Cancels: the waiting for the sources.
        """
        read = on_worker(self._section, ENGINE_WORKERS)
        if self._timeout is not None:
            what = f"reading the skills of {self.catalog!r:.200}"
            read = read.pipe(timeout(total=self._timeout, error=lambda which, limit: DeadlineError(which, limit, what)))

        def failed(error: Exception) -> Flow[str]:
            if not isinstance(error, (DeadlineError, WorkersExhaustedError, OSError)):
                raise error
            report_dropped(error, f"the skills of {self.catalog!r:.200}")
            return just(self._made[1])

        return read.pipe(catch(failed))

    def on_event(self, event: Event) -> Flow[Event] | None:
        if not isinstance(event, PreCallEvent):
            return None

        def put(text: str) -> Event:
            return event.replace(system_message=appended(event.system_message, text)) if text else event

        return self.section().pipe(concat_map(put))

    # --- on a worker --------------------------------------------------------------------------------------------------

    def _section(self) -> str:
        skills = self.catalog.read()
        made = self._made
        if made[0] is not skills:
            infos = [each.info for each in skills.by_name.values()]
            text, left_out = skills_section(infos, self.instruction, self.max_tokens, self._count)
            made = self._made = skills, text
            self._report(skills, left_out)
        return made[1]

    def _count(self, text: str) -> int:
        return self._counter.count((Msg.system(text),))

    def _report(self, skills: Skills, left_out: int) -> None:
        problems = list(skills.problems)
        if left_out:
            text = f"{left_out} skills have no room in the list: raise max_tokens={self.max_tokens}, or name fewer."
            problems.append(SkillError("SkillsHook", text))
        self._reports.report(problems)

    def __repr__(self) -> str:
        return f"<SkillsHook {', '.join(map(repr, self.catalog.sources))}>"


def _groups_of(
    tools: Mapping[str, Iterable[object]] | None, catalog: SkillCatalog
) -> dict[ToolGroup, tuple[Tool, ...]]:
    """The tools of skills, in groups; `ConfigurationError` for a skill that there is not."""
    if not tools:
        return {}
    if not isinstance(tools, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(
            f"tools takes tools by the name of a skill, as in {{'trips': [f]}}, not {tools!r:.60}."
        )
    skills = catalog.read()
    found: dict[ToolGroup, tuple[Tool, ...]] = {}
    for name, given in tools.items():
        if name not in skills.by_name:
            there = ", ".join(skills.near(str(name))) or "none like it"
            raise ConfigurationError(f"tools names the skill {name!r:.80}, which no source has. There are: {there}.")
        group = ToolGroup(
            f"skill:{name}", f"The tools of the skill {name!r}. To use them, load the skill.", "Load the skill first."
        )
        found[group] = tuple(Toolkit(given))
    return found
