"""`JsonCache`: the JSON of values that cannot change, made once and kept as long as they live.

A request repeats the history before it, so that without it each round of a run would take longer than the one before.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final
from weakref import ref

MOST: Final = 16_384
"""How many texts are kept; of more, the oldest are made again when they are needed."""

_Key = tuple[str, int]


class JsonCache:
    """Texts by the identity of the value that they show, and by their form. From any thread."""

    __slots__ = ("_texts",)

    def __init__(self) -> None:
        self._texts: dict[_Key, tuple[ref[object], str]] = {}

    def of(self, form: str, value: object, make: Callable[[], str]) -> str:
        """The text of the value in this form; by `make` if there is none yet."""
        key = form, id(value)
        found = self._texts.get(key)
        if found is not None and found[0]() is value:
            return found[1]
        text = make()
        # (each step is atomic: the worst that another thread can do is to have a text made twice)
        if len(self._texts) >= MOST:
            self._forget_oldest()
        self._texts[key] = ref(value, partial(_forget, self._texts, key)), text
        return text

    def __len__(self) -> int:
        return len(self._texts)

    def __reduce__(self) -> tuple[type[JsonCache], tuple[()]]:
        # a copy of a `Content`, or one in another process, begins with none
        return JsonCache, ()

    def _forget_oldest(self) -> None:
        for key in list(self._texts)[: MOST // 16]:
            self._texts.pop(key, None)


def _forget(texts: dict[_Key, tuple[ref[object], str]], key: _Key, gone: ref[object]) -> None:
    """The value has gone; another one may have its id, and its text, by now."""
    found = texts.get(key)
    if found is not None and found[0] is gone:
        texts.pop(key, None)
