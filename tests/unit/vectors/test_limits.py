"""What can never be kept or found is refused, with a text that says why."""

import math
from dataclasses import replace
from typing import Any

import pytest

from pentad.shared.errors import MemoryRefusedError
from pentad.shared.owners import Owner
from pentad.shared.vectors.limits import check_dimensions, check_name, check_points, check_queries
from pentad.shared.vectors.points import Dense, Point, Sparse, SparseVector
from pentad.shared.vectors.selection import DenseQuery, Selection, SparseQuery
from tests.support.point_maker import ADA, near, point

GOOD = point("a")
SEEN = Selection(ADA)


def with_words(indices: tuple[int, ...], values: tuple[float, ...]) -> Point:
    return replace(GOOD, sparse={Sparse.WORDS: SparseVector(indices, values)})


POINTS: list[tuple[Point, str]] = [
    (point("a", dense=(math.nan, 0, 0)), "numbers that are none"),
    (point("a", dense=(math.inf, 0, 0)), "numbers that are none"),
    (point("a", dense=(1e200, 0, 0)), "too large"),
    (point("a", dense=()), "vectors of 0 numbers"),
    (point("a", dense=(0.0,) * 5000), "4096"),
    (replace(GOOD, dense={Dense.TEXT: (1, 0, 0), Dense.AROUND: (1, 0)}), "2 numbers"),
    (with_words((1, 1), (1, 1)), "each term once"),
    (with_words((1, 2), (1,)), "each term once"),
    (with_words((-1,), (1,)), "32 bits"),
    (with_words((1 << 32,), (1,)), "32 bits"),
    (with_words((1,), (math.nan,)), "numbers that are none"),
    (with_words(tuple(range(9000)), (1.0,) * 9000), "8192"),
    (replace(GOOD, id="1"), "UUID"),
    (replace(GOOD, id=GOOD.id.upper()), "UUID"),
    (point("a", text="x" * 70_000), "65536 at most"),
    (point("a", text="猫" * 30_000), "65536 at most"),
    (point("a", details={"k": "x" * 70_000}), "65536 at most"),
    (point("a", text="\ud800"), "UTF-8"),
    (point("a", details={"k": object()}), "numbers are finite"),
    (point("a", details={"k": math.nan}), "numbers are finite"),
    (point("a", details={"k": 1 << 70}), "64 bits"),
    (point("a", importance=math.nan), "importance"),
    (point("a", importance=1.5), "importance"),
    (point("a", at=-1), "time"),
    (point("a", at=1 << 60), "time"),
    (point("a", position=-1), "position"),
    (point("a", task=""), "printable"),
    (point("a", anchor="x" * 600), "printable"),
    (point("a", kind="a\nb"), "printable"),
]


@pytest.mark.parametrize(("bad", "why"), POINTS)
def test_a_bad_point_is_refused(bad: Point, why: str) -> None:
    with pytest.raises(MemoryRefusedError, match=why):
        check_points([point("good"), bad])


def test_large_numbers_are_taken_one_by_one() -> None:
    check_points([point("a", dense=(9e29, -9e29, 9e29))])


QUERIES: list[tuple[Any, str]] = [
    (near((math.nan, 0, 0), SEEN), "numbers that are none"),
    (near((1, 0, 0), SEEN, 0), "1 to 1000"),
    (near((1, 0, 0), SEEN, 10**9), "1 to 1000"),
    (near((1, 0, 0), Selection(ADA, ids=("x",))), "UUID"),
    (near((1, 0, 0), Selection(ADA, tasks=tuple(map(str, range(2000))))), "1000 at most"),
    (near((1, 0, 0), Selection(ADA, since=-5)), "time"),
    (DenseQuery((1.0,) * 5000, Dense.TEXT, SEEN, 5), "4096"),
    (SparseQuery(SparseVector((1,), (math.inf,)), Sparse.WORDS, SEEN, 5), "numbers that are none"),
]


@pytest.mark.parametrize(("bad", "why"), QUERIES)
def test_a_bad_query_is_refused(bad: Any, why: str) -> None:
    with pytest.raises(MemoryRefusedError, match=why):
        check_queries([near((1, 0, 0), SEEN), bad])


@pytest.mark.parametrize("name", ["", "..", "../up", "a/b", "a.part", "x" * 101, "a b", "-a", "猫"])
def test_a_name_that_could_be_a_path_is_refused(name: str) -> None:
    with pytest.raises(MemoryRefusedError, match="name of a collection"):
        check_name(name)


@pytest.mark.parametrize("dimensions", [0, -1, 4097])
def test_a_dimension_out_of_bounds_is_refused(dimensions: int) -> None:
    with pytest.raises(MemoryRefusedError, match="numbers"):
        check_dimensions(dimensions)


@pytest.mark.parametrize("tenant", ["", "*", "a b", "猫", "x" * 200, "a\n"])
def test_there_is_no_selection_without_a_tenant(tenant: str) -> None:
    with pytest.raises(MemoryRefusedError, match="identifiers"):
        Selection(Owner(tenant))
