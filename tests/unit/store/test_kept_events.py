"""A session's stream is bounded in bytes, too, by the operator's one number."""

import pytest

from pentad.shared.keys import SMALL_EVENT, events_kept

SIZES = [1, 2048, SMALL_EVENT, SMALL_EVENT + 1, 100_000, 1 << 20, 5 << 20, 100 << 20]


@pytest.mark.parametrize("maxlen", [100, 10_000])
@pytest.mark.parametrize("size", SIZES)
def test_large_events_leave_room_for_fewer_and_the_newest_always_fits(maxlen: int, size: int) -> None:
    kept = events_kept(maxlen, size)
    assert 1 <= kept <= maxlen
    assert kept * size <= maxlen * SMALL_EVENT + size


def test_a_smaller_number_of_the_operators_counts_for_large_events_too() -> None:
    assert [events_kept(maxlen, 1 << 20) for maxlen in (10_000, 1_000, 100)] == [40, 4, 1]
