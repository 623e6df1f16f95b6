"""What answers without a key: rules that quote the sentence which shares the most words with the question.

It reads what a model would read, passages with their numbers, and cites them. It shows how things go together; it
understands nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from agentscope_rx import Msg
from agentscope_rx.testing import ScriptedModel, ScriptedRequest, call
from agentscope_rx.testing.scripted_model import Reply

PASSAGE = re.compile(r'<passage number="(\d+)" document="(.*?)"[^>]*>\n(.*?)\n</passage>', re.DOTALL)
SENTENCE = re.compile(r"(?<=[.?!])\s+|\n\n+")

LEAST = 5
"""What a sentence needs: more than one word of the question."""


def quoter() -> ScriptedModel:
    """A model that quotes."""
    return ScriptedModel(answer, repeat=True)


def answer(request: ScriptedRequest) -> Reply:
    """A sentence of a passage; for a question that goes on from the one before, first a call that looks further."""
    questions = [each.text for each in request.messages if each.role == "user" and "<knowledge>" not in each.text]
    question = questions[-1]
    if question.lower().startswith("and ") and len(questions) > 1:
        question = f"{questions[-2]} {question}"
        if not request.messages[-1].tool_results:
            return call("retrieve_knowledge", query=question)
    # the words of the last question count twice
    wanted = Counter([*stems(question), *stems(questions[-1])])
    best = max(quotes(request.messages, wanted), default=(0, "", ""))
    return f"{best[1]} [{best[2]}]" if best[0] > LEAST else "I have not found it in these documents."


def quotes(messages: Sequence[Msg], wanted: Counter[str]) -> Iterator[tuple[int, str, str]]:
    """Sentences with a word that is wanted: how well they fit, their text and the number of their passage."""
    texts = [text for each in messages for text in (each.text, *(result.text for result in each.tool_results))]
    for number, document, passage in (found for text in texts for found in PASSAGE.findall(text)):
        headings = " ".join(line for line in passage.splitlines() if line.startswith("#"))
        for sentence in SENTENCE.split(passage):
            here, around = stems(sentence), stems(f"{document} {headings}")
            if here & wanted.keys() and not sentence.startswith("#"):
                fit = 2 * sum(wanted[word] for word in here) + sum(wanted[word] for word in around - here)
                yield fit, " ".join(sentence.split()), number


def stems(text: str) -> set[str]:
    """The words of a text, without the shortest ones and most endings."""
    return {word[:5] for word in re.findall(r"\w+", text.lower()) if len(word) > 3 or word.isdigit()}
