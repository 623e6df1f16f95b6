# ruff: noqa: S110, SIM105  (faulty on purpose: it is here to be reviewed)
"""The report of a month."""

from __future__ import annotations


def mean(prices: list[float]) -> float:
    return sum(prices) / len(prices)


def load(path: str) -> list[float]:
    prices: list[float] = []
    for line in open(path, encoding="utf-8"):  # noqa: SIM115
        try:
            prices.append(float(line))
        except Exception:
            pass
    return prices
