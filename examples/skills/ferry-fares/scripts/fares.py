#!/usr/bin/env python3
"""The fare of a trip: python fares.py ROUTE ADULTS CHILDREN"""

from __future__ import annotations

import sys

FARES = {"oslo-kiel": 120, "bergen-hirtshals": 95, "moss-horten": 9}
GROUP = 4
"""People from whom on there is a discount of a tenth."""


def main(route: str, adults: str, children: str) -> int:
    if route not in FARES:
        print(f"no such route: {route}; there are {', '.join(FARES)}")
        return 1
    people = int(adults) + int(children)
    total = FARES[route] * (int(adults) + int(children) / 2)
    print(f"{total * (0.9 if people >= GROUP else 1):.2f} euros" + (", with a group discount" * (people >= GROUP)))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
