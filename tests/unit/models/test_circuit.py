"""When a model is left alone, and when one call finds out whether it is well again."""

import random

import pytest

from pentad.shared.models.circuit import CALLS, FAILURES, IN_A_ROW, Circuit


def opened(now: float = 0.0, asked_s: float | None = None) -> Circuit:
    circuit = Circuit(now)
    for _ in range(IN_A_ROW):
        circuit.failed(now, "away", asked_s=asked_s)
    return circuit


def test_failures_in_a_row_open_it_and_nothing_is_asked_until_its_time_is_up() -> None:
    circuit = Circuit(0.0)
    for number in range(IN_A_ROW):
        assert (circuit.may_ask(number), circuit.state) == (True, "failing" if number else "ok")
        circuit.failed(number, "away")
    at = IN_A_ROW - 1
    assert (circuit.state, circuit.closed, circuit.since) == ("open", False, at)
    assert [circuit.may_ask(at + s) for s in (0.0, 0.99, 1.0)] == [False, False, True]
    assert circuit.left(at + 0.25) == 0.75


def test_failures_among_successes_open_it_by_their_share() -> None:
    circuit = Circuit(0.0)
    for number in range(FAILURES):
        assert circuit.closed
        circuit.failed(number, "away")
        if number < FAILURES - 1:
            for _ in range(3):
                circuit.answered(number)
    assert circuit.state == "open"


def test_seldom_failures_never_open_it() -> None:
    circuit = Circuit(0.0)
    for number in range(10_000):
        if number % CALLS == 0:
            circuit.failed(number / 100, "away")
        else:
            circuit.answered(number / 100)
        assert circuit.closed


def test_old_failures_are_forgotten() -> None:
    circuit = Circuit(0.0)
    for hour in range(100):
        circuit.failed(hour * 3600.0, "away")
    assert circuit.state == "failing"


def test_one_probe_at_a_time_and_its_answer_closes_it() -> None:
    circuit = opened()
    circuit.probe()
    assert (circuit.state, circuit.may_ask(99.0)) == ("probing", False)
    circuit.answered(2.0, probe=True)
    assert (circuit.state, circuit.closed, circuit.since) == ("ok", True, 2.0)


def test_each_probe_that_fails_doubles_the_pause_up_to_half_a_minute() -> None:
    circuit, now, pauses = opened(), 0.0, []
    for _ in range(8):
        pauses.append(circuit.left(now))
        now += pauses[-1]
        assert circuit.may_ask(now)
        circuit.probe()
        circuit.failed(now, "still away", probe=True)
    assert pauses == [1, 2, 4, 8, 16, 30, 30, 30]
    assert circuit.since == 0.0, "it is down since it was"
    circuit.probe()
    circuit.answered(now, probe=True)
    again = now + 1
    for _ in range(IN_A_ROW):
        circuit.failed(again, "away")
    assert circuit.left(again) == 1, "once it was well, the pauses begin anew"


def test_calls_that_were_asked_before_it_opened_decide_nothing() -> None:
    circuit = opened()
    circuit.answered(0.5)
    circuit.failed(0.5, "late")
    assert (circuit.state, circuit.left(0.5)) == ("open", 0.5)


def test_a_probe_that_was_cancelled_leaves_the_way_to_the_next() -> None:
    circuit = opened()
    circuit.probe()
    circuit.probe_given_up()
    assert circuit.may_ask(1.0)


@pytest.mark.parametrize(("asked", "pause"), [(7.0, 7.0), (0.1, 1.0), (1e6, 60.0)])
def test_a_server_that_names_a_time_is_left_alone_as_long_within_bounds(asked: float, pause: float) -> None:
    assert opened(asked_s=asked).left(0.0) == pause


@pytest.mark.parametrize(("asked", "pause"), [(7.0, 7.0), (0.1, 1.0), (1e6, 600.0)])
def test_a_server_whose_limit_is_reached_is_left_alone_at_once(asked: float, pause: float) -> None:
    """Promise: nothing is sent to a server within the delay that it states with a limit."""
    circuit = Circuit(0.0)
    circuit.failed(0.0, "limited", asked_s=asked, limited=True)
    assert not circuit.closed
    assert circuit.left(0.0) == pause


def test_a_limit_without_a_time_is_a_failure_like_others() -> None:
    """Promise: one failure alone says little."""
    circuit = Circuit(0.0)
    circuit.failed(0.0, "limited", limited=True)
    assert circuit.closed


def test_a_server_that_names_a_time_is_asked_then_however_often_it_failed() -> None:
    circuit, now = opened(asked_s=2.0), 2.0
    for _ in range(5):
        circuit.probe()
        circuit.failed(now, "away", asked_s=2.0, probe=True)
        assert circuit.left(now) == 2.0
        now += 2.0


def test_what_only_a_person_can_mend_opens_it_at_once() -> None:
    circuit = Circuit(0.0)
    circuit.failed(0.0, "wrong key", hopeless=True)
    assert (circuit.state, circuit.hopeless) == ("open", True)


@pytest.mark.parametrize("seed", range(20))
def test_a_model_that_fails_three_calls_of_ten_is_left_alone_and_comes_back(seed: int) -> None:
    chance, circuit, opened_at, closed_at, now = random.Random(seed), Circuit(0.0), 0, 0, 0.0
    for _ in range(200):
        now += 0.05
        if not circuit.may_ask(now):
            continue
        probe = not circuit.closed
        if probe:
            circuit.probe()
        if chance.random() < 0.3:
            was_closed = circuit.closed
            circuit.failed(now, "away", probe=probe)
            opened_at += was_closed and not circuit.closed
        else:
            closed_at += probe
            circuit.answered(now, probe)
    assert opened_at
    assert closed_at
