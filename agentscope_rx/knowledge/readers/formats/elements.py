"""`Element`: what is used of an element of lxml, which brings no types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol


class Element(Protocol):
    """An element of HTML or XML. Its text is before its first child, its tail behind its end."""

    tag: object
    text: str | None
    tail: str | None

    def get(self, name: str) -> str | None:
        """An attribute."""
        ...

    def find(self, path: str) -> Element | None:
        """The first element of this path."""
        ...

    def iter(self, *tags: str) -> Iterator[Element]:
        """The elements of these tags in it, and itself."""
        ...

    def iterchildren(self, *tags: str) -> Iterator[Element]:
        """Its children of these tags."""
        ...

    def itertext(self, *tags: str, with_tail: bool = True) -> Iterator[str]:
        """The texts in it."""
        ...

    def __iter__(self) -> Iterator[Element]: ...

    def __reversed__(self) -> Iterator[Element]: ...
