"""The agent of a command line: `--agent`, or one of `--model`, `--tools` and the other flags."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from agentscope_rx.agent import Agent, ReActAgent
from agentscope_rx.cli.knowledge import knowledge_of
from agentscope_rx.cli.models import model_of
from agentscope_rx.cli.skills import skills_hooks
from agentscope_rx.cli.subagents import subagents_hooks
from agentscope_rx.cli.tools import add_servers, agent_of, builtin_tools, toolkit_of
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.models import ChatModel
from agentscope_rx.tools import Toolkit

if TYPE_CHECKING:
    from agentscope_rx.knowledge import KnowledgeBase

SYSTEM_PROMPT = (
    "You are a helpful assistant at a command line. Use the tools whenever the answer depends on files or the time; "
    "paths are relative to the working directory. Answer in a few plain sentences."
)
MAX_ITERS = 10
AGENT_FLAGS = (
    "model",
    "base_url",
    "system",
    "tools",
    "skills",
    "subagents",
    "knowledge",
    "no_builtin_tools",
    "max_iters",
    "mcp",
)
"""Flags that cannot be combined with an agent of the user's, because that agent has its own."""


class MadeAgent(NamedTuple):
    """An agent, and what must be closed after it."""

    agent: Agent
    toolkit: Toolkit | None = None
    bases: Sequence[KnowledgeBase] = ()

    def close(self) -> None:
        """Close the connections of its tools, and its knowledge."""
        if self.toolkit is not None:
            self.toolkit.close().run()
        for base in self.bases:
            base.store.close().run()


def made_agent(flags: argparse.Namespace, model: ChatModel | None = None) -> MadeAgent:
    """The agent of these flags; `model` replaces theirs. `ConfigurationError` if a flag cannot be used."""
    if flags.agent is not None:
        check_own(flags, "--agent")
        return MadeAgent(agent_of(flags.agent))
    toolkit = toolkit_of(flags.tools, None if flags.no_builtin_tools else builtin_tools())
    model = model if model is not None else model_of(flags.model, flags.base_url, os.environ)
    add_servers(toolkit, flags.mcp)
    hooks = [*skills_hooks(flags.skills), *subagents_hooks(flags.subagents)]
    # last: it may take long
    bases = knowledge_of(flags)
    agent = ReActAgent(
        "assistant",
        model,
        SYSTEM_PROMPT if flags.system is None else flags.system,
        toolkit=toolkit,
        max_iters=MAX_ITERS if flags.max_iters is None else flags.max_iters,
        hooks=hooks,
        knowledge=bases or None,
        knowledge_mode=flags.knowledge_mode,
    )
    return MadeAgent(agent, toolkit, bases)


def check_own(flags: argparse.Namespace, what: str) -> None:
    """`ConfigurationError` if a flag is given that an agent of the user's cannot take."""
    given = [name for name in AGENT_FLAGS if getattr(flags, name) not in (None, [], False)]
    if given:
        flag = given[0].replace("_", "-")
        raise ConfigurationError(f"{what} brings its own model and tools: leave --{flag} out.")
