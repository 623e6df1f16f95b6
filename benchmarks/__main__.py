"""What is measured beside the comparison of `benchmarks.compare`, part after part: `make bench-parts`.

The engine's cases beside the bare loop, the costs of traces, and what retrieval finds.
"""

from __future__ import annotations

from benchmarks import rows, traced
from benchmarks.knowledge import retrieval


def main() -> None:
    """Measure and print."""
    rows.main()
    print()
    traced.main()
    print()
    retrieval.main([])


if __name__ == "__main__":
    main()
