"""Each heading of the five design documents is walked by a test, or has the reason why none does."""

import ast
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from tests.acceptance.seeds.headings import HEADINGS_IN, WALKS

FOLDER = Path(__file__).parents[1] / "acceptance" / "seeds"


@cache
def walks_of(module: str) -> Mapping[str, list[str]]:
    """Return the headings that each test of a module walks, in the order of its lines."""
    found: dict[str, list[str]] = {}
    for test in ast.parse((FOLDER / f"{module}.py").read_text()).body:
        if isinstance(test, ast.FunctionDef | ast.AsyncFunctionDef) and test.name.startswith("test_"):
            found[test.name] = [
                argument.value
                for node in ast.walk(test)
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "walked"
                for argument in node.args
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
            ]
    return found


@pytest.mark.parametrize("module", HEADINGS_IN)
def test_each_heading_of_a_document_has_its_walk(module: str) -> None:
    walks = WALKS[module]
    assert len(walks) == HEADINGS_IN[module]
    own = {heading: walk for heading, walk in walks.items() if walk.startswith("test_") and "::" not in walk}
    assert {(heading, test) for test, headings in walks_of(module).items() for heading in headings} == {*own.items()}


@pytest.mark.parametrize("module", HEADINGS_IN)
def test_a_heading_is_walked_once_in_its_module(module: str) -> None:
    named = [heading for headings in walks_of(module).values() for heading in headings]
    assert sorted(named) == sorted(set(named))


def test_tests_of_other_modules_that_walk_a_heading_are_there() -> None:
    named = {walk for walks in WALKS.values() for walk in walks.values() if "::" in walk}
    there = {f"{module}::{test}" for module in HEADINGS_IN for test in walks_of(module)}
    assert named - there == set()


def test_every_module_of_a_document_is_known() -> None:
    assert {path.stem for path in FOLDER.glob("test_[0-9]*.py")} == {*HEADINGS_IN} == {*WALKS}


def test_a_heading_without_a_test_has_a_reason() -> None:
    reasons = [walk for walks in WALKS.values() for walk in walks.values() if not walk.startswith("test_")]
    assert all(reason.endswith(".") and " " in reason for reason in reasons)
    assert len(reasons) <= 18
