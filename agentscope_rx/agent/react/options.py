"""The options of a `ReActAgent`: what they may be, and the objects that they stand for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, cast

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.memory import TokenWindow
from agentscope_rx.models.chat_model import ChatModel
from agentscope_rx.models.tokens import COSTS_OF, EstimatedTokens
from agentscope_rx.tools import Toolkit


class CallOptions(Protocol):
    """The options that say how an agent's calls end and go on; `ReActAgent` documents them."""

    interrupt_grace: float

    @property
    def pending_policy(self) -> str: ...
    @property
    def in_doubt(self) -> str: ...


class Options(CallOptions, Protocol):
    """The options of an agent that `check_options` looks at; `ReActAgent` documents them."""

    max_iters: int
    finish: str
    repeat_tool_choice: bool


def check_options(agent: Options, enable_meta_tool: object) -> None:
    """Raise `ConfigurationError` for an option that has no meaning."""
    rounds = cast("object", agent.max_iters)
    if not isinstance(rounds, int) or isinstance(rounds, bool) or rounds < 1:
        raise ConfigurationError(f"max_iters must be a whole number of at least 1, not {rounds!r}.")
    check_call_options(agent)
    if agent.finish not in ("text", "tool"):
        raise ConfigurationError(f"finish must be 'text' or 'tool', not {agent.finish!r}.")
    for name, switch in (("repeat_tool_choice", agent.repeat_tool_choice), ("enable_meta_tool", enable_meta_tool)):
        if not isinstance(switch, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"{name} must be True or False, not {switch!r:.60}.")


def check_call_options(agent: CallOptions) -> None:
    """Raise `ConfigurationError` for an option of an agent's calls that has no meaning."""
    grace = cast("object", agent.interrupt_grace)
    if not isinstance(grace, (int, float)) or grace < 0:
        raise ConfigurationError(f"interrupt_grace must be >= 0 seconds, not {grace!r}.")
    if agent.pending_policy not in ("recover", "error"):
        raise ConfigurationError(f"pending must be 'recover' or 'error', not {agent.pending_policy!r}.")
    if agent.in_doubt not in ("ask", "run", "fail"):
        raise ConfigurationError(f"in_doubt must be 'ask', 'run' or 'fail', not {agent.in_doubt!r}.")


def model_of(model: ChatModel | str) -> ChatModel:
    """The model, or the one of this name."""
    if isinstance(model, str):
        from agentscope_rx.models import get_model

        return get_model(model)
    if not isinstance(model, ChatModel):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(
            "ReActAgent needs a model, such as OpenAIChatModel('gpt-5-mini') or 'openai:gpt-5-mini', not "
            f"{model!r:.60}."
        )
    return model


def window_of(given: TokenWindow | int | None, model: ChatModel) -> TokenWindow | None:
    """The window, also of a number of tokens, which are counted by the costs of the model's vendor."""
    if given is None or isinstance(given, TokenWindow):
        return given
    if type(given) is not int:
        raise ConfigurationError(f"memory_window is a number of tokens or a TokenWindow, not {given!r:.60}.")
    return TokenWindow(given, EstimatedTokens(COSTS_OF.get(model.provider)))


def toolkit_of(tools: Iterable[object] | None, toolkit: Toolkit | None) -> Toolkit:
    """The toolkit of the agent itself: of these tools, or a copy of this toolkit."""
    if tools is not None and toolkit is not None:
        raise ConfigurationError(
            "Give ReActAgent either tools or a toolkit; add the tools with toolkit.register(tool)."
        )
    if toolkit is not None and not isinstance(toolkit, Toolkit):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"toolkit must be a Toolkit, not {toolkit!r:.60}. Did you mean tools=[...]?")
    given = cast("object", tools)
    if given is not None and (isinstance(given, (str, Toolkit)) or not isinstance(given, Iterable)):
        # a toolkit can be iterated, but its settings would be lost
        hint = "toolkit=..." if isinstance(given, Toolkit) else "tools=[...]"
        raise ConfigurationError(f"tools takes a list of functions or tools, not {tools!r:.60}. Did you mean {hint}?")
    own = toolkit.copy() if toolkit is not None else Toolkit()
    for item in tools or ():
        own.register_all(item)
    return own
