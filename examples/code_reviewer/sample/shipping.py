"""The costs of shipping."""

from __future__ import annotations

FREE_FROM = 100.0


def costs(total: float, weight: float) -> float:
    """In euros; `weight` in kilograms."""
    if total >= FREE_FROM:
        return 0.0
    return 4.0 if weight <= 1.0 else 4.0 + 1.5 * (weight - 1.0)
