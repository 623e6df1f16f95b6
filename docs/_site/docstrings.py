"""How the reference shows docstrings: `Signals:` and `Cancels:` begin paragraphs of their own, as lists and tables do.

In the source these lines follow one another without a blank line, which Markdown takes for one paragraph.
"""

from __future__ import annotations

import re

import griffe

LAW = re.compile(r"^(Signals(?: and cancels)?|Cancels|Back-pressure): ", re.M)
BLOCK = re.compile(r"^(?![ \t]*(?:[-*] |\d+\. |\|))(\S[^\n]*)\n(?=(?:- |\d+\. |\|))", re.M)
"""A line of text directly before a list or a table."""


def shown(text: str) -> str:
    """The docstring as Markdown."""
    return BLOCK.sub(r"\1\n\n", LAW.sub(r"\n**\1**: ", text)).strip("\n")


class Docstrings(griffe.Extension):
    """Applies `shown` to every docstring."""

    def on_object(self, *, obj: griffe.Object, **kwargs: object) -> None:
        if obj.docstring is not None:
            obj.docstring.value = shown(obj.docstring.value)
