"""A vector in a few hundred bytes keeps its direction, and compares with those of its own model alone."""

import math
from random import Random

import pytest

from pentad.shared.digests.task_digest import MOST_DIMENSIONS, MOST_MODEL_CHARS, Sketch, blended, likeness, sketch_of


def vector(seed: int, dimensions: int = 384) -> list[float]:
    chance = Random(seed)
    return [chance.gauss(0, 1) for _ in range(dimensions)]


def sketch(values: list[float], model: str = "m") -> Sketch:
    found = sketch_of(model, values)
    assert found is not None
    return found


def cosine(one: list[float], other: list[float]) -> float:
    lengths = math.hypot(*one) * math.hypot(*other)
    return math.fsum(a * b for a, b in zip(one, other, strict=True)) / lengths


@pytest.mark.parametrize("share", [0.0, 0.2, 0.8, 1.0, -1.0])
def test_a_likeness_is_the_cosine_of_the_vectors(share: float) -> None:
    one, noise = vector(1), vector(2)
    other = [share * a + (1 - abs(share)) * b for a, b in zip(one, noise, strict=True)]
    assert likeness(sketch(one), sketch(other)) == pytest.approx(cosine(one, other), abs=0.02)


def test_a_long_vector_is_folded_and_stays_comparable() -> None:
    one, noise = vector(1, 3_072), vector(2, 3_072)
    near = [a + b for a, b in zip(one, noise, strict=True)]
    assert len(sketch(one).values) == MOST_DIMENSIONS
    assert likeness(sketch(one), sketch(near)) == pytest.approx(cosine(one, near), abs=0.15)
    assert likeness(sketch(one), sketch(noise)) == pytest.approx(0, abs=0.15)


@pytest.mark.parametrize("other", [sketch(vector(1), "another"), sketch(vector(1)[:100])])
def test_other_models_vectors_are_not_compared(other: Sketch) -> None:
    assert likeness(sketch(vector(1)), other) is None
    assert blended(sketch(vector(1)), other, 0.7) == sketch(vector(1))


@pytest.mark.parametrize(
    "values",
    [
        [],
        [0.0] * 384,
        [math.nan] * 384,
        [1.0, math.nan],
        [1.0, math.inf],
        [-math.inf, math.inf],
        [5e-324],
        [1e-40, 0.0],
    ],
)
def test_what_has_no_direction_has_no_sketch(values: list[float]) -> None:
    assert sketch_of("m", values) is None


def test_large_numbers_and_long_names_are_bounded() -> None:
    found = sketch([1e308, -1e308] * 900, "n" * 5_000)
    assert (len(found.values), len(found.model)) == (MOST_DIMENSIONS, MOST_MODEL_CHARS)


def test_a_blend_leans_to_what_was_said_last() -> None:
    new, old = sketch(vector(1)), sketch(vector(2))
    both = blended(new, old, 0.5)
    to_new, to_old = likeness(both, new), likeness(both, old)
    assert to_new is not None
    assert to_old is not None
    assert to_new > to_old > 0.3
