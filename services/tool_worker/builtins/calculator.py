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
    if not expression.strip():
        raise CalculatorError("the expression is empty")
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
    whole = isinstance(base, int) and isinstance(exponent, int) and exponent > 0
    if whole and (int(abs(base)).bit_length() - 1) * exponent > _MAX_BITS:
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


def _refusal(reason: str) -> Callable[..., Any]:
    """Make a stand-in for an operator or a node, which says why it is not calculated."""

    def refuse(*_: Any) -> Any:
        raise CalculatorError(reason)

    return refuse


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
_NOT_NUMBERS = (
    ast.Attribute,
    ast.Subscript,
    ast.Slice,
    ast.JoinedStr,
    ast.FormattedValue,
    ast.List,
    ast.Dict,
    ast.Lambda,
)
_NOT_ARITHMETIC = (ast.LShift, ast.RShift, ast.BitAnd, ast.BitOr, ast.Invert, ast.In, ast.NotIn, ast.Is, ast.IsNot)
_REFUSED_NODES = {
    **dict.fromkeys(_NOT_NUMBERS, _refusal("only numbers and the functions listed can be used")),
    ast.Tuple: _refusal("a comma only separates arguments: write 1000, not 1,000"),
}
_REFUSED_OPERATORS = {
    **dict.fromkeys(_NOT_ARITHMETIC, _refusal("only the operators + - * / // % ** and comparisons can be used")),
    ast.BitXor: _refusal("'^' is not a power here: write ** instead"),
}


class _Evaluator(simpleeval.SimpleEval):  # type: ignore[misc]
    """``simpleeval`` with nothing but numbers."""

    def __init__(self) -> None:
        super().__init__(functions=_FUNCTIONS, names=_CONSTANTS)
        self.nodes |= _REFUSED_NODES | {ast.BinOp: self._chain}
        self.operators |= _REFUSED_OPERATORS | {ast.Pow: _power}

    def _eval(self, node: ast.AST) -> Any:
        value = super()._eval(node)
        return value if isinstance(node, ast.keyword) else _checked(value)

    def _chain(self, node: ast.expr) -> Any:
        """A row of operators from left to right, without a level of recursion for each."""
        row: list[ast.BinOp] = []
        while isinstance(node, ast.BinOp):
            row.append(node)
            node = node.left
        value = self._eval(node)
        for step in reversed(row):
            value = _checked(self.operators[type(step.op)](value, self._eval(step.right)))
        return value
