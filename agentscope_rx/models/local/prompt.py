"""What the model is asked in one turn: messages and tools -> a short prompt and a JSON schema. Pure.

| the request so far                                    | the turn                                                    |
|-------------------------------------------------------|-------------------------------------------------------------|
| a step of it is open and speaks of tools              | a call of one of these                                      |
| it is new and speaks of no tool                       | a call of any tool, or an answer                            |
| its steps are done, or two tries of one have failed   | an answer that quotes the observations                      |
| no tools, no observations                             | plain talk, with the conversation so far                    |

A model of 135 million parameters cannot weigh a long conversation: it is asked one thing at a time, shown the few lines
that matter, and shown by example how an answer looks. What it chooses and writes is its own, but for numbers: it can
say those alone that the conversation holds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from agentscope_rx.messages import Msg
from agentscope_rx.models.local import schema
from agentscope_rx.models.local.conversation import Conversation, Round, read
from agentscope_rx.models.local.focus import MAX_STATEMENTS, focus
from agentscope_rx.models.local.grounded import numbers
from agentscope_rx.models.local.quoting import quoting
from agentscope_rx.models.local.shortlist import (
    Shortlist,
    examples,
    parameters,
    required,
    shortlist,
    steps,
    tool_features,
)
from agentscope_rx.models.local.words import Features, features
from agentscope_rx.models.options import ToolChoice, ToolSchema

TRIES = 2
"""How often a step is tried before the model has to answer with what it has."""

TALK_CHARACTERS = 8000
"""How much of a conversation plain talk looks back on; the rest of the context is for the answer."""

_WHO = "You are a helpful assistant."
_CALL = f"{_WHO} Call one tool, as JSON."
_ANSWER = f"{_WHO} Answer the question with a line from the text."
_SAMPLES: Mapping[str, object] = {"integer": 3, "number": 2.5, "boolean": True, "array": (), "object": {}}
_TALK = (("Hello!", "Hello! How can I help you?"), ("Who wrote Hamlet?", "William Shakespeare wrote Hamlet."))
_ANSWERS = (
    (
        "The river Ona is 80 km long.\nIt flows into lake Miro.\nIts source is near Tarn.",
        "Into which lake does the river flow?",
        "It flows into lake Miro.",
    ),
    ("80 / 4 = 20", "What is a quarter of 80?", "80 / 4 = 20"),
    (
        "animals.txt:3: The zebra eats grass.\nplants.txt:9: Grass grows fast.",
        "Which file mentions the zebra?",
        "animals.txt:3: The zebra eats grass.",
    ),
)


@dataclass(frozen=True, slots=True)
class Turn:
    """One question to the model. Without a `schema` its answer is plain text; `free` if it need not quote.

    `held`: the numbers that the answer may say.
    """

    messages: tuple[Msg, ...]
    schema: Mapping[str, object] | None = None
    free: bool = False
    held: frozenset[str] = frozenset()


def next_turn(messages: Sequence[Msg], tools: Sequence[ToolSchema], choice: ToolChoice | None = None) -> Turn:
    """The turn that comes next."""
    conversation = read(messages)
    mode = choice.mode if choice is not None else "auto"
    offered = () if mode == "none" else tuple(tools)
    if choice is not None and mode == "specific":
        offered = tuple(tool for tool in tools if tool.name == choice.tool)
    if mode in ("required", "specific"):
        return _call(conversation, conversation.request, shortlist(conversation.request, offered).tools)
    open_step = _open_step(conversation, offered)
    if open_step is not None:
        chosen = _choice(conversation, open_step, offered)
        return _call(conversation, open_step, chosen.tools, or_answer=not chosen.certain)
    if not conversation.rounds:
        return _talk(conversation)
    return _answer(conversation, (steps(conversation.request, offered) or [conversation.request])[-1], tools)


def _open_step(conversation: Conversation, tools: Sequence[ToolSchema]) -> str | None:
    """The step of the request that a tool is to serve next."""
    if not tools:
        return None
    tries = 0
    position = 0
    for past in conversation.rounds:
        tries += 1
        if not past.failed or tries == TRIES:
            position, tries = position + 1, 0
    listed = steps(conversation.request, tools)
    if position >= len(listed):
        return None
    # the first step may need a tool that it has no word for; of a later one its words must tell
    return listed[position] if position == 0 or shortlist(listed[position], tools).certain else None


def _choice(conversation: Conversation, step: str, tools: Sequence[ToolSchema]) -> Shortlist:
    """The tools that may serve a step: the one that has just failed only if it is alone and has not tried all."""
    chosen = shortlist(step, tools)
    failed = conversation.rounds[-1].tool if conversation.rounds and conversation.rounds[-1].failed else None
    others = [tool for tool in tools if tool.name != failed]
    if failed is None or not others:
        return chosen
    rest = tuple(tool for tool in chosen.tools if tool.name != failed)
    if rest:
        return Shortlist(rest, chosen.certain)
    (only,) = chosen.tools
    untried = set(schema.candidates(only, step)).difference(map(str, _tried(conversation, only)))
    return chosen if untried else shortlist(step, others)


def _tried(conversation: Conversation, tool: ToolSchema) -> list[object]:
    """The arguments that this tool has failed with."""
    failed = (past for past in conversation.rounds if past.failed and past.tool == tool.name)
    return [value for past in failed for value in past.arguments.values()]


def _call(conversation: Conversation, step: str, tools: Sequence[ToolSchema], *, or_answer: bool = False) -> Turn:
    known = _observed(conversation, step)
    branches = [schema.call(tool, step, known=" ".join(known), tried=_tried(conversation, tool)) for tool in tools]
    lines = [f"{tool.name}({', '.join(parameters(tool))}): {tool.description}" for tool in tools]
    messages = [Msg.system("\n".join([_CALL, "Tools:", *lines]))]
    # the last example weighs most with this model: it is for the tool that the request speaks of most
    for tool in reversed(tools):
        messages += _example(tool)
    if or_answer:
        branches.insert(0, schema.answer())
        for said, replied in _TALK:
            messages += [Msg.user(said), Msg.assistant(json.dumps({"answer": replied}))]
    messages.append(Msg.user("\n".join([*known, step])))
    return Turn(tuple(messages), schema.one_of(branches), free=or_answer, held=_held(conversation))


def _answer(conversation: Conversation, question: str, tools: Sequence[ToolSchema]) -> Turn:
    good = [past for past in conversation.rounds if not past.failed]
    # what was done last is what the request led up to
    last = (good or conversation.rounds)[-1]
    statements = focus(question, last.text, _spent(last, tools))
    if not statements:
        return _talk(conversation)
    messages = [Msg.system(_ANSWER)]
    for text, asked, line in _ANSWERS:
        messages += [Msg.user(_question(text, asked)), Msg.assistant(json.dumps({"answer": line}))]
    messages.append(Msg.user(_question("\n".join(statements), question)))
    return Turn(tuple(messages), schema.answer(quoting(question, statements)), held=_held(conversation))


def _spent(past: Round, tools: Sequence[ToolSchema]) -> Features:
    """What of a request has done its work when this call was made."""
    said = [tool_features(tool) for tool in tools if tool.name == past.tool]
    return features(" ".join(map(str, past.arguments.values()))).union(*said)


def _talk(conversation: Conversation) -> Turn:
    room = TALK_CHARACTERS
    kept: list[Msg] = []
    for message in reversed(conversation.spoken):
        room -= len(message.text)
        if room < 0 and kept:
            break
        kept.append(message)
    if kept and len(kept[0].text) > TALK_CHARACTERS:
        kept[0] = kept[0].replace(content=kept[0].text[-TALK_CHARACTERS:])
    messages = (Msg.system(conversation.system[:TALK_CHARACTERS] or _WHO), *reversed(kept))
    return Turn(messages, free=True, held=_held(conversation))


def _held(conversation: Conversation) -> frozenset[str]:
    """The numbers that the conversation holds: in what was said, and in what calls gave."""
    said = (message.text for message in conversation.spoken)
    return numbers(conversation.system, conversation.request, *said, *(past.text for past in conversation.rounds))


def _observed(conversation: Conversation, question: str) -> list[str]:
    """What the observations say to a question, the latest first."""
    found: list[str] = []
    for past in reversed(conversation.rounds):
        found += [] if past.failed else focus(question, past.text)
    return list(dict.fromkeys(found))[:MAX_STATEMENTS]


def _question(text: str, question: str) -> str:
    return f"{text}\n\nQuestion: {question}"


def _example(tool: ToolSchema) -> list[Msg]:
    """A request in the tool's own words, and the call that serves it."""
    arguments = {name: _example_value(given) for name, given in parameters(tool).items() if name in required(tool)}
    if not arguments and len(parameters(tool)) == 1:
        arguments = {name: _example_value(given) for name, given in parameters(tool).items()}
    asked = f"{tool.description.rstrip('.')}: {', '.join(str(value) for value in arguments.values())}"
    spoken = {"tool": tool.name, "arguments": arguments}
    return [Msg.user(asked), Msg.assistant(json.dumps(spoken, ensure_ascii=False, default=str))]


def _example_value(given: Mapping[str, object]) -> object:
    shown = examples(given)
    if shown:
        return shown[-1]
    if "default" in given:
        return given["default"]
    listed = given.get("enum")
    if isinstance(listed, Sequence) and listed:
        return cast("Sequence[object]", listed)[0]
    return _SAMPLES.get(str(given.get("type")), "...")
