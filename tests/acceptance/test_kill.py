"""Laws 1, 2, 3, 5 and 10 under fire: processes are killed and stopped, Redis fails over, and everything is counted."""

import gc
from pathlib import Path

import pytest

from pentad.shared.sandbox.sandbox import landlock_here
from tests.acceptance.chaos import Chaos
from tests.support import small_disk
from tests.support.chaos.report import Report
from tests.support.chaos.setup import ONE_OF_EACH, SEVERAL, Fire, Setup
from tests.support.chaos.troubles import KILLS, STEP_S
from tests.support.processes import clocks

# Clients are cut off by the dozen here, some while they connect, and their libraries leave such a socket to the garbage
# collector. It is the services that must hold: the warning is shown, and fails nothing.
_LEFT_SOCKETS = pytest.mark.filterwarnings("default::pytest.PytestUnraisableExceptionWarning")
pytestmark = [pytest.mark.acceptance, _LEFT_SOCKETS]

_MISSING = [why for why in (small_disk.missing(), clocks.missing()) if why]

TOOL_MS = 600
"""Tools of the short forms take less: what is under way when something dies is the same, and soon done again."""


def _all_is_well(report: Report, chaos: Chaos) -> None:
    print("\n".join(report.lines()))
    assert not report.faults, "\n".join([*report.lines(), chaos.logs()])
    assert report.ended == report.tasks, "\n".join([*report.lines(), chaos.logs()])
    gc.collect()  # what clients have left is told here, and not in another test


@pytest.mark.slow
async def test_killed_processes_lose_double_and_hang_nothing(tmp_path: Path) -> None:
    """One process of each service, every one a target: nobody else does its work meanwhile. Tasks are archived."""
    chaos = Chaos(tmp_path, 7, 20, minutes=1.5, setup=Setup(ONE_OF_EACH, tool_ms=TOOL_MS, grace_s=1))
    report = await chaos.run(at_once=8, fire=Fire(KILLS, every_s=1.5, calm_s=120))
    _all_is_well(report, chaos)
    assert report.kills.total() >= 3, report.lines()


@pytest.mark.slow
async def test_several_of_each_under_everything_lose_double_and_hang_nothing(tmp_path: Path) -> None:
    """The short form of ``make chaos``: stops past the lease and failovers among the kills, several shards."""
    chaos = Chaos(
        tmp_path, 8, 24, minutes=1.5, setup=Setup(SEVERAL, shards=3, lease_s=1.0, tool_ms=TOOL_MS, outside=True)
    )
    report = await chaos.run(at_once=6, fire=Fire(every_s=0.8, calm_s=120))
    _all_is_well(report, chaos)
    assert report.kills.total() + report.stops.total() + report.failovers.total() >= 3, report.lines()


async def test_sessions_of_three_tasks_at_once_lose_double_and_hang_nothing(tmp_path: Path) -> None:
    """The short form of ``make chaos EACH=3``: no message names its task; people answer, pause, and move messages."""
    chaos = Chaos(
        tmp_path, 9, 6, minutes=1.5, setup=Setup(SEVERAL, shards=2, lease_s=1.0, tool_ms=TOOL_MS, each=3, outside=True)
    )
    report = await chaos.run(at_once=6, fire=Fire(every_s=1.2, calm_s=120))
    _all_is_well(report, chaos)
    assert report.kills.total() + report.stops.total() + report.failovers.total() >= 3, report.lines()
    assert report.moved, report.lines()


@pytest.mark.skipif(not landlock_here(), reason="this kernel has no Landlock, which scripts need")
async def test_waiting_calls_servers_calls_and_scripts_are_not_lost_or_doubled(tmp_path: Path) -> None:
    """The short form of ``make chaos HANDS=1``: a person allows calls, a server's tool and scripts run, workers die."""
    setup = Setup(ONE_OF_EACH, lease_s=1.0, tool_ms=TOOL_MS, remembers=False, hands=True)
    chaos = Chaos(tmp_path, 4, 12, minutes=1.5, setup=setup)
    fire = Fire(KILLS, every_s=1.0, victims=["tool-worker", "task-runner"], most=6, calm_s=120)
    report = await chaos.run(at_once=6, fire=fire)
    _all_is_well(report, chaos)
    assert report.kills.total() >= 3, report.lines()


@pytest.mark.skipif(bool(_MISSING), reason="; ".join(_MISSING))
async def test_full_disks_and_clocks_that_step_lose_double_and_hang_nothing(tmp_path: Path) -> None:
    """The short form of ``make chaos DISKS=60 CLOCKS=1``: each disk is full once, all clocks step once each way."""
    setup = Setup(ONE_OF_EACH, tool_ms=TOOL_MS, grace_s=1, full_s=2, clocks=True, deadly=0, outside=True)
    first = (
        lambda troubles: troubles.step_all(-STEP_S),
        lambda troubles: troubles.fill("memory"),
        lambda troubles: troubles.fill("records"),
        lambda troubles: troubles.step_all(STEP_S),
        lambda troubles: troubles.fill("redis"),
    )
    chaos = Chaos(tmp_path, 11, 16, minutes=1.5, setup=setup)
    report = await chaos.run(at_once=6, fire=Fire(first=first, every_s=0.5, most=len(first), calm_s=120))
    _all_is_well(report, chaos)
    assert report.full_disks == {"memory": 1, "records": 1, "redis": 1}, report.lines()
    assert report.clock_steps == {"all -10 min": 1, "all +10 min": 1}, report.lines()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "victim", "fault"),
    [("acknowledge-first", "task-runner", "lost its wake-up"), ("run-unsafe-again", "tool-worker", "unsafe call")],
)
async def test_the_kill_test_notices_a_broken_law(tmp_path: Path, rule: str, victim: str, fault: str) -> None:
    """The same run over services that break one law on purpose must fail, and for that reason."""
    launcher = ("-m", "tests.support.processes.broken", rule)
    setup = Setup(ONE_OF_EACH, lease_s=0.6, launcher=launcher, deadly=0, tool_ms=TOOL_MS, remembers=False)
    chaos = Chaos(tmp_path, 3, 20, minutes=4, setup=setup)
    report = await chaos.run(20, Fire(KILLS, every_s=0.5, victims=[victim], aimed=True, most=3))
    print("\n".join(report.lines()))
    assert [f for f in report.faults if fault in f], report.lines()
