"""`LayeredTool`: arguments that the caller of one run gives: over the model's, under fixed presets.

    agent.call("...", context=RuntimeContext(tool_arguments={"search": {"limit": 3}}))

The model is told of the parameter as ever; what it sends for it does not count in this call, and it need not send any.
Values are checked as the model's are, at the begin of the run (see `check_layers`) and again at each call, for a tool
that has been registered or replaced meanwhile. They are in no message and no event but for a suspended call's
placeholder, whose arguments somebody outside is to run it with.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING

from agentscope_rx.errors import InvalidInputError, ToolArgumentsError
from agentscope_rx.messages import ToolUseBlock
from agentscope_rx.messages.frozen import thaw
from agentscope_rx.tools.arguments import InvalidArgumentsError
from agentscope_rx.tools.base import Tool
from agentscope_rx.tools.presets import problems_of
from agentscope_rx.tools.wrapper import WrapperTool

if TYPE_CHECKING:
    from agentscope_rx.context import RuntimeContext
    from agentscope_rx.tools.toolkit import Toolkit


class LayeredTool(WrapperTool):
    """A tool in one call, with the caller's arguments; `ToolArgumentsError` if the tool does not take these."""

    def __init__(self, inner: Tool, given: Mapping[str, object]) -> None:
        super().__init__(inner)
        self._layer = given

    def validate(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        """The inner tool's arguments: what the model sent, and the caller's in its place."""
        try:
            return super().validate({**arguments, **thaw(self._layer)})
        except InvalidArgumentsError as error:
            wrong = [name for name in self._layer if any(_is_about(name, problem) for problem in error.problems)]
            if wrong:
                raise ToolArgumentsError(self.name, wrong) from None
            raise


def layered(tool: Tool, context: RuntimeContext | None, name: str) -> Tool:
    """The tool with what the context has for it, under the name that it is called by."""
    given = None if context is None else context.tool_arguments.get(name)
    return LayeredTool(tool, given) if given else tool


def layered_call(call: ToolUseBlock, context: RuntimeContext | None) -> ToolUseBlock:
    """The call with the caller's arguments, for those who judge what will run."""
    given = None if context is None else context.tool_arguments.get(call.name)
    return call.replace(input={**call.input, **given}) if given and call.input_error is None else call


def check_layers(layers: Mapping[str, Mapping[str, object]], toolkit: Toolkit, others: frozenset[str] | None) -> None:
    """`InvalidInputError` for a tool that is neither in the toolkit nor one of the `others` (None: nothing is known of
    these), and for arguments that a tool of the toolkit does not take."""
    for name, given in layers.items():
        tool = toolkit.get(name)
        if tool is None:
            if others is not None and name not in others:
                raise _no_such(name, (*toolkit.names, *sorted(others)))
            continue
        problems = dict(reversed(problems_of(tool, given)))
        if problems:
            raise InvalidInputError(f"tool_arguments do not fit tool {name!r}: {'; '.join(problems.values())}.")


def _no_such(name: str, known: tuple[str, ...]) -> InvalidInputError:
    near = get_close_matches(name[:200], known, 1)
    hint = f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(known) or 'none'}."
    return InvalidInputError(
        f"tool_arguments are for a tool {name!r:.200}, but neither the agent nor its sub-agents have one when the run "
        f"begins. {hint}"
    )


def _is_about(name: str, problem: str) -> bool:
    return problem.startswith((f"{name}:", f"{name}.", f"{name}["))
