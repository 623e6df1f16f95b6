"""The embedded model's score on forty one-tool questions: the real agent, the command line's tools, real files.

    python -m benchmarks.local_questions               the half that may be tuned on
    python -m benchmarks.local_questions --held-out    the half that may not
    python -m benchmarks.local_questions --all         both
    python -m benchmarks.local_questions --rules       the rules alone, quickly: no model is asked

A question is answered if the agent called its tool and no other, the call and its result are right, the fact is in the
answer, and the answer says no number that neither the question nor a result holds. Five of each half are arithmetic,
for which the command line has no tool: they stay, and count as not answered. Beside the score stands that of the
hand-written rules with no model in them (`without_model`), since what they have chosen and quoted is not the model's
merit, and how often it said that it cannot answer.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Sequence
from pathlib import Path

from reactivex import operators as ops

from agentscope_rx import ReActAgent
from agentscope_rx.cli.agent_flags import SYSTEM_PROMPT
from agentscope_rx.cli.tools import builtin_tools
from agentscope_rx.events import Event, PostActingEvent, fold
from agentscope_rx.models import ChatModel
from agentscope_rx.models.local import MODEL_NAME, LocalChatModel
from agentscope_rx.models.local.prompt import CANNOT
from benchmarks.local_table import HELD_OUT, TUNED, Question
from benchmarks.without_model import RulesAlone

FOLDER = Path(__file__).with_name("harbour")
_SHOWN = 90
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")


def ask(question: Question, model: ChatModel) -> list[Event]:
    """One run of an agent that the command line would make."""
    agent = ReActAgent("assistant", model, SYSTEM_PROMPT, toolkit=builtin_tools(FOLDER))
    return agent.stream(question.text).pipe(ops.to_list()).run()


def faults(question: Question, events: Sequence[Event]) -> list[str]:
    """What is wrong with a run; nothing if the question is answered."""
    calls = [event for event in events if isinstance(event, PostActingEvent)]
    results = [event.result.text for event in calls]
    answer = answer_of(events)
    found: list[str] = []
    if {event.tool_use.name for event in calls} != {question.tool}:
        found.append(f"tools {[event.tool_use.name for event in calls]}")
    elif not re.search(question.arguments, written(calls[-1])):
        found.append("arguments")
    elif not re.search(question.observed, results[-1]):
        found.append("observation")
    if not re.search(question.fact, answer):
        found.append("fact")
    if made_up := ungrounded(answer, [question.text, *results]):
        found.append(f"numbers made up: {', '.join(made_up)}")
    return found


def ungrounded(said: str, known: Sequence[str]) -> list[str]:
    """The numbers that are said and that no text in `known` holds, in order."""
    held = {number for text in known for number in _NUMBER.findall(text)}
    return [number for number in _NUMBER.findall(said) if number not in held]


def answer_of(events: Sequence[Event]) -> str:
    """What the agent said in the end."""
    reply = fold(events).message
    return reply.text if reply is not None else ""


def written(called: PostActingEvent) -> str:
    """The arguments of a call as JSON."""
    return json.dumps(dict(called.tool_use.input), ensure_ascii=False)


def score(title: str, questions: Sequence[Question], model: ChatModel) -> tuple[int, int]:
    """Ask them all; a line for each. How many it answered, and of how many it said that it cannot."""
    answered = declined = 0
    for number, question in enumerate(questions, 1):
        began = time.perf_counter()
        events = ask(question, model)
        seconds = time.perf_counter() - began
        wrong = faults(question, events)
        answered += not wrong
        declined += bool(wrong) and answer_of(events).startswith(CANNOT)
        print(f"{title} {number:2} {'--' if wrong else 'ok'} {seconds:5.1f} s  {question.text}", flush=True)
        for event in events:
            if isinstance(event, PostActingEvent):
                told = " | ".join(event.result.text.splitlines())
                print(f"{'':16}{event.tool_use.name}{written(event)} -> {told[:_SHOWN]}")
        print(f"{'':16}says: {' | '.join(answer_of(events).splitlines())}")
        if wrong:
            print(f"{'':16}wrong: {'; '.join(wrong)}", flush=True)
    print(f"{title}: {answered} of {len(questions)}", flush=True)
    return answered, declined


def rules_alone(questions: Sequence[Question]) -> int:
    """How many the rules answer with no model in them."""
    return sum(not faults(question, ask(question, RulesAlone())) for question in questions)


def main() -> None:
    """Ask and print."""
    flags = argparse.ArgumentParser(description="The embedded model's score on one-tool questions.")
    which = flags.add_mutually_exclusive_group()
    which.add_argument("--held-out", action="store_true", help="the half that may not be tuned on")
    which.add_argument("--all", action="store_true", help="both halves")
    flags.add_argument("--rules", action="store_true", help="the rules alone")
    given = flags.parse_args()
    halves = [("held out", HELD_OUT)] if given.held_out else [("tuned", TUNED)]
    if given.all:
        halves = [("tuned", TUNED), ("held out", HELD_OUT)]
    model = None if given.rules else LocalChatModel()
    columns = f"{MODEL_NAME}, guided by rules | the rules, no model | it says that it cannot"
    table = [f"| questions | {columns} |", "|---|---|---|---|"]
    for title, questions in halves:
        answered, declined = ("-", "-") if model is None else score(title, questions, model)
        table.append(f"| {len(questions)} {title} | {answered} | {rules_alone(questions)} | {declined} |")
    print("\n".join(table))


if __name__ == "__main__":
    main()
