"""A session's stream is bounded in bytes, too."""

import pytest

from pentad.shared.kept_events import KEPT_BYTES, most_events


@pytest.mark.parametrize("size", [1, 2048, 2049, 100_000, 1 << 20, 5 << 20, KEPT_BYTES, 10 * KEPT_BYTES])
def test_large_events_leave_room_for_fewer_and_the_newest_always_fits(size: int) -> None:
    kept = most_events(10_000, size)
    assert 1 <= kept <= 10_000
    assert size <= 2048 or kept * size <= KEPT_BYTES + size


def test_a_smaller_number_of_the_operators_counts() -> None:
    assert most_events(100, 3000) == 100
