"""What is typed at the prompt of a chat and is not for the model: `/help`, `/tools`, `/model`, `/cost`, `/exit`, ...

A line is a command if its first word is one of these; so `/etc/hosts says what?` is a question.
"""

from __future__ import annotations

import os
import re
from enum import Enum, auto

from agentscope_rx.agent import ReActAgent
from agentscope_rx.cli.models import model_of
from agentscope_rx.cli.session import ChatSession
from agentscope_rx.console.wording import clean, counted, one_line

HELP = """\
/tools               the tools that the model may call
/model               the model that answers; /model PROVIDER:NAME takes another one
/cost                the tokens so far
/approve             asks again about calls that wait
/exit                leaves, as Ctrl-D does
Ctrl-C clears a half-typed line; it interrupts an answer, and a second one leaves.
Several lines that are pasted at once are one question."""
_UNKNOWN = re.compile(r"/[a-z]+")


class Next(Enum):
    """What follows a line."""

    ASK = auto()
    """It is a question."""
    PROMPT = auto()
    APPROVE = auto()
    LEAVE = auto()


def obey(line: str, session: ChatSession) -> tuple[Next, str]:
    """What follows, and what is to be shown before it."""
    word, _, rest = line.partition(" ")
    rest = rest.strip()
    match word:
        case "/help" | "/?" if not rest:
            return Next.PROMPT, HELP
        case "/exit" | "/quit" if not rest:
            return Next.LEAVE, ""
        case "/tools" if not rest:
            return Next.PROMPT, _tools(session)
        case "/model":
            return Next.PROMPT, _model(session, rest)
        case "/cost" if not rest:
            return Next.PROMPT, _cost(session)
        case "/approve" if not rest:
            return (Next.APPROVE, "") if session.waits() else (Next.PROMPT, "no call waits")
        case _ if _UNKNOWN.fullmatch(line):
            return Next.PROMPT, f"there is no command {line}; /help lists them"
        case _:
            return Next.ASK, ""


def _tools(session: ChatSession) -> str:
    agent = session.agent
    tools = list(agent.toolkit) if isinstance(agent, ReActAgent) else []
    if not tools:
        return "no tools"
    asks = {True: " (asks first)", False: ""}
    return "\n".join(
        f"{clean(tool.name)}{asks[bool(tool.requires_approval)]}: {one_line(tool.description, 100)}" for tool in tools
    )


def _model(session: ChatSession, spec: str) -> str:
    agent = session.agent
    if not isinstance(agent, ReActAgent):
        return f"{agent.name} has no model of its own"
    if spec:
        agent.model = model_of(spec, None, os.environ)
    return f"{agent.model.provider}:{agent.model.model_name}"


def _cost(session: ChatSession) -> str:
    usage = session.usage
    cached = f" ({usage.cached_tokens:,} of them cached)" if usage.cached_tokens else ""
    runs = counted(session.questions, "run")
    tokens = f"{usage.input_tokens:,} tokens in{cached}, {usage.output_tokens:,} out"
    return f"{runs}: {tokens}; prices are not known here"
