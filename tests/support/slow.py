"""Cases of a test that `make test` leaves to `make test-all`."""

from collections.abc import Iterable
from typing import Any

import pytest


def rarely(cases: Iterable[Any], *often: Any) -> list[Any]:
    """The cases for ``parametrize``; those that are not named in ``often`` are slow."""
    given = list(cases)
    assert set(often) <= set(given), "a case that is to run always is none of the cases"
    return [each if each in often else _slow(each) for each in given]


def _slow(case: Any) -> Any:
    """The case with its mark; a tuple has a value for each name."""
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
