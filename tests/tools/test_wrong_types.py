"""Values of a wrong type are typed errors that name the option, at the place where they were given."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentscope_rx import ReActAgent, Toolkit, tool
from agentscope_rx.errors import ConfigurationError, InvalidInputError
from agentscope_rx.models import GeminiChatModel, OpenAIChatModel, RateLimitedModel
from agentscope_rx.models.options import GenerateOptions, ToolChoice
from agentscope_rx.testing import ScriptedModel
from agentscope_rx.tools import Effects, prefixed
from agentscope_rx.tools.backends import LocalBackend
from agentscope_rx.tools.files import FileTools, Workspace
from agentscope_rx.tools.shell import Rule, ShellTool

wrong: Any = 3


def search(query: str) -> str:
    """Search."""
    return query


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Toolkit().register(search, name=wrong), "name must be text"),
        (lambda: Toolkit().register_all(search, prefix=wrong), "prefix must be a str"),
        (lambda: prefixed(wrong, [search]), "prefix must be a str"),
        (lambda: Toolkit([search], executor=wrong), "executor must be an Executor"),
        (lambda: Toolkit([search], parallel="no"), "parallel must be True or False"),  # pyright: ignore[reportArgumentType]
        (lambda: Toolkit([search], max_concurrency_total=0), "max_concurrency_total must be"),
        (lambda: Toolkit([search]).serve_mcp(transport="http", port=99999), "port must be"),
        (lambda: Toolkit([search]).serve_mcp(transport="http", port="x"), "port must be"),  # pyright: ignore[reportArgumentType]
        (lambda: Rule(wrong), "A rule is text"),
        (lambda: FileTools(backend=wrong), "backend takes a Backend"),
        (lambda: FileTools(LocalBackend(".")), r"FileTools\(backend=\.\.\.\)"),  # pyright: ignore[reportArgumentType]
        (lambda: tool(effects=wrong)(search), "effects of tool 'search' must be"),
        (lambda: tool(effects=Effects(paths=("qury",)))(search), "name 'qury', and its arguments are: query"),
        (lambda: Toolkit().register(search, effects=Effects(code="qury")), "name 'qury', and its arguments"),
        (lambda: ShellTool(".", allow=[wrong]), "A rule is text"),
        (lambda: Workspace(wrong), "path of a folder"),
        (lambda: Workspace(".", deny=[wrong]), "deny takes patterns"),
        (lambda: RateLimitedModel(ScriptedModel("x"), max_concurrency=0), "max_concurrency must be"),
        (lambda: OpenAIChatModel("m", api_key=wrong), "API key must be text, not int"),
        (lambda: OpenAIChatModel("m", api_key="k", options={"temperature": 1}), "options must be GenerateOptions"),  # pyright: ignore[reportArgumentType]
        (lambda: OpenAIChatModel("m", api_key="k", execution_config=wrong), "execution_config must be"),
        (lambda: GeminiChatModel("m", api_key="k", options=wrong), "options must be GenerateOptions"),
        (lambda: GenerateOptions(temperature="hot"), "temperature must be a number"),  # pyright: ignore[reportArgumentType]
        (lambda: GenerateOptions(max_tokens=1.5), "max_tokens must be a whole number"),  # pyright: ignore[reportArgumentType]
        (lambda: GenerateOptions(tool_choice="required"), r"ToolChoice\('required'\)"),  # pyright: ignore[reportArgumentType]
        (lambda: GenerateOptions(stream="yes"), "stream must be True or False"),  # pyright: ignore[reportArgumentType]
        (lambda: GenerateOptions(execution_config={"timeout": 1}), "execution_config must be"),  # pyright: ignore[reportArgumentType]
        (lambda: ToolChoice("must"), "mode of a ToolChoice must be one of"),  # pyright: ignore[reportArgumentType]
    ],
)
def test_it_is_refused_where_it_is_given(make: Callable[[], object], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        make()


def test_a_toolkit_is_called_with_a_call() -> None:
    with pytest.raises(InvalidInputError, match="ToolUseBlock"):
        Toolkit([search]).call("search")  # pyright: ignore[reportArgumentType]


def test_what_tools_work_on_shows_in_their_repr(tmp_path: Path) -> None:
    place = Workspace(tmp_path)
    assert repr(place) == f"<Workspace {str(tmp_path)!r}>"
    assert repr(FileTools(place)) == f"<FileTools in {str(tmp_path)!r}>"
    assert repr(FileTools(place, read_only=True)) == f"<FileTools in {str(tmp_path)!r}, read only>"
    assert repr(ShellTool(place, allow=["ls *"], ask=["git commit *"])) == "<ShellTool run_command: ls *; git commit *>"


def test_agents_take_the_same_options() -> None:
    with pytest.raises(ConfigurationError, match="enable_meta_tool must be True or False"):
        ReActAgent("A", ScriptedModel("x"), enable_meta_tool="yes")  # pyright: ignore[reportArgumentType]
