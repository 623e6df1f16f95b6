"""`--knowledge` of `ask` and `chat`: the flags, and the knowledge bases that they name."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from agentscope_rx.cli.index import bring_up_to_date
from agentscope_rx.cli.knowledge_place import (
    IndexPlace,
    add_embedding_flag,
    add_no_index_flag,
    check_indexed,
    check_usable,
)

if TYPE_CHECKING:
    from agentscope_rx.knowledge import KnowledgeBase

MODES: Final = ("generic", "agentic")


def add_knowledge_flags(parser: argparse.ArgumentParser) -> None:
    """Add `--knowledge` and what belongs to it."""
    parser.add_argument(
        "--knowledge",
        metavar="DIR",
        action="append",
        default=[],
        help="answer from the documents in this folder, which is indexed first, or from an index: a .db file or a URL "
        "(repeatable)",
    )
    parser.add_argument(
        "--knowledge-mode",
        choices=MODES,
        default="generic",
        help="generic: search for each question; agentic: the model searches when it needs to (generic)",
    )
    add_embedding_flag(parser)
    add_no_index_flag(parser)


def knowledge_of(flags: argparse.Namespace) -> list[KnowledgeBase]:
    """The bases of `--knowledge`, brought up to their folders unless `--no-index` is given."""
    names: Sequence[str] = flags.knowledge
    if not names:
        return []
    places = [IndexPlace.of(name, flags.embedding) for name in dict.fromkeys(names)]
    bases: list[KnowledgeBase] = []
    for place in places:
        if place.folder is None or flags.no_index:
            check_indexed(place)
            base = place.base()
            check_usable(place, base)
            bases.append(base)
        else:
            bases.append(bring_up_to_date(place, quiet=flags.quiet or flags.json))
    return bases
