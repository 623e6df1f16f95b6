"""Arithmetic is exact, bounded, and nothing but arithmetic."""

from __future__ import annotations

import contextlib
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx import ToolError
from agentscope_rx.cli.arithmetic import calculate


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("17 * 23", "391"),
        ("0.1 + 0.2", "0.3"),
        ("100 / 8", "12.5"),
        ("10 / 3", "3.33333333333 (rounded)"),
        ("2 ^ 10", "1024"),
        ("2 ** -2", "0.25"),
        ("7 // 2", "3"),
        ("-7 % 3", "2"),
        ("1,250 - 387", "863"),
        ("max(1,200)", "200"),
        ("15% of 80", "12"),
        ("3 x 4 = ?", "12"),
        ("6 × 7", "42"),
        ("84 ÷ 2 − 1", "41"),
        ("0x10", "16"),
        ("sqrt(16)", "4"),
        ("sqrt(2)", "1.41421356237"),
        ("2 ** 0.5", "1.41421356237"),
        ("sqrt(1/4)", "0.5"),
        ("round(2.345, 2)", "2.34"),
        ("floor(-1.5) + ceil(1.2)", "0"),
        ("min(3, 1.5, 2)", "1.5"),
        ("abs(-3)", "3"),
        ("log10(1000)", "3"),
        ("2 * pi", "6.28318530718"),
        ("1e3", "1000"),
        ("1 / 10**30", "1e-30"),
        ("+-+5", "-5"),
    ],
)
def test_values(expression: str, value: str) -> None:
    assert calculate(expression).rpartition(" = ")[2] == value


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("1 / 0", "division by zero"),
        ("0 ** -1", "division by zero"),
        ("9 ** 9 ** 9", "too large"),
        ("2 ** 2 ** 2 ** 2 ** 2 ** 2", "too large"),
        ("1e400", "too large"),
        ("exp(10000)", "too large"),
        ("10.0 ** 400 ** 2.5", "too large"),
        ("*".join(["1e99"] * 60), "too large"),
        ("1" * 301, "too long"),
        ("(-8) ** 0.5", "no such power"),
        ("sqrt(-1)", "no square root"),
        ("log(0)", "log has no value for 0"),
        ("sqrt(1, 2)", "sqrt takes 1 numbers, not 2"),
        ("round(1, 10**9)", "round goes to"),
        ("foo(1)", "'foo' is not known"),
        ("x + 1", "'x' is not known"),
        ("__import__('os')", "'__import__' is not known"),
        ("(1).real", "not arithmetic"),
        ("[1][0]", "not arithmetic"),
        ("'a' * 9", "not arithmetic"),
        ("True + 1", "not arithmetic"),
        ("1j", "not arithmetic"),
        ("1 < 2", "not arithmetic"),
        ("1 if 1 else 2", "not arithmetic"),
        ("lambda: 1", "not arithmetic"),
        ("round(1, ndigits=2)", "not"),
        ("max(*[1])", "not arithmetic"),
        ("1 & 3", "not arithmetic"),
        ("1 << 9", "not arithmetic"),
        ("2 +", "not arithmetic"),
        ("", "not arithmetic"),
        ("(" * 150 + ")" * 150, "not arithmetic"),
        ("-" * 299, "not arithmetic"),
    ],
)
def test_refusals(expression: str, why: str) -> None:
    with pytest.raises(ToolError, match=why):
        calculate(expression)


decimals = st.decimals(-10_000, 10_000, places=3)


@given(decimals, decimals, st.sampled_from("+-*"))
def test_decimals_are_exact(a: Decimal, b: Decimal, sign: str) -> None:
    exact = {"+": Fraction(a) + Fraction(b), "-": Fraction(a) - Fraction(b), "*": Fraction(a) * Fraction(b)}[sign]
    assert Fraction(calculate(f"{a} {sign} ({b})").rpartition(" = ")[2]) == exact


@given(st.text("0123456789.+-*/%() ,eEx^jsqrtpi", max_size=40))
def test_whatever_is_given_is_answered_or_refused(expression: str) -> None:
    with contextlib.suppress(ToolError):
        assert calculate(expression)
