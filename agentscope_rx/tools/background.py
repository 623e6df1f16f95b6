"""`Background`: when a call of a tool goes on in the background, so that the run does not wait for it.

    @tool(background=True)                        at once: the model gets a handle as the result of the call
    @tool(background=10)                          if it takes longer than 10 seconds
    toolkit.register(search, background=10)       in the place of the tool's own
    Background(after=lambda arguments: ...)       by its arguments: seconds, 0 (at once), or None (never)
    toolkit.register(search, background="model")  if the model asks for it, by a further argument

The result comes back as a message of the engine, see `agent.background`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, Literal, cast

from pydantic import ValidationError

from agentscope_rx.errors import ToolDefinitionError
from agentscope_rx.frozen_values import dataclass

BACKGROUND: Final = "background"
"""The key, in the metadata of a handle and of the message with the result, of the work that it belongs to."""

After = float | None | Callable[[Mapping[str, Any]], float | None]
"""The seconds that a call has in the foreground: 0 is none, None is no bound; or a function of its arguments."""


@dataclass(frozen=True, slots=True)
class Background:
    """A call that has taken `after` seconds goes on in the background.

    With `asked` the registered tool has one more argument, `run_in_background`. True for it sends the call to the
    background at once.
    """

    after: After = 0.0
    asked: bool = False

    def __post_init__(self) -> None:
        if not callable(self.after):
            self._check(self.after)

    def seconds(self, tool: str, arguments: Mapping[str, object]) -> float | None:
        """The seconds in the foreground of a call with these arguments; None: it stays there."""
        return _seconds(tool, self.after(arguments)) if callable(self.after) else self.after

    @staticmethod
    def _check(after: object) -> None:
        if not _is_seconds(after):
            raise ToolDefinitionError(
                "after of Background must be seconds >= 0, None (never), or a function of the arguments that gives one "
                f"of them, not {after!r:.60}.",
                tool="Background",
            )

    def by_argument(self, tool: str) -> Background:
        """The same with the model's choice in `after`, for the tool that has the argument."""
        from agentscope_rx.tools.background_argument import Asked

        def after(arguments: Mapping[str, object]) -> float | None:
            try:
                asked = Asked.model_validate({name: each for name, each in arguments.items() if each is not None})
            except ValidationError:
                # the call itself is refused for it
                return None
            return 0.0 if asked.run_in_background else self.seconds(tool, arguments)

        return replace(self, after=after, asked=False)


BackgroundOption = Background | bool | float | Literal["model"] | None
"""True: at once; a number: after so many seconds; False: never; "model": if the model asks for it; None: as the agent
says, whose default is never."""


def background_of(tool: str, option: BackgroundOption) -> Background | None:
    """The option of a tool as a value, None if it is left to the agent; `ToolDefinitionError` for anything else."""
    if option is None:
        return None
    if option is False:
        return NEVER
    if option is True:
        return Background()
    if option == "model":
        return Background(None, asked=True)
    if isinstance(option, Background):
        return option
    return Background(_seconds(tool, option))


def check_alone(tool: str, exclusive: bool, background: Background | None) -> None:
    """`ToolDefinitionError` for an exclusive tool with calls in the background: other calls would run beside them."""
    if exclusive and background is not None and background != NEVER:
        raise ToolDefinitionError(
            f"Tool {tool!r} is exclusive: its calls run alone, and so stay in the foreground. Leave out background= "
            "or exclusive=True; max_concurrency=1 holds in the background, too.",
            tool=tool,
        )


def _is_seconds(given: object) -> bool:
    if given is None:
        return True
    return isinstance(given, (int, float)) and not isinstance(given, bool) and 0 <= given < float("inf")


def _seconds(tool: str, seconds: object) -> float | None:
    if _is_seconds(seconds):
        return cast("float | None", seconds)
    raise ToolDefinitionError(
        f"background of tool {tool!r} must be True, False, seconds >= 0, 'model' or a Background, not {seconds!r:.60}.",
        tool=tool,
    )


NEVER: Final = Background(None)
"""The calls stay in the foreground, whatever the agent says."""
