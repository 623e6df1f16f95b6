"""The question of `ask`: the words of the command line, and what is piped into it.

| command line                   | stdin      | question                        |
|--------------------------------|------------|---------------------------------|
| `ask Summarise this`           | a terminal | the words                       |
| `cat f \\| ask Summarise this` | a pipe     | the words, a blank line, `f`    |
| `cat f \\| ask Compare - to B` | a pipe     | the words with `f` for the `-`  |
| `cat f \\| ask`, `ask -`       | anything   | `f`                             |
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence

from agentscope_rx.cli.exit_codes import note
from agentscope_rx.errors import InvalidInputError

MAX_CHARACTERS = 10_000_000
"""More than any model reads."""
SILENCE = 2.0
"""Seconds after which it is said what is waited for."""


def question_of(words: Sequence[str]) -> str | None:
    """The question, None if there is none."""
    text = " ".join(words)
    if "-" in words:
        piped = _read()
        alone = len(words) == 1
        text = piped if alone else "\n".join(piped if word == "-" else word for word in _joined(words))
    elif not sys.stdin.isatty():
        piped = _read()
        text = f"{text}\n\n{piped}" if text.strip() and piped.strip() else text + piped
    return text.strip() or None


def _joined(words: Sequence[str]) -> list[str]:
    """The words between the dashes, as one text each."""
    found: list[list[str]] = [[]]
    for word in words:
        if word == "-":
            found += [["-"], []]
        else:
            found[-1].append(word)
    return [" ".join(each) for each in found if each]


def _read() -> str:
    waited = threading.Timer(SILENCE, note, ["reading standard input to its end (without any: < /dev/null)"])
    waited.daemon = True
    waited.start()
    try:
        text = sys.stdin.read(MAX_CHARACTERS + 1)
    finally:
        waited.cancel()
        waited.join()
    if len(text) > MAX_CHARACTERS:
        raise InvalidInputError(f"Standard input has more than {MAX_CHARACTERS:,} characters, which no model reads.")
    return text.rstrip("\n")
