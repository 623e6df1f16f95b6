"""`search DIR QUESTION`: the passages that `ask --knowledge DIR` would be given, without a model.

1. guide/prices.md, p. 3, Prices > Winter  (0.92)
   A ticket costs 12 euros in winter.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from agentscope_rx.cli.exit_codes import ANSWERED, note
from agentscope_rx.cli.index import bring_up_to_date
from agentscope_rx.cli.knowledge_place import (
    IndexPlace,
    add_embedding_flag,
    add_no_index_flag,
    advised,
    check_filled,
    check_indexed,
)
from agentscope_rx.console.wording import clean, one_line
from agentscope_rx.errors import InvalidInputError

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from agentscope_rx.knowledge import KnowledgeBase, Passage
    from agentscope_rx.messages import Citation

LIMIT: Final = 5
SHOWN: Final = 300
"""The characters of a passage that are printed."""
KINDS: Final = ("hybrid", "vector", "keyword")


def add_search(commands: _SubParsersAction[argparse.ArgumentParser], count: Callable[[str], int]) -> None:
    """Add the command to a command line. `count` reads a whole number of at least 1."""
    text = (
        "Search the documents of a folder, which is indexed first, and print the passages that fit. No model is asked."
    )
    search = commands.add_parser("search", help="search the documents of a folder", description=text)
    search.add_argument("folder", metavar="DIR", help="the folder, or an index: a .db file or a URL")
    search.add_argument("question", nargs="+", help="what is searched for")
    search.add_argument("--limit", metavar="N", type=count, default=LIMIT, help=f"the most passages ({LIMIT})")
    search.add_argument("--threshold", metavar="X", type=_similarity, help="the least similarity, from -1 to 1")
    search.add_argument("--by", choices=KINDS, default="hybrid", help="meaning and words, only one of them (hybrid)")
    add_embedding_flag(search)
    add_no_index_flag(search)
    search.add_argument("--full", action="store_true", help="print passages whole")
    search.add_argument("--json", action="store_true", help="print the passages as JSON")


def search(flags: argparse.Namespace) -> int:
    """Run the command and return its exit status."""
    question = " ".join(flags.question)
    if not question.strip():
        raise InvalidInputError('There is no question. Give one, as in: agentscope-rx search docs "opening hours"')
    place = IndexPlace.of(flags.folder, flags.embedding)
    if place.folder is None or flags.no_index:
        check_indexed(place)
        base = place.base()
    else:
        base = bring_up_to_date(place, quiet=flags.json)
    base.search = flags.by
    try:
        found = advised(lambda: _found(place, base, question, flags), place)
    finally:
        base.store.close().run()
    if flags.json:
        print(json.dumps([_json(number, each) for number, each in enumerate(found, 1)], indent=2))
    else:
        for number, each in enumerate(found, 1):
            print(f"{number}. {citation_place(each.citation(number))}")
            text = clean(each.text.strip()) if flags.full else one_line(each.text, SHOWN)
            print("\n".join(f"   {line}" for line in text.split("\n")))
        if not found:
            note("nothing was found")
    return ANSWERED


def citation_place(citation: Citation) -> str:
    """Where a citation is: document, page, headings and score."""
    parts = [one_line(citation.document, 120)]
    if citation.page is not None:
        parts.append(f"p. {citation.page}")
    if citation.headings:
        parts.append(one_line(" > ".join(citation.headings), 120))
    return f"{', '.join(parts)}  ({citation.score:.2f})"


def _found(place: IndexPlace, base: KnowledgeBase, question: str, flags: argparse.Namespace) -> Sequence[Passage]:
    check_filled(place, base)
    return base.retrieve(question, flags.limit, threshold=flags.threshold).run()


def _json(number: int, passage: Passage) -> dict[str, object]:
    return {
        **passage.citation(number).to_dict(),
        "text": passage.text,
        "similarity": passage.similarity,
        "relevance": passage.relevance,
    }


def _similarity(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 2.0
    if not -1 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from -1 to 1")
    return value
