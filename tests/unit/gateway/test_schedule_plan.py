"""How a schedule goes on, without a store: which due times get a run, which wait, and which are missed."""

from typing import Any

from pentad.contracts.ids import milliseconds, rfc3339
from pentad.contracts.schedules import MAX_CATCH_UP, ScheduleRun, ScheduleSpec
from pentad.services.gateway.domain.schedule_plan import (
    ENDED_KEPT_MS,
    MAX_RUNS,
    MAX_WAITING_RUNS,
    begun,
    next_move,
    paused,
    planned,
    resumed,
    settled,
    wake_of,
    with_runs,
)
from pentad.shared.schedules.schedule_state import ScheduleState

START = milliseconds("2026-11-27T12:00:00Z")
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000


def spec_of(**fields: Any) -> ScheduleSpec:
    return ScheduleSpec.model_validate({"schedule_id": "s", "content": "x", "cron": "0 * * * *"} | fields)


def new(spec: ScheduleSpec, first: int = START + HOUR) -> ScheduleState:
    return begun(first, START)


def told(state: ScheduleState) -> list[tuple[str, str]]:
    return [(run.due_at[11:16], run.status) for run in state.runs]


def ended(state: ScheduleState, status: str = "completed") -> ScheduleState:
    """All runs that were sent, at their end."""
    working = [run for run in state.runs if run.status in ("sending", "accepted", "running")]
    return with_runs(state, *(run.model_copy(update={"status": status}) for run in working))


def moved(spec: ScheduleSpec, state: ScheduleState) -> ScheduleState:
    """The state after its next move."""
    move = next_move(spec, state)
    sent = (
        [] if move.send is None else [move.send.model_copy(update={"status": "sending", "sent_at": move.send.due_at})]
    )
    return with_runs(state, *move.skipped, *sent)


def test_a_due_time_becomes_one_run_with_an_id_of_its_own() -> None:
    spec = spec_of()
    assert planned(spec, new(spec), START + HOUR - 1) == new(spec)
    state = planned(spec, new(spec), START + HOUR + 250)
    assert state.next == START + 2 * HOUR
    assert state.runs == (
        ScheduleRun(
            due_at="2026-11-27T13:00:00.000Z",
            status="planned",
            message_id="s.20261127T130000.000Z",
            session_id="s.20261127T130000.000Z",
        ),
    )
    assert planned(spec, state, START + HOUR + 900) == state
    assert planned(spec_of(session_id="chat"), new(spec), START + HOUR).runs[0].session_id == "chat"


def test_an_outage_of_a_day_is_made_up_for_as_far_as_was_asked() -> None:
    late = START + DAY + 30 * MINUTE
    for overlap, catch_up, planned_at in (
        ("queue", 0, []),
        ("queue", 3, ["10:00", "11:00", "12:00"]),
        ("skip", 3, ["12:00"]),
        ("cancel", 3, ["12:00"]),
        ("skip", 0, []),
    ):
        spec = spec_of(overlap=overlap, catch_up=catch_up)
        state = planned(spec, new(spec), late)
        assert [due for due, status in told(state) if status == "planned"] == planned_at, (overlap, catch_up)
        [missed] = [run for run in state.runs if run.status == "missed"]
        assert (missed.due_at, missed.message_id) == (rfc3339(START + HOUR), None)
        last = START + DAY - len(planned_at) * HOUR
        assert missed.until == rfc3339(last)
        assert state.next == START + DAY + HOUR


def test_what_is_due_now_needs_no_making_up() -> None:
    spec = spec_of(catch_up=1)
    state = planned(spec, new(spec), START + DAY + 10_000)
    assert [(run.due_at, run.until, run.status) for run in state.runs] == [
        (rfc3339(START + HOUR), rfc3339(START + DAY - HOUR), "missed"),
        (rfc3339(START + DAY), None, "planned"),
    ]
    assert told(planned(spec_of(catch_up=0), new(spec), START + HOUR + 59_000)) == [("13:00", "planned")]


def test_a_year_of_minutes_costs_no_more_than_what_is_made_up_for() -> None:
    spec = spec_of(cron="* * * * *", overlap="queue", catch_up=MAX_CATCH_UP)
    state = planned(spec, begun(START + MINUTE, START), START + 365 * DAY + 30_000)
    assert sum(run.status == "planned" for run in state.runs) == MAX_WAITING_RUNS
    missed = state.runs[0]
    assert (missed.status, missed.due_at) == ("missed", rfc3339(START + MINUTE))
    assert len(state.to_json()) < 12_000


def test_runs_that_overlap_are_skipped_wait_or_cancel() -> None:
    for overlap, told_then in (
        ("skip", [("13:00", "sending"), ("14:00", "skipped")]),
        ("queue", [("13:00", "sending"), ("14:00", "planned")]),
        ("cancel", [("13:00", "sending"), ("14:00", "planned")]),
    ):
        spec = spec_of(overlap=overlap)
        state = moved(spec, planned(spec, new(spec), START + HOUR))
        state = planned(spec, state, START + 2 * HOUR)
        move = next_move(spec, state)
        assert [run.due_at[11:16] for run in move.cancel] == (["13:00"] if overlap == "cancel" else [])
        assert move.send is None
        state = moved(spec, state)
        assert told(state) == told_then, overlap
        if overlap == "skip":
            assert state.runs[-1].reason == "the run of 2026-11-27T13:00:00.000Z went on"
        else:
            assert told(moved(spec, ended(state)))[1] == ("14:00", "sending")


def test_of_runs_that_cancel_one_another_the_last_alone_is_sent() -> None:
    spec = spec_of(cron="* * * * *", overlap="cancel")
    state = moved(spec, planned(spec, begun(START + MINUTE, START), START + MINUTE))
    for minute in (2, 3):
        state = planned(spec, state, START + minute * MINUTE)
    state = moved(spec, state)
    assert told(state) == [("12:01", "sending"), ("12:02", "skipped"), ("12:03", "planned")]
    assert told(moved(spec, ended(state, "cancelled")))[2] == ("12:03", "sending")


def test_no_more_runs_wait_than_are_bounded() -> None:
    spec = spec_of(overlap="queue")
    state = moved(spec, planned(spec, new(spec), START + HOUR))
    for hour in range(2, 40):
        state = planned(spec, state, START + hour * HOUR)
    assert sum(run.status == "planned" for run in state.runs) == MAX_WAITING_RUNS
    assert state.runs[-1].status == "skipped"
    assert state.runs[-1].reason == f"{MAX_WAITING_RUNS} runs wait already"


def test_what_falls_into_a_pause_is_not_made_up_for() -> None:
    spec = spec_of(overlap="queue", catch_up=24)
    state = moved(spec, planned(spec, new(spec), START + HOUR))
    state = paused(planned(spec, state, START + 2 * HOUR))
    assert (state.status, state.next) == ("paused", None)
    assert told(state) == [("13:00", "sending"), ("14:00", "skipped")]
    assert planned(spec, state, START + 9 * HOUR) == state
    state = resumed(spec, state, START + 9 * HOUR + 1)
    assert (state.status, state.next) == ("active", START + 10 * HOUR)
    assert told(planned(spec, state, START + 10 * HOUR))[2:] == [("22:00", "planned")]


def test_a_single_due_time_ends_its_schedule() -> None:
    spec = ScheduleSpec(schedule_id="s", content="x", at="2026-11-27T13:00:00Z")
    state = planned(spec, new(spec), START + HOUR + 5 * DAY)
    assert told(state) == [("13:00", "planned")], "however late"
    state = moved(spec, state)
    assert settled(state, START).status == "active", "its run goes on"
    state = settled(ended(state), START + HOUR)
    assert (state.status, state.ended) == ("ended", START + HOUR)
    assert wake_of(state, START) == START + HOUR + ENDED_KEPT_MS
    over = resumed(spec, paused(new(spec)), START + DAY)
    assert (over.status, told(over)) == ("ended", [("13:00", "skipped")])
    late = planned(spec.model_copy(update={"catch_up": 0}), new(spec), START + DAY)
    assert (settled(late, START).status, told(late)) == ("ended", [("13:00", "missed")])


def test_a_clock_that_steps_back_repeats_nothing_and_stops_nothing() -> None:
    spec = spec_of(cron="* * * * *")
    state = begun(START + MINUTE, START)
    for minute in range(1, 11):
        now = START + minute * MINUTE
        state = ended(moved(spec, planned(spec, state, now))).model_copy(update={"set_at": now})
    assert len(state.runs) == 10
    back = planned(spec, state, START + 3 * MINUTE)
    assert back.next == START + 11 * MINUTE, "what has had its run has none again"
    year = planned(spec, state, START - 365 * DAY)
    assert year.next == START - 365 * DAY + MINUTE, "a schedule does not wait for a year that was an error"
    once = ScheduleSpec(schedule_id="s", content="x", at="2026-11-27T13:00:00Z")
    assert planned(once, new(once), START - DAY).next == START + HOUR
    every = ScheduleSpec(schedule_id="s", content="x", every=3600)
    assert planned(every, begun(START + HOUR, START), START - DAY).next == START - DAY + HOUR


def test_a_history_is_bounded_and_keeps_what_goes_on() -> None:
    spec = spec_of(cron="* * * * *", overlap="queue")
    state = moved(spec, planned(spec, begun(START + MINUTE, START), START + MINUTE))
    assert state.runs[0].status == "sending"
    spec = spec_of(cron="* * * * *", overlap="skip")
    for minute in range(2, MAX_RUNS + 30):
        state = moved(spec, planned(spec, state, START + minute * MINUTE))
    assert len(state.runs) == MAX_RUNS + 1
    assert (state.runs[0].status, state.runs[1].status) == ("sending", "skipped")
    assert state.runs[-1].due_at == rfc3339(START + (MAX_RUNS + 29) * MINUTE)


def test_a_run_is_looked_at_soon_then_seldom() -> None:
    spec = spec_of(cron="0 0 1 * *")
    state = moved(spec, planned(spec, begun(START, START), START))
    looks = [wake_of(state, START + passed) for passed in (0, 40_000, DAY)]
    assert [
        None if at is None else at - START - passed for at, passed in zip(looks, (0, 40_000, DAY), strict=True)
    ] == [
        500,
        5_000,
        15_000,
    ]
    assert wake_of(paused(begun(START, START)), START) is None
