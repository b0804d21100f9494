"""When a model that has failed is asked again."""

from dataclasses import replace

import pytest

from pentad.services.task_runner.domain.retry import RetryLimits, RetryReason, after_model_error, too_long_to_wait
from pentad.shared.actors.headers import TaskHeader

NOW = 100_000
ACTIVE = TaskHeader("default", "t", "s1", "active")
LIMITS = RetryLimits.of(None, 5, 60_000)


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


@pytest.mark.parametrize(("fails", "most", "gives_up"), [(0, 5, False), (1, 5, True), (0, 1, True)])
def test_a_model_that_says_nothing_is_asked_once_more(fails: int, most: int, gives_up: bool) -> None:
    again = after_model_error(
        replace(ACTIVE, fails=fails), "silent", NOW, None, 0.5, RetryLimits.of(None, most, 60_000)
    )
    assert (again is None) is gives_up


@pytest.mark.parametrize("reason", ["cut_off", "silent"])
@pytest.mark.parametrize(("retry", "fails", "gives_up"), [(1, 0, True), (4, 2, False), (4, 3, True), (8, 6, False)])
def test_an_instruction_says_how_often_its_model_is_asked(
    reason: RetryReason, retry: int, fails: int, gives_up: bool
) -> None:
    limits = RetryLimits.of(retry, 5, 60_000)
    again = after_model_error(replace(ACTIVE, fails=fails), reason, NOW, None, 0.5, limits)
    assert (again is None) is gives_up
    away = after_model_error(replace(ACTIVE, fails=fails), "unavailable", NOW, None, 0.5, limits)
    assert away is None or away.fails == fails, "a model that is away is waited for"


def test_a_pause_that_the_server_asks_for_is_kept() -> None:
    again = after_model_error(ACTIVE, "unavailable", NOW, 7.0, 0.0, LIMITS)
    assert again is not None
    assert again.delay_ms == 7000


@pytest.mark.parametrize(("asked", "least"), [(2.0, 2000), (0.3, 300), (0.0, 100)])
@pytest.mark.parametrize("jitter", [0.0, 0.999])
def test_a_pause_that_the_server_asks_for_does_not_grow_with_the_outage(
    asked: float, least: int, jitter: float
) -> None:
    again = after_model_error(replace(ACTIVE, retry_since=NOW), "unavailable", NOW + 20_000, asked, jitter, LIMITS)
    assert again is not None
    assert least <= again.delay_ms <= least * 1.125


@pytest.mark.parametrize(("jitter", "share"), [(0.0, 0.5), (0.999, 0.9995)])
def test_pauses_double_up_to_sixteen_seconds_and_a_random_part_is_waited(jitter: float, share: float) -> None:
    waits = []
    for seconds in range(9):
        task = replace(ACTIVE, retry_since=NOW)
        again = after_model_error(
            task, "unavailable", NOW + 1000 * seconds, None, jitter, RetryLimits.of(None, 5, 600_000)
        )
        assert again is not None
        waits.append(again.delay_ms)
    whole = (250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 16_000, 16_000)
    assert waits == [round(each * share) for each in whole]


@pytest.mark.parametrize(
    ("stated_s", "retry_since", "deadline", "said"),
    [
        (None, 0, 0, None),
        (60.0, 0, 0, None),
        (60.5, 0, 0, "asks to wait 61 s, and the task has 60 s left"),
        (50.0, NOW - 20_000, 0, "asks to wait 50 s, and the task has 40 s left: give the model a fallback, raise"),
        (40.0, NOW - 20_000, 0, None),
        (30.0, 0, NOW + 30_000, None),
        (31.0, 0, NOW + 30_000, "has 30 s left: give the model a fallback, set a later deadline"),
        (3_600.0, 0, NOW - 1, "asks to wait 3,600 s, and the task has 0 s left"),
    ],
)
def test_a_stated_delay_that_is_longer_than_the_tasks_time_is_not_waited_for(
    stated_s: float | None, retry_since: int, deadline: int, said: str | None
) -> None:
    """Promise: what no waiting helps is told at once, with both times and what to do; what fits is waited for."""
    task = replace(ACTIVE, retry_since=retry_since, deadline=deadline)
    told = too_long_to_wait(task, stated_s, NOW, 60_000)
    assert (told is None) if said is None else (told is not None and said in told)
