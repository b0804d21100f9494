"""Laws 1, 2, 3, 5 and 10 under fire: a random process is killed again and again, and everything is counted."""

from pathlib import Path

import pytest

from tests.acceptance.chaos import Chaos

pytestmark = pytest.mark.acceptance


@pytest.mark.parametrize(("seed", "tasks", "shards"), [(7, 30, 1), (8, 20, 3)])
async def test_killed_processes_lose_double_and_hang_nothing(
    tmp_path: Path, seed: int, tasks: int, shards: int
) -> None:
    """The short form of ``make chaos``: every process is a target."""
    chaos = Chaos(tmp_path, seed, tasks, minutes=1.5, shards=shards)
    report = await chaos.run(at_once=8, calm_s=120)
    print("\n".join(report.lines()))
    assert not report.faults, "\n".join([*report.lines(), chaos.logs()])
    assert report.ended == report.tasks, "\n".join([*report.lines(), chaos.logs()])
    assert sum(report.kills.values()) >= 3, report.lines()


@pytest.mark.parametrize(
    ("rule", "victim", "aimed", "fault"),
    [
        ("acknowledge-first", "task-runner", False, "0 task_end"),
        ("run-unsafe-again", "tool-worker", True, "unsafe call"),
    ],
)
async def test_the_kill_test_notices_a_broken_law(
    tmp_path: Path, rule: str, victim: str, aimed: bool, fault: str
) -> None:
    """The same run over services that break one law on purpose must fail, and for that reason."""
    chaos = Chaos(tmp_path, seed=3, tasks=20, minutes=0.4)
    launcher = ("-m", "tests.support.broken", rule)
    report = await chaos.run(
        20, kill_every_s=2.5, victims=[victim], launcher=launcher, lease_s=0.6, aimed=aimed, most_kills=4
    )
    print("\n".join(report.lines()))
    assert [f for f in report.faults if fault in f], report.lines()
