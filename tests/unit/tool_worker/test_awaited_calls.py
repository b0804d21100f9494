"""Which calls of a program are awaited is read off its code, whatever the code is."""

import pytest

from pentad.services.tool_worker.builtins.programs.awaited_calls import awaited_calls


def awaited(code: str) -> list[str]:
    """The calls of ``f`` that are awaited, as they are written."""
    found = [code.encode()[start:end].decode() for start, end in sorted(awaited_calls(code))]
    return [call for call in found if call.startswith("f(")]


@pytest.mark.parametrize(
    ("code", "calls"),
    [
        ("f(1)", []),
        ("x = f(1)\nawait other(x)", []),
        ("await f(1)", ["f(1)"]),
        ("x = f(1)\nawait g(f(2))", []),
        ("import asyncio\nasyncio.gather(f(1), f(2))", ["f(1)", "f(2)"]),
        ("a = f(0)\nb = await gather(f(1), *[f(2) for _ in x])", ["f(1)", "f(2)"]),
        ("t = [f(1), f(2)]\nawait gather(*t)", ["f(1)", "f(2)"]),
        ("t = []\nfor n in y:\n    t.append(f(n))\nawait gather(*t)", ["f(n)"]),
        ("t = []\nt += [f(3)]\nawait gather(*t)", ["f(3)"]),
        ("t = {}\nt['a'] = f(1)\nawait t['a']", ["f(1)"]),
        ("t = {'a': f(1)}\nawait gather(*t.values())", ["f(1)"]),
        ("t = {n: f(n) for n in x}\nawait gather(*t.values())", ["f(n)"]),
        ("t = [f(1)]\nfor each in t:\n    await each", ["f(1)"]),
        ("t = [f(1)]\nr = [await each for each in t]", ["f(1)"]),
        ("a, b = f(1), f(2)\nawait a\nawait b", ["f(1)", "f(2)"]),
        ("a = b = f(1)\nawait b", ["f(1)"]),
        ("u = f(1)\nt = u\nawait t", ["f(1)"]),
        ("await (f(1) if x else f(2))", ["f(1)", "f(2)"]),
        ("await (t := f(1))", ["f(1)"]),
        ("async def g():\n    return await f(1)\nasyncio.run(g())", ["f(1)"]),
        ("async def g():\n    return f(1)\nawait g()", []),
        ("é = 'ü'; await f('ä')\nawait f(\n  2)", ["f('ä')", "f(\n  2)"]),
        ("await (", []),
        ("await f(1)\n\0", []),
    ],
)
def test_awaited_calls_are_found_and_no_others(code: str, calls: list[str]) -> None:
    assert awaited(code) == calls


@pytest.mark.parametrize(
    "piece",
    ["(", "[", "{", "-", "not ", "await ", "f(", "lambda:", "x=", "a.", "a+", "if a:\n ", "f'{", '"', "\\\n", "*"],
)
def test_code_that_is_nested_deep_has_no_awaited_calls_that_count(piece: str) -> None:
    """The code is that of a stranger, and is read in the worker's own process."""
    for end in ("", "1"):
        assert isinstance(awaited_calls("await x\n" + piece * (32_000 // len(piece)) + end), frozenset)
    assert isinstance(awaited_calls("await " + piece * 90 + "1"), frozenset)
