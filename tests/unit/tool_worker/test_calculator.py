"""The calculator is exact, quick whatever it is given, and knows nothing but numbers."""

import re

import pytest

from pentad.services.tool_worker.builtins.calculator import MAX_LENGTH, CalculatorError, calculator


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("(15+27)*3-42/6", "119"),
        (" 2 ** 10 ", "1024"),
        ("0.1+0.2", "0.3"),
        ("7/2", "3.5"),
        ("1/3", "0.333333333333333"),
        ("7//2", "3"),
        ("-7%3", "2"),
        ("-0.0", "0"),
        ("1e20", "1e+20"),
        ("10**300/10**298", "100"),
        ("2**-(10**9)", "0"),
        ("sqrt(2)*sin(pi/4)", "1"),
        ("round(2.567, 2) + round(2.567, digits=1)", "5.17"),
        ("factorial(20)", "2432902008176640000"),
        ("factorial(3.0)", "6"),
        ("max(1, 2, 3)", "3"),
        ("gcd(12, 18) + lcm(4, 6)", "18"),
        ("2**3**2", "512"),
        ("1 if 2 > 1 else 3", "1"),
        ("1 < 2", "True"),
        ("+".join(["1"] * 500), "500"),
        ("10-4-3", "3"),
        ("(-1)**10**300", "1"),
    ],
)
def test_arithmetic(expression: str, result: str) -> None:
    assert calculator(expression) == result


@pytest.mark.parametrize("exponent", [100, 1_000, 4_299])
def test_integers_are_exact_up_to_4300_digits(exponent: int) -> None:
    assert calculator(f"10**{exponent}+7") == "1" + "0" * (exponent - 1) + "7"


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("10**4300", "more than 4,300 digits"),
        ("9**9**9", "more than 4,300 digits"),
        ("pow(9, 9**9)", "more than 4,300 digits"),
        ("*".join(["(9**4500)"] * 90), "more than 4,300 digits"),
        ("factorial(10**7)", "more than 4,300 digits"),
        ("factorial(2.5)", "whole number"),
        ("factorial(-1)", "negative"),
        ("round(5, -10**9)", "at most 400 decimals"),
        ("1e308*10", "too large for a float"),
        ("10**400*1.0", "too large for a float"),
        ("1/0", "division by zero"),
        ("0**-1", "division by zero"),
        ("(-8)**0.5", "not a real number"),
        ("1j", "not a real number"),
        ("sqrt(-1)", "math domain error"),
        ("2^3", "write ** instead"),
        ("1<<5", "operators"),
        ("1,000", "write 1000"),
        ("", "empty"),
        ("1 +", "not an arithmetic expression"),
        ("x = 1", "not an arithmetic expression"),
        ("1\n2", "not an arithmetic expression"),
        ("y + 1", "'y' is not defined"),
        ("foo(1)", "'foo' not defined"),
        ("sqrt", "only numbers"),
        ("'a' * 10", "only numbers"),
        ("None", "only numbers"),
        ("[1]", "only numbers"),
        ("f'{1}'", "only numbers"),
        ("(1).real", "only numbers"),
        ("().__class__.__bases__[0]", "only numbers"),
        ("__import__('os').system('true')", "only numbers"),
        ("-" * (MAX_LENGTH - 1) + "1", "nested too deeply"),
        ("(" * 400 + "1" + ")" * 400, "not an arithmetic expression"),
        ("1" * (MAX_LENGTH + 1), "longer than 1,000 characters"),
    ],
)
def test_what_is_not_arithmetic_is_refused_with_its_reason(expression: str, reason: str) -> None:
    with pytest.raises(CalculatorError, match=re.escape(reason)):
        calculator(expression)
