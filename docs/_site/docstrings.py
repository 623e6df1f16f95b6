"""Docstrings for the reference: "Signals:" and "Cancels:" begin paragraphs of their own, in bold."""

from __future__ import annotations

import re

import griffe

_LAW = re.compile(r"\n+^(Signals|Cancels|Signals and cancels|Back-pressure):", re.M)


class Laws(griffe.Extension):
    """Turns the laws of a docstring into Markdown paragraphs."""

    def on_object(self, *, obj: griffe.Object, **_: object) -> None:
        """Change the docstring of one name."""
        if obj.docstring is not None:
            obj.docstring.value = _LAW.sub(r"\n\n**\1:**", obj.docstring.value)
