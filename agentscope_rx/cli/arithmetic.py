"""`calculate`: exact arithmetic on a closed set of syntax. What is not in the tables below does not exist.

Whole numbers and decimals are fractions throughout, so that 0.1 + 0.2 is 0.3; roots, logarithms and sines are floats.
Lengths and powers are bounded before anything is computed.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from typing import Annotated, TypeAlias

from pydantic import Field

from agentscope_rx.errors import ToolError
from agentscope_rx.tools import tool

Number: TypeAlias = Fraction | float

MAX_LENGTH = 300
MAX_BITS = 4096
"""How large a number may be, on the way to the result too: about 1,200 digits."""
DIGITS = 12


@dataclass(frozen=True, slots=True)
class Function:
    """A function by name: how many numbers it takes, and what it makes of them."""

    least: int
    most: int
    compute: Callable[[list[Number]], Number]


_UNARY: dict[type[ast.unaryop], Callable[[Number], Number]] = {ast.UAdd: operator.pos, ast.USub: operator.neg}
_CONSTANTS: dict[str, Number] = {"pi": math.pi, "e": math.e}
_FUNCTIONS: dict[str, Function] = {
    "sqrt": Function(1, 1, lambda x: _root(x[0])),
    "abs": Function(1, 1, lambda x: abs(x[0])),
    "round": Function(1, 2, lambda x: _rounded(*x)),
    "floor": Function(1, 1, lambda x: Fraction(math.floor(x[0]))),
    "ceil": Function(1, 1, lambda x: Fraction(math.ceil(x[0]))),
    "min": Function(1, 50, min),
    "max": Function(1, 50, max),
    "exp": Function(1, 1, lambda x: math.exp(x[0])),
    "log": Function(1, 2, lambda x: math.log(*x)),
    "log10": Function(1, 1, lambda x: math.log10(x[0])),
    "log2": Function(1, 1, lambda x: math.log2(x[0])),
    "sin": Function(1, 1, lambda x: math.sin(x[0])),
    "cos": Function(1, 1, lambda x: math.cos(x[0])),
    "tan": Function(1, 1, lambda x: math.tan(x[0])),
}
_SPELLINGS = (
    (re.compile("[×·]"), "*"),
    (re.compile("÷"), "/"),
    (re.compile("[\u2212\u2013]"), "-"),
    (re.compile(r"\^"), "**"),
    (re.compile(r"(?<=[\d)])(?<!\b0)\s*[xX]\s*(?=[\d(])"), " * "),
    (re.compile(r"%\s*of\b"), "/ 100 *"),
    (re.compile(r"\s*=\s*\??\s*$"), ""),
)
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")


@tool
def calculate(
    expression: Annotated[
        str, Field(description="An arithmetic expression.", examples=["60 * 24 / 2", "(3 + 4) * 12"])
    ],
) -> str:
    """Calculate with numbers: add, plus, subtract, minus, multiply, divide, power, percent, how many."""
    given = expression.strip()
    if len(given) > MAX_LENGTH:
        raise ToolError(f"The expression is too long: at most {MAX_LENGTH} characters.")
    try:
        value = _value(ast.parse(_respelled(given), mode="eval").body)
        return f"{given.rstrip(' =?')} = {_written(value)}"
    except ToolError:
        raise
    except ZeroDivisionError:
        raise ToolError(f"{given} is a division by zero.") from None
    except OverflowError:
        raise ToolError(f"{given} is too large to calculate.") from None
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        raise ToolError(
            f"{given!r} is not arithmetic. Give numbers and + - * / // % ** ( ), such as 12 * (3 + 4)."
        ) from None


def _respelled(text: str) -> str:
    for pattern, spelling in _SPELLINGS:
        text = pattern.sub(spelling, text)
    # in max(1,200) the comma stands between two numbers; without a call it can only group digits
    return text if re.search("[a-z]", text) else _THOUSANDS.sub("", text)


def _value(node: ast.expr) -> Number:
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return _bounded(_exact(value))
        case ast.Name(id=name) if name in _CONSTANTS:
            return _CONSTANTS[name]
        case ast.UnaryOp() if type(node.op) in _UNARY:
            return _UNARY[type(node.op)](_value(node.operand))
        case ast.BinOp():
            return _bounded(_binary(node.op, _value(node.left), _value(node.right)))
        case ast.Call(func=ast.Name(id=name), keywords=[]) if name in _FUNCTIONS:
            return _bounded(_called(name, [_value(argument) for argument in node.args]))
        case ast.Name(id=name) | ast.Call(func=ast.Name(id=name)):
            known = ", ".join([*_FUNCTIONS, *_CONSTANTS])
            raise ToolError(f"{name!r} is not known. Give numbers and operators; the functions are {known}.")
        case _:
            raise ValueError(type(node).__name__)


def _binary(op: ast.operator, a: Number, b: Number) -> Number:
    match op:
        case ast.Add():
            return a + b
        case ast.Sub():
            return a - b
        case ast.Mult():
            return a * b
        case ast.Div():
            return a / b
        case ast.FloorDiv():
            return Fraction(a // b)
        case ast.Mod():
            return a % b
        case ast.Pow():
            return _power(a, b)
        case _:
            raise ValueError(type(op).__name__)


def _called(name: str, numbers: list[Number]) -> Number:
    function = _FUNCTIONS[name]
    if not function.least <= len(numbers) <= function.most:
        wanted = str(function.least) if function.least == function.most else f"{function.least} to {function.most}"
        raise ToolError(f"{name} takes {wanted} numbers, not {len(numbers)}.")
    try:
        return function.compute(numbers)
    except ValueError:
        raise ToolError(f"{name} has no value for {', '.join(map(_written, numbers))}.") from None


def _exact(value: float) -> Fraction:
    """A literal as it was written: the shortest decimal that stands for the float."""
    if not math.isfinite(value):
        raise OverflowError
    return Fraction(value) if isinstance(value, int) else Fraction(repr(value))


def _bounded(value: Number) -> Number:
    if isinstance(value, Fraction):
        if max(value.numerator.bit_length(), value.denominator.bit_length()) > MAX_BITS:
            raise OverflowError
        return value
    if not math.isfinite(value):
        raise OverflowError
    return value


def _power(base: Number, exponent: Number) -> Number:
    if isinstance(base, Fraction) and isinstance(exponent, Fraction) and exponent.denominator == 1:
        size = max(base.numerator.bit_length(), base.denominator.bit_length())
        if size > 1 and size * abs(exponent) > 2 * MAX_BITS:
            raise OverflowError
        return base ** int(exponent)
    if base < 0:
        raise ToolError("A negative number has no such power.")
    return float(base) ** float(exponent)


def _rounded(value: Number, digits: Number = 0.0) -> Number:
    if not -MAX_LENGTH <= digits <= MAX_LENGTH:
        raise ToolError(f"round goes to at most {MAX_LENGTH} digits.")
    return round(Fraction(value), int(digits))


def _root(value: Number) -> Number:
    if value < 0:
        raise ToolError("A negative number has no square root.")
    if isinstance(value, Fraction):
        above, below = math.isqrt(value.numerator), math.isqrt(value.denominator)
        if above * above == value.numerator and below * below == value.denominator:
            return Fraction(above, below)
    return math.sqrt(value)


def _written(value: Number) -> str:
    """A whole number or a short decimal as it is, anything else to `DIGITS` digits."""
    if isinstance(value, float):
        # a float is a rounded number already: its last digits mean nothing
        return _plain(Context(prec=DIGITS).create_decimal(value))
    if value.denominator == 1:
        return str(value.numerator)
    rest = value.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    exact = Context(prec=2 * DIGITS).divide(Decimal(value.numerator), Decimal(value.denominator))
    if rest == 1 and Fraction(exact) == value:
        return _plain(exact)
    rounded = Context(prec=DIGITS).divide(Decimal(value.numerator), Decimal(value.denominator))
    return f"{_plain(rounded)} (rounded)"


def _plain(value: Decimal) -> str:
    """Without an exponent where that is readable, and without trailing zeros."""
    if value and not -7 < value.adjusted() < 21:
        return f"{value.normalize():e}"
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
