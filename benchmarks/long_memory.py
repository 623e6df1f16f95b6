"""Recall of facts from 50 conversations: 200 planted statements, 50 of them corrections and ten retractions.

    python -m benchmarks.long_memory              all rows
    python -m benchmarks.long_memory --seed 7     other data of the same kind

The data are made by the seed. Each conversation has a few planted statements between small talk. Afterwards every fact
that still holds is asked for once, in words other than those it was stated in.

| column | counts                                                                                               |
|--------|------------------------------------------------------------------------------------------------------|
| recall | questions whose present answer is in the five notes                                                  |
| stale  | questions with an outdated answer of the same fact among the five notes (corrections and retractions) |
| tokens | the estimated tokens of the notes of a question                                                      |

Rows with "distilled" use a scripted model, which knows the sentences of this benchmark and takes them apart without a
mistake. So they show what the store makes of right facts and right decisions, such as versions, and searching few short
facts in place of many messages. They say nothing about how well a real model finds facts. The rows "history" are what
an agent without long-term memory would have: the newest messages of all conversations in one, in the same number of
tokens as the notes of the distilled row, and in twenty times as many.
"""

from __future__ import annotations

import argparse
import random
import re
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from agentscope_rx import Msg, ToolUseBlock
from agentscope_rx.long_term_memory import LongTermMemory, NoteSource, SqliteLongTermMemory
from agentscope_rx.models.embedding import EmbeddingModel, StaticEmbeddingModel
from agentscope_rx.testing import ScriptedModel, ScriptedRequest, call

LIMIT = 5
CHARS_A_TOKEN = 4

PEOPLE = (
    *("Alba", "Bruno", "Carla", "Dmitri", "Elena", "Farid", "Greta", "Hiro", "Ines", "Jonas"),
    *("Katya", "Liam", "Mina", "Nadir", "Olga", "Pablo", "Quinn", "Rosa", "Sven", "Tara"),
)


class Attribute(NamedTuple):
    """One kind of fact: two ways to state it, one to retract it, one to ask for it, and its values."""

    name: str
    states: tuple[str, str]
    retracts: str
    asks: str
    values: tuple[str, ...]


ATTRIBUTES = (
    Attribute(
        "home city",
        ("{p} lives in {v}.", "You know that {p} has an apartment in {v}?"),
        "{p} does not live in {v} any more, I do not know where {p} went.",
        "In which city is {p} at home?",
        ("Lisbon", "Oslo", "Bern", "Porto", "Ghent", "Turin", "Malmo", "Graz"),
    ),
    Attribute(
        "pet",
        ("{p}'s dog is called {v}.", "{p} has a dog named {v}."),
        "{p}'s dog {v} has been given away.",
        "What is the name of {p}'s pet?",
        ("Rex", "Bella", "Milo", "Luna", "Otto", "Nala", "Pixel", "Kiwi"),
    ),
    Attribute(
        "job",
        ("{p} works as a {v}.", "{p} found work as a {v}."),
        "{p} has lost the job as a {v}.",
        "What does {p} do for a living?",
        ("plumber", "teacher", "nurse", "baker", "pilot", "welder", "notary", "tailor"),
    ),
    Attribute(
        "favourite drink",
        ("{p} always orders {v}.", "{p}'s favourite drink is {v}."),
        "{p} has given up {v}.",
        "What does {p} like to drink?",
        ("green tea", "espresso", "cider", "lemonade", "cocoa", "tonic water", "kefir", "mate"),
    ),
    Attribute(
        "allergy",
        ("{p} is allergic to {v}.", "{p} cannot eat {v}."),
        "{p} is not allergic to {v} after all.",
        "Which food must {p} avoid because of an allergy?",
        ("peanuts", "shellfish", "wheat", "celery", "sesame", "soy", "mustard", "lupin"),
    ),
    Attribute(
        "instrument",
        ("{p} plays the {v}.", "{p} is taking lessons on the {v}."),
        "{p} has sold the {v} and stopped playing.",
        "Which musical instrument does {p} play?",
        ("cello", "oboe", "banjo", "harp", "trumpet", "viola", "flute", "drums"),
    ),
    Attribute(
        "birthday",
        ("{p} was born in {v}.", "{p}'s birthday is in {v}."),
        "I was wrong that {p} was born in {v}.",
        "In which month is {p}'s birthday?",
        ("January", "February", "March", "April", "June", "August", "October", "December"),
    ),
)

CHATTER = (
    "The weather is dreadful today, is it not?",
    "Can you help me write a shopping list?",
    "I had a long day at the office.",
    "What do you think about the new bridge?",
    "Please remind me to water the plants.",
    "We watched a film about whales last night.",
    "The train was late again this morning.",
    "I should really clean the garage some day.",
    "Tell me something about the moon.",
    "My neighbour has painted the fence.",
)
REPLIES = ("I see.", "Good to know, thank you for telling me.", "That sounds fine.", "Of course. What else can I do?")


Told = dict[tuple[str, str], list[str | None]]
"""The values of each fact in the order in which they were said; None for a retraction."""


class Statement(NamedTuple):
    """One planted statement; `value` is None if it retracts `was`."""

    person: str
    attribute: Attribute
    value: str | None
    was: str | None
    text: str


@dataclass(frozen=True)
class Question:
    """A question, its present answer (None: there is none any more) and the outdated ones."""

    text: str
    person: str
    answer: str | None
    outdated: tuple[str, ...]


@dataclass(frozen=True)
class Data:
    """The conversations, each a list of messages, and the questions."""

    sessions: tuple[tuple[Msg, ...], ...]
    questions: tuple[Question, ...]
    statements: int


@dataclass(frozen=True)
class Score:
    """The counts of one row, as fractions, and the tokens of an answer."""

    recall: float
    stale: float
    tokens: float
    milliseconds: float = 0.0


# --- the data ---------------------------------------------------------------------------------------------------------


def planted(seed: int = 1, *, sessions: int = 50, statements: int = 200) -> Data:
    """The data of this seed: of the statements one in twenty is a retraction, about a quarter are corrections."""
    chance = random.Random(seed)  # noqa: S311
    keys = [(person, attribute) for attribute in ATTRIBUTES for person in PEOPLE]
    chance.shuffle(keys)
    later = max(statements // 4, statements - len(keys))
    known = keys[: statements - later]
    told: Told = {}
    plan = [_stated(chance, person, attribute, told) for person, attribute in known]
    changed = chance.sample(known, later)
    for number, (person, attribute) in enumerate(changed):
        make = _retracted if number < statements // 20 else _stated
        # a change comes after the statement that it changes
        first = next(i for i, each in enumerate(plan) if (each.person, each.attribute) == (person, attribute))
        plan.insert(chance.randint(first + 1, len(plan)), make(chance, person, attribute, told))
    parts = [plan[n * len(plan) // sessions : (n + 1) * len(plan) // sessions] for n in range(sessions)]
    asked = [
        Question(attribute.asks.format(p=person), person, values[-1], tuple(v for v in values[:-1] if v is not None))
        for person, attribute in known
        for values in (told[person, attribute.name],)
    ]
    return Data(tuple(_session(chance, part, number) for number, part in enumerate(parts)), tuple(asked), len(plan))


def _stated(chance: random.Random, person: str, attribute: Attribute, told: Told) -> Statement:
    values = told.setdefault((person, attribute.name), [])
    value = chance.choice([each for each in attribute.values if each not in values])
    was = values[-1] if values else None
    values.append(value)
    return Statement(person, attribute, value, was, chance.choice(attribute.states).format(p=person, v=value))


def _retracted(chance: random.Random, person: str, attribute: Attribute, told: Told) -> Statement:
    values = told[person, attribute.name]
    was = values[-1]
    values.append(None)
    return Statement(person, attribute, None, was, attribute.retracts.format(p=person, v=was))


def _session(chance: random.Random, statements: Sequence[Statement], number: int) -> tuple[Msg, ...]:
    said = [each.text for each in statements] + chance.sample(CHATTER, 4)
    # statements keep their order: a correction may be of the same conversation
    order = sorted(range(len(said)), key=lambda i: chance.random())
    places = sorted(i for i, at in enumerate(order) if at < len(statements))
    rest = iter([said[at] for at in order if at >= len(statements)])
    planned = iter(said[: len(statements)])
    lines = [next(planned) if i in places else next(rest) for i in range(len(said))]
    moment = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=number)
    messages: list[Msg] = []
    for line in lines:
        messages += [Msg.user(line), Msg.assistant(chance.choice(REPLIES))]
    return tuple(each.replace(timestamp=moment.isoformat()) for each in messages)


# --- the scripted model -----------------------------------------------------------------------------------------------


def _pattern(template: str) -> re.Pattern[str]:
    plain = re.escape(template).replace(re.escape("{p}"), "{p}").replace(re.escape("{v}"), "{v}")
    return re.compile(plain.replace("{p}", r"(?P<p>\w+)", 1).replace("{p}", r"\w+").replace("{v}", r"(?P<v>[\w ]+)"))


_STATES = [(attribute, _pattern(text)) for attribute in ATTRIBUTES for text in attribute.states]
_RETRACTS = [(attribute, _pattern(attribute.retracts)) for attribute in ATTRIBUTES]
GONE = "no longer known"


def distil(request: ScriptedRequest) -> ToolUseBlock:
    """One turn of the scripted model: finds the planted sentences, and compares facts by their subjects."""
    text = request.messages[1].text
    if request.tools[0].name == "store_facts":
        return call("store_facts", facts=_facts(text))
    new, known = text.split("</new_facts>")
    old = {match[2]: match[1] for match in re.finditer(r"^(k\d+)\. \[(.*?)\]", known, re.MULTILINE)}
    operations: list[dict[str, object]] = []
    for match in re.finditer(r"^(\d+)\. \[(.*?)\] (.*)$", new, re.MULTILINE):
        operation: dict[str, object] = {"fact": int(match[1]), "action": "none" if GONE in match[3] else "add"}
        if match[2] in old:
            operation |= {"action": "delete" if GONE in match[3] else "update", "id": old[match[2]]}
        operations.append(operation)
    return call("update_memory", operations=operations)


def _facts(text: str) -> list[dict[str, str]]:
    facts: dict[str, dict[str, str]] = {}
    for line in text.splitlines():
        for attribute, pattern in _STATES:
            if match := pattern.search(line):
                subject = f"{match['p']}'s {attribute.name}"
                facts[subject] = {"subject": subject, "text": attribute.states[0].format(p=match["p"], v=match["v"])}
        for attribute, pattern in _RETRACTS:
            if match := pattern.search(line):
                subject = f"{match['p']}'s {attribute.name}"
                facts[subject] = {"subject": subject, "text": f"{subject} is {GONE}"}
    return list(facts.values())


# --- the rows ---------------------------------------------------------------------------------------------------------


def recorded(data: Data, memory: LongTermMemory) -> None:
    """Record the conversations, one after the other."""
    for number, messages in enumerate(data.sessions):
        source = NoteSource(session_key=f"s{number}", at=datetime.fromisoformat(messages[0].timestamp))
        memory.record(messages, source=source).run()


def scored(data: Data, memory: LongTermMemory) -> Score:
    """Ask all questions of a long-term memory."""
    begun = time.perf_counter()
    answers = [[note.text for note in memory.retrieve(each.text, LIMIT).run()] for each in data.questions]
    return _score(data, answers, (time.perf_counter() - begun) * 1000 / len(answers))


def history_score(data: Data, tokens: float) -> Score:
    """Ask all questions of the newest messages that have so many tokens."""
    tail: list[str] = []
    left = tokens * CHARS_A_TOKEN
    for message in reversed([message for session in data.sessions for message in session]):
        left -= len(message.text)
        if left < 0:
            break
        tail.append(message.text)
    return _score(data, [tail] * len(data.questions))


def _score(data: Data, answers: Sequence[Sequence[str]], milliseconds: float = 0.0) -> Score:
    pairs = list(zip(data.questions, answers, strict=True))
    held = [_among(each.person, each.answer, texts) for each, texts in pairs if each.answer is not None]
    changed = [any(_among(each.person, old, texts) for old in each.outdated) for each, texts in pairs if each.outdated]
    characters = sum(len(text) for texts in answers for text in texts)
    return Score(
        sum(held) / len(held), sum(changed) / len(changed), characters / CHARS_A_TOKEN / len(answers), milliseconds
    )


def _among(person: str, value: str, texts: Sequence[str]) -> bool:
    """True if one of the texts says this of this person; a retraction does not."""
    return any(
        re.search(rf"\b{person}\b", text) and value in text and not any(p.search(text) for _, p in _RETRACTS)
        for text in texts
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    data = planted(parser.parse_args().seed)
    gone = sum(each.answer is None for each in data.questions)
    print(
        f"{data.statements} statements in {len(data.sessions)} conversations, {len(data.questions) - gone} facts hold"
    )
    print(f"{'':34}{'recall at 5':>12}{'stale':>8}{'tokens':>9}{'ms':>7}")
    vectors = StaticEmbeddingModel()
    rows: list[tuple[str, EmbeddingModel | None, bool]] = [
        ("messages, words", None, False),
        ("messages, words and vectors", vectors, False),
        ("distilled, words", None, True),
        ("distilled, words and vectors", vectors, True),
    ]
    score = Score(0, 0, 0)
    for name, embedding, distils in rows:
        with tempfile.TemporaryDirectory() as folder:
            model = ScriptedModel(distil, repeat=True) if distils else None
            memory = SqliteLongTermMemory(Path(folder) / "notes.db", embedding_model=embedding, model=model)
            recorded(data, memory)
            score = scored(data, memory)
        _print(name, score)
    for times in (1, 20):
        _print(f"history of {score.tokens * times:.0f} tokens", history_score(data, score.tokens * times))


def _print(name: str, score: Score) -> None:
    print(f"{name:34}{score.recall:>12.1%}{score.stale:>8.1%}{score.tokens:>9.0f}{score.milliseconds:>7.1f}")


if __name__ == "__main__":
    main()
