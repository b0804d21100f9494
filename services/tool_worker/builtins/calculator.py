"""Arithmetic that a model can trust: exact integers, and no way out of arithmetic."""

import ast
import math
import warnings
from collections.abc import Callable
from typing import Any

import simpleeval

MAX_LENGTH = 1_000
"""Characters of an expression."""
MAX_DIGITS = 4_300
"""Digits of an integer, as many as Python turns into text."""
_MAX_BITS = math.ceil(MAX_DIGITS * math.log2(10))
_MAX_DECIMALS = 400
_TOO_BIG = f"a number in it has more than {MAX_DIGITS:,} digits"

Number = int | float


class CalculatorError(ValueError):
    """The expression has no value. Says why."""


def calculator(expression: str) -> str:
    """Calculates an arithmetic expression exactly, e.g. (15+27)*3-42/6 or sqrt(2)*sin(pi/4).

    Operators: + - * / // % ** and comparisons. Functions: sqrt cbrt exp log log2 log10 sin cos tan asin acos atan atan2
    sinh cosh tanh degrees radians hypot abs round floor ceil trunc min max gcd lcm factorial. Constants: pi e tau.

    Args:
        expression: The expression, without thousands separators or units.
    """
    return show(evaluate(expression))


def evaluate(expression: str) -> Number:
    """The value of an expression. Raises ``CalculatorError``."""
    if len(expression) > MAX_LENGTH:
        raise CalculatorError(f"the expression is longer than {MAX_LENGTH:,} characters: calculate it in parts")
    try:
        value: Number = _Evaluator().eval(expression, _parse(expression))
        return value
    except CalculatorError:
        raise
    except SyntaxError as error:
        raise CalculatorError(f"this is not an arithmetic expression: {error.msg}") from None
    except ZeroDivisionError:
        raise CalculatorError("division by zero") from None
    except OverflowError:
        raise CalculatorError("a number in it is too large for a float") from None
    except (RecursionError, MemoryError):
        raise CalculatorError("the expression is nested too deeply: calculate it in parts") from None
    except Exception as error:  # wrong arguments of functions, nodes that are not arithmetic
        raise CalculatorError(str(error)) from None


def show(value: Number) -> str:
    """A number as text: integers in full, others with 15 significant digits, whole ones without a point."""
    return str(value) if isinstance(value, int) else f"{value + 0.0:.15g}"


def _parse(expression: str) -> ast.expr:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on odd number literals
        return ast.parse(expression.strip(), mode="eval").body


def _checked(value: Any) -> Any:
    """``value`` if it is a number that we can carry. Raises ``CalculatorError``."""
    if isinstance(value, int):
        if value.bit_length() > _MAX_BITS or abs(value) >= _LIMIT:
            raise CalculatorError(_TOO_BIG)
    elif not isinstance(value, float):
        raise CalculatorError("it is not a real number" if isinstance(value, complex) else "only numbers can be used")
    elif not math.isfinite(value):
        raise CalculatorError("a number in it is too large for a float")
    return value


def _power(base: Number, exponent: Number) -> Any:
    """``base ** exponent``, refused before it is calculated when it would be too big."""
    whole = isinstance(base, int) and isinstance(exponent, int)
    if whole and (int(abs(base)).bit_length() - 1) * abs(exponent) > _MAX_BITS:
        raise CalculatorError(_TOO_BIG)
    return base**exponent


def _factorial(number: Number) -> int:
    if number > MAX_DIGITS:
        raise CalculatorError(_TOO_BIG)
    return math.factorial(number if isinstance(number, int) else _whole(number))


def _whole(number: float) -> int:
    if not number.is_integer():
        raise CalculatorError("factorial takes a whole number")
    return int(number)


def _round(number: Number, digits: int = 0) -> Number:
    if abs(digits) > _MAX_DECIMALS:
        raise CalculatorError(f"round takes at most {_MAX_DECIMALS} decimals")
    return round(number, digits) if digits else round(number)


def _xor(left: Any, right: Any) -> Any:
    raise CalculatorError("'^' is not a power here: write ** instead")


_LIMIT: int = 10**MAX_DIGITS
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{
        name: getattr(math, name)
        for name in (
            "sqrt cbrt exp log log2 log10 sin cos tan asin acos atan atan2 sinh cosh tanh degrees radians hypot "
            "floor ceil trunc gcd lcm"
        ).split()
    },
    "abs": abs,
    "min": min,
    "max": max,
    "pow": _power,
    "round": _round,
    "factorial": _factorial,
}
_CONSTANTS = {"pi": math.pi, "e": math.e, "tau": math.tau}
_DROPPED_NODES = (ast.Attribute, ast.Subscript, ast.JoinedStr, ast.FormattedValue, ast.Slice, ast.Assign, ast.AugAssign)
_DROPPED_OPERATORS = (ast.LShift, ast.RShift, ast.BitAnd, ast.BitOr, ast.Invert, ast.In, ast.NotIn, ast.Is, ast.IsNot)


class _Evaluator(simpleeval.SimpleEval):  # type: ignore[misc]
    """``simpleeval`` with nothing but numbers."""

    def __init__(self) -> None:
        super().__init__(functions=_FUNCTIONS, names=_CONSTANTS)
        for node in _DROPPED_NODES:
            self.nodes.pop(node, None)
        for operator in _DROPPED_OPERATORS:
            self.operators.pop(operator, None)
        self.operators |= {ast.Pow: _power, ast.BitXor: _xor}

    def _eval(self, node: ast.AST) -> Any:
        value = super()._eval(node)
        return value if isinstance(node, ast.keyword) else _checked(value)
