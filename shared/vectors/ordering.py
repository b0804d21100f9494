"""The order of hits, the same from every store. Pure."""

from collections.abc import Iterable

from pentad.shared.vectors.points import Hit


def score_of(raw: float) -> float:
    """A store's score with the five digits that are the same in every store: they add in different orders."""
    return float(f"{raw:.5g}")


def ordered(hits: Iterable[Hit]) -> list[Hit]:
    """The best first; of equal ones the lower id."""
    return sorted(hits, key=lambda hit: (-hit.score, hit.id))
