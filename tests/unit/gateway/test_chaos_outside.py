"""The scorecard of a chaos run's webhooks and schedules counts what is planted: lost, doubled, out of order."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from pentad.contracts.ids import rfc3339
from tests.support.chaos.deliveries import deliveries_counted
from tests.support.chaos.receiver import Arrival
from tests.support.chaos.timetable import MAX_CATCH_UP, Timed, TimedRuns
from tests.support.chaos.timetable_checks import runs_counted

Json = dict[str, Any]
CREATED, EVERY = 1_893_456_000_000, 3


def event(number: int, kind: str = "message", session: str = "s1", task: str = "t1") -> Json:
    return {"type": kind, "id": f"{number}-0", "event_id": f"e{number}", "session_id": session, "task_id": task}


FIRST, SECOND, THIRD = event(1), event(2), event(3, task="t2")


def came(event: Json, *, taken: bool = True, signed: bool = True, delivery: str = "", webhook: str = "all") -> Arrival:
    return Arrival(webhook, delivery or f"msg_{event['event_id']}", event, 1.0, signed, taken)


def wants(hook: str, event: Mapping[str, Any]) -> bool:
    return hook == "all" and event["type"] != "tool_call"


@pytest.mark.parametrize(
    ("arrivals", "fault"),
    [
        ([came(FIRST), came(SECOND), came(THIRD)], ""),
        ([came(FIRST), came(THIRD), came(SECOND)], ""),
        ([came(FIRST, taken=False), came(FIRST), came(SECOND), came(FIRST), came(THIRD)], ""),
        ([came(FIRST), came(THIRD)], "never got message 2-0"),
        ([came(FIRST), came(SECOND, taken=False), came(THIRD)], "never got message 2-0"),
        ([came(SECOND), came(FIRST), came(THIRD)], "in this order: message 2-0, message 1-0"),
        ([came(FIRST), came(SECOND), came(THIRD), came(event(4))], "what nobody holds: message 4-0"),
        ([came(FIRST), came(SECOND), came(THIRD), came(event(4, session="erased-1"))], ""),
        (
            [came(FIRST), came(SECOND), came(THIRD), came(FIRST, webhook="one", delivery="msg_x")],
            "what it did not ask for",
        ),
        ([came(FIRST), came(SECOND, signed=False), came(THIRD)], "the signature of msg_e2 is wrong"),
        ([came(FIRST), came(SECOND), came(THIRD), came(FIRST, delivery="msg_x")], "has the ids"),
        ([came(FIRST), came(SECOND, delivery="msg_e1"), came(THIRD)], "is of several deliveries"),
    ],
    ids=[
        "in order",
        "tasks beside each other",
        "refused, and taken twice",
        "lost",
        "refused, and not sent again",
        "out of order",
        "of no session",
        "of an erased session",
        "not asked for",
        "signed wrongly",
        "an id of its own for an attempt",
        "an id for two events",
    ],
)
def test_deliveries_are_counted(arrivals: Sequence[Arrival], fault: str) -> None:
    held = {"s1": [FIRST, SECOND, THIRD]}
    count = deliveries_counted(arrivals, held, wants, lambda session: session == "erased-1", lambda _: False)
    assert len(count.faults) == bool(fault), count.faults
    assert fault in "".join(count.faults)


def test_what_a_failover_has_undone_is_no_fault() -> None:
    count = deliveries_counted([came(event(4))], {}, wants, lambda _: False, lambda at: at == 1.0)
    assert (count.undone, count.faults) == (1, ())


def due(number: int) -> str:
    return rfc3339(CREATED + number * EVERY * 1000)


def run(number: int, status: str = "completed", **more: Any) -> Json:
    if status in ("missed", "skipped"):
        return {"due_at": due(number), "status": status, **more}
    name = f"queue.{due(number).replace('-', '').replace(':', '')}"
    return {"due_at": due(number), "status": status, "message_id": name, "session_id": "s1", "task_id": name, **more}


def turn(of: Json, *kinds: str) -> list[Json]:
    kinds = kinds or ("message_routed", "task_start", "task_end")
    return [{"type": kind, "task_id": of["message_id"], "message_id": of["message_id"]} for kind in kinds]


def counted(
    runs: Sequence[Json], starts: Mapping[str, Sequence[float]], held: Sequence[Json], until: int, *, late: bool
) -> Sequence[str]:
    body = {"schedule_id": "queue", "every": EVERY, "overlap": "queue", "catch_up": MAX_CATCH_UP}
    paused = CREATED + until * EVERY * 1000 + 10_000
    found = TimedRuns(Timed(1, 0, body), CREATED, paused, runs, starts)
    return runs_counted([found], {"s1": held}, lambda *_: False, late=late).faults


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({}, ""),
        ({"runs": [run(1), run(2)]}, "nothing is known of the due time"),
        ({"runs": [run(1), run(2), run(3), run(3)]}, "is there 2 times"),
        ({"starts": {due(1): [1.0, 2.0], due(2): [2.0], due(3): [3.0]}}, "worked 2 times for"),
        ({"starts": {due(1): [1.0], due(2): [2.0]}}, "has done no work"),
        ({"starts": {due(n): [1.0] for n in (1, 2, 3, 9)}}, "which has no run"),
        ({"held": [*turn(run(1)), *turn(run(2))]}, "{'message_routed': 0"),
        ({"held": [e for n in (1, 1, 2, 3) for e in turn(run(n))]}, "{'message_routed': 2"),
        ({"held": [e for n in (1, 2, 3, 7) for e in turn(run(n))]}, "a message of no run"),
        ({"runs": [run(1), run(2), run(3, "failed")]}, "ended in another way"),
        ({"runs": [run(1), run(2), run(3, "skipped", reason="nobody knows")]}, "for no good reason"),
        ({"runs": [run(1), run(2), run(3), run(1) | {"due_at": rfc3339(CREATED + 1)}]}, "is no due time"),
        ({"runs": [run(1, "missed"), run(2), run(3)]}, "missed though nobody was away"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_runs_are_counted(change: dict[str, Any], fault: str) -> None:
    given = {
        "runs": [run(n) for n in (1, 2, 3)],
        "starts": {due(n): [float(n)] for n in (1, 2, 3)},
        "held": [e for n in (1, 2, 3) for e in turn(run(n))],
        **change,
    }
    faults = counted(given["runs"], given["starts"], given["held"], 3, late=False)
    assert bool(faults) == bool(fault), faults
    assert fault in "".join(faults)


@pytest.mark.parametrize(("made_up", "faults"), [(MAX_CATCH_UP, 0), (MAX_CATCH_UP - 1, 1)])
def test_what_was_missed_is_made_up_for_as_far_as_was_asked(made_up: int, faults: int) -> None:
    """Due times 1 to 10 were missed: the next 24 have runs, or the last ones of them were left out, too."""
    done = [run(n) for n in range(11, 11 + made_up)]
    left = [run(n, "missed") for n in range(11 + made_up, 11 + MAX_CATCH_UP)]
    held = [e for each in done for e in turn(each)]
    starts = {each["due_at"]: [1.0] for each in done}
    runs = [run(1, "missed", until=due(10)), *done, *left]
    found = counted(runs, starts, held, 10 + MAX_CATCH_UP, late=True)
    assert len([each for each in found if "made up for" in each]) == faults, found


def test_what_was_due_before_a_schedule_was_made_is_made_up_for_too() -> None:
    """The clock stepped back behind its making, and forward twice: what was missed each time has its own next runs."""
    spans = (range(-59, -59 + MAX_CATCH_UP), range(11, 11 + MAX_CATCH_UP))
    done = [run(n) for numbers in spans for n in numbers]
    between = run(-59 + MAX_CATCH_UP, "missed", until=due(10))
    runs = [run(-100, "missed", until=due(-60)), *done[:MAX_CATCH_UP], between, *done[MAX_CATCH_UP:]]
    held = [e for each in done for e in turn(each)]
    found = counted(runs, {each["due_at"]: [1.0] for each in done}, held, 10 + MAX_CATCH_UP, late=True)
    assert not found
