"""`BackgroundHook`: the policy of an agent for background work, and the tools by which its model uses it.

    hooks=[BackgroundHook(after=10)]                       every call that takes longer than 10 seconds
    hooks=[BackgroundHook(after=0, tools=["build"])]       calls of `build`, at once
    hooks=[BackgroundHook(wait="leave")]                   for tools that say so themselves: @tool(background=True)

A tool that says something itself is not concerned by `after`. An agent without the hook runs such tools in the
background, too, by the defaults of the policy; its model has no tools to list, read, send to, stop and wait for them.
"""

from __future__ import annotations

from collections.abc import Collection

from agentscope_rx.agent.background.policy import MAX_JOBS, BackgroundPolicy, Wait, policy_of
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.events import Event
from agentscope_rx.hooks import Hook
from agentscope_rx.tools import Tool, Toolkit


class BackgroundHook(Hook):
    """Lets tool calls of an agent go on in the background, and gives its model tools to manage them.

        BackgroundHook(after=10)                       # every call that takes longer than 10 seconds
        BackgroundHook(after=10, tools=["search"])     # calls of these tools
        BackgroundHook(wait="leave", max_jobs=20)      # only tools with the option, such as @tool(background=True)

    | option | meaning |
    |---|---|
    | `after` | seconds in the foreground; then the call goes on in the background |
    | `tools` | the tools that `after` is for; None: all without the option `background` |
    | `wait` | a run that would end while jobs are in progress waits for them ("wait"), leaves them or stops them |
    | `max_jobs` | jobs of one conversation in progress; further calls stay in the foreground |
    | `with_tools` | False: without `background_list`, `_read`, `_send`, `_stop` and `_wait` for the model |

    A run that waits goes on with another round when a job ends or input comes. One that stops its jobs does so however
    it ends. Calls of `exclusive` tools stay in the foreground. Without the hook, tools with the option work by its
    defaults.
    """

    kinds: tuple[type[Event], ...] | None = ()

    def __init__(
        self,
        after: float | None = None,
        *,
        tools: Collection[str] | None = None,
        wait: Wait = "wait",
        max_jobs: int = MAX_JOBS,
        with_tools: bool = True,
    ) -> None:
        self.policy: BackgroundPolicy = policy_of(after, tools, wait, max_jobs)
        self._tools = _tools() if with_tools else ()

    def added_to(self, agent: object) -> None:
        """`ConfigurationError` if `tools` names an exclusive tool, whose calls stay in the foreground."""
        toolkit = getattr(agent, "toolkit", None)
        if not isinstance(toolkit, Toolkit):
            return
        for name in sorted(self.policy.tools or ()):
            tool = toolkit.get(name)
            if tool is not None and tool.exclusive:
                raise ConfigurationError(
                    f"BackgroundHook(tools=...) names {name!r}, which is exclusive: its calls run alone, and so stay "
                    "in the foreground. Leave it out."
                )

    def tools(self) -> tuple[Tool, ...]:
        return self._tools


def _tools() -> tuple[Tool, ...]:
    # few agents work in the background, and to define the tools takes time
    from agentscope_rx.agent.background.tools import background_tools

    return background_tools()
