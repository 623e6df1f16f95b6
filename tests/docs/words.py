"""How long and how plain the pages are: `python -m tests.docs.words [PAGE ...]` prints a table.

Words are those of prose, lists and tables, without code blocks and addresses of links. Sentences and the passive share
are of prose and lists only. The passive is guessed from its form, a form of "be" before a participle, so it is a number
to compare versions of a page by.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

from tests.docs.pages import DOCS, PAGES, ROOT, name_of

MOST_WORDS = 20_000
"""Of all pages in docs/ without the reference."""
REFERENCE = DOCS / "reference"

_IRREGULAR = "built|bound|broken|chosen|cut|done|drawn|found|given|held|kept|known|left|lost|made|met|paid|put|read|run|said|seen|sent|set|shown|taken|told|thrown|written"  # noqa: E501
_PASSIVE = re.compile(
    rf"\b(?:am|is|are|was|were|be|been|being)\b(?:\s+(?:not|never|also|only|\w+ly))?\s+(?:\w+ed|{_IRREGULAR})\b", re.I
)


class Measure(NamedTuple):
    words: int
    sentences: int
    sentence_words: int
    passive: int

    @property
    def length(self) -> float:
        """Words of a sentence, on average."""
        return self.sentence_words / max(self.sentences, 1)

    @property
    def share(self) -> float:
        """Sentences in the passive, of all."""
        return self.passive / max(self.sentences, 1)


def measure(text: str) -> Measure:
    text = re.sub(r"^ *(```|~~~).*?^ *\1.*?$", "", text, flags=re.M | re.S)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.S)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    words = len(re.findall(r"[\w`][^\s|]*", text))
    lines = [line for line in text.splitlines() if not re.match(r"\s*(\||#|:::|!!!)", line)]
    prose = re.sub(r"\n\s*(?=[-*\d])", ".\n", "\n".join(lines).replace("\n\n", ".\n"))
    sentences = [each for each in re.split(r"[.!?:]+\s", prose) if len(re.findall(r"\w+", each)) > 2]
    return Measure(
        words,
        len(sentences),
        sum(len(re.findall(r"[\w`][^\s]*", each)) for each in sentences),
        sum(bool(_PASSIVE.search(each)) for each in sentences),
    )


def total_words() -> int:
    """Words of docs/ without the reference."""
    pages = [page for page in PAGES if DOCS in page.parents and REFERENCE not in page.parents]
    return sum(measure(page.read_text(encoding="utf-8")).words for page in pages)


def main() -> None:
    pages = [Path(name).resolve() for name in sys.argv[1:]] or PAGES
    print(f"{'words':>6} {'a sentence':>10} {'passive':>8}  page")
    for page in pages:
        found = measure(page.read_text(encoding="utf-8"))
        name = name_of(page) if ROOT in page.parents else page.name
        print(f"{found.words:6} {found.length:10.1f} {found.share:8.0%}  {name}")
    print(f"{total_words():6} words in docs/ without the reference, of at most {MOST_WORDS:,}")


if __name__ == "__main__":
    main()
