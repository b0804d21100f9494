"""When a model that has failed is asked again."""

from dataclasses import replace

import pytest

from pentad.services.task_runner.domain.retry import after_model_error
from pentad.shared.actors.headers import TaskHeader

NOW = 100_000
ACTIVE = TaskHeader("default", "t", "s1", "active")
LIMITS = (5, 60_000)


def test_an_unavailable_model_is_asked_again_without_counting_until_the_step_is_over() -> None:
    first = after_model_error(ACTIVE, "unavailable", NOW, None, 0.0, LIMITS)
    assert first is not None
    assert (first.fails, first.retry_since, first.delay_ms) == (0, NOW, 125)
    later = after_model_error(replace(ACTIVE, retry_since=NOW), "unavailable", NOW + 59_999, None, 0.0, LIMITS)
    assert later is not None
    assert later.delay_ms == 1, "the last try is at the step's end"
    assert after_model_error(replace(ACTIVE, retry_since=NOW), "unavailable", NOW + 60_000, None, 0.0, LIMITS) is None


@pytest.mark.parametrize(("fails", "gives_up"), [(0, False), (3, False), (4, True)])
def test_a_cut_answer_counts_as_an_attempt(fails: int, gives_up: bool) -> None:
    again = after_model_error(replace(ACTIVE, fails=fails), "cut_off", NOW, None, 0.5, LIMITS)
    assert (again is None) is gives_up
    assert again is None or again.fails == fails + 1


def test_a_pause_that_the_server_asks_for_is_kept() -> None:
    again = after_model_error(ACTIVE, "unavailable", NOW, 7.0, 0.0, LIMITS)
    assert again is not None
    assert again.delay_ms == 7000


@pytest.mark.parametrize("jitter", [0.0, 0.999])
def test_pauses_grow_and_have_an_upper_end(jitter: float) -> None:
    waits = []
    for seconds in range(9):
        task = replace(ACTIVE, retry_since=NOW)
        again = after_model_error(task, "unavailable", NOW + 1000 * seconds, None, jitter, (5, 600_000))
        assert again is not None
        waits.append(again.delay_ms)
    assert waits == sorted(waits)
    assert waits[-1] <= 30_000
