"""A program of its own that saves without end: `python -m tests.session.writer STORE ROOT NAME COUNT`.

Each save puts a number into two values and into each item of a list that grows and, now and then, begins anew.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.session.stores import ON_DISK


def main(store: str, root: str, name: str, count: int) -> None:
    session = ON_DISK[store](Path(root))
    turns: list[str] = []
    for number in range(count):
        turns = [] if number % 20 == 19 else [*turns, f"{name} {number}"]
        session.save_all("shared", {"a": [name, number, turns], "b": [name, number]}, {"turns": turns}).run()
        session.save(name, "number", number).run()
        if number == 0:
            sys.stdout.write("begun\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
