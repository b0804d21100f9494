"""A service in a process of its own: it tells what the service tells, outlives its deaths, and never its parent."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from signal import SIGCONT, SIGINT, SIGKILL, SIGSTOP, SIGTERM

import pytest
from pydantic import SecretStr

from pentad.shared import metrics
from pentad.shared.errors import PentadError
from pentad.shared.service.process import Stop
from pentad.shared.service.run import stop_services
from pentad.shared.settings import Settings
from pentad.system import service_process, supervised
from pentad.system.supervised import SupervisedService
from tests.support.redis.redis_server import RedisServer
from tests.support.waiting import wait_until

_MODULE = "tests.integration.service.played_archiver"


@asynccontextmanager
async def archiver(folder: Path, play: str = "", module: str = _MODULE) -> AsyncIterator[SupervisedService]:
    (folder / "play").write_text(play)
    async with RedisServer() as redis:
        service = SupervisedService("archiver", module)
        service.build(Settings(redis_url=redis.url, pentad_data_dir=folder, llm_api_key=SecretStr("SECRET-LLM")))
        try:
            yield service
        finally:
            await service.close()
        assert children() == []


def children() -> list[int]:
    """Processes of services that this process has started and that still run."""
    here = os.getpid()
    found = Path(f"/proc/{here}/task/{here}/children").read_text(encoding="ascii").split()
    return [int(pid) for pid in found if b"service_child" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def pid() -> int:
    (found,) = children()
    return found


def started_with(process: int) -> bytes:
    return b"".join(Path(f"/proc/{process}/{name}").read_bytes() for name in ("environ", "cmdline"))


def story(folder: Path) -> list[str]:
    written = folder / "story"
    return written.read_text().splitlines() if written.exists() else []


def good(service: SupervisedService) -> bool:
    return service.checks() == {"play": None}


async def ready(service: SupervisedService) -> None:
    await wait_until("the service to be ready", lambda: good(service))


async def test_what_the_service_tells_is_told_as_if_it_were_here(tmp_path: Path) -> None:
    async with archiver(tmp_path) as service:
        assert list(service.checks()) == ["process"]
        await service.start()
        await ready(service)
        (tmp_path / "play").write_text("archiver unready\n")
        await wait_until("the check to fail", lambda: service.checks() == {"play": "the play says no"})
        assert service.alive()


async def test_it_gets_the_settings_and_the_environment_where_nobody_else_can_read_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Security: command line and first environment of a process can be read by every tool of the same user."""
    monkeypatch.setenv("MY_SECRET", "SECRET-MINE\udcff")  # a byte that is no UTF-8
    monkeypatch.setenv("PENTAD_ADMIN_KEY", "SECRET-ADMIN")
    async with archiver(tmp_path) as service:
        await service.start()
        await ready(service)
        assert dict(service.notes()) == {
            "key": "SECRET-LLM",
            "seen": '{"MY_SECRET": "SECRET-MINE\\udcff", "PENTAD_ADMIN_KEY": null}',
            "folder": os.getcwd(),
        }
        shown = started_with(pid())
        assert b"SECRET" not in shown
        assert b"127.0.0.1" not in shown, "the address of Redis has a password"


async def test_its_process_is_nicer_than_ours(tmp_path: Path) -> None:
    async with archiver(tmp_path) as service:
        await service.start()
        assert os.getpriority(os.PRIO_PROCESS, pid()) - os.getpriority(os.PRIO_PROCESS, 0) == 5


async def test_it_stops_as_it_would_here_and_signals_to_it_do_not_count(tmp_path: Path) -> None:
    async with archiver(tmp_path) as service:
        await service.start()
        for number in (SIGINT, SIGTERM):
            os.kill(pid(), number)
        await ready(service)
        await service.stop()
        assert children() == []
        assert story(tmp_path) == ["start archiver", "stop archiver"]


async def test_one_that_does_not_stop_is_killed_when_it_is_hurried(tmp_path: Path) -> None:
    async with archiver(tmp_path) as service:
        await service.start()
        (tmp_path / "play").write_text("archiver hang\n")
        stop = Stop()
        stop.on_signal()
        stop.on_signal()
        assert await stop_services([service], stop) == ["archiver"]
        await service.close()
        assert children() == []
        assert story(tmp_path) == ["start archiver"]


@pytest.mark.parametrize("play", ["", "archiver wait\n"], ids=["before it has an order", "while it starts"])
async def test_it_is_stopped_before_it_has_started(tmp_path: Path, play: str) -> None:
    async with archiver(tmp_path, play) as service:
        await service.launch()
        if play:
            starting = asyncio.create_task(service.start())
            await wait_until("it to wait", lambda: story(tmp_path) == ["wait archiver"])
            starting.cancel()
            await asyncio.wait({starting})
        await service.stop()
        assert children() == []


@pytest.mark.parametrize(
    ("play", "module", "told"),
    [
        ("archiver fail\n", _MODULE, "archiver cannot start: the play says so"),
        ("", "tests.no_such_module", "the package tests is not installed"),
        ("archiver lie\n", _MODULE, "the process of the archiver did not start: it was killed by SIGKILL"),
        ("archiver shout\n", _MODULE, "the process of the archiver did not start: it was killed by SIGKILL"),
    ],
)
async def test_a_start_that_fails_says_why_and_leaves_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, play: str, module: str, told: str
) -> None:
    async with archiver(tmp_path, play, module) as service:
        with pytest.raises(PentadError, match=told):
            await service.start()
        await service.stop()
        assert children() == []
    assert ("chunk exceed the limit" in caplog.text) == (play == "archiver shout\n"), "no line is read without a bound"


async def test_a_process_that_is_killed_is_started_again_and_no_count_falls(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    played, lag = metrics.archived.labels("played"), metrics.remember_seconds.labels()
    before, sum_before = played.value, lag.sum
    async with archiver(tmp_path) as service:
        await service.start()
        await ready(service)
        await service.fetch_counts()
        await service.fetch_counts()
        assert played.value - before == 1, "nothing is added twice"
        assert lag.sum - sum_before == pytest.approx(2.0)
        for deaths in (1, 2):
            os.kill(pid(), SIGKILL)
            await wait_until("the loss to be noticed", lambda: not good(service))
            await ready(service)

            async def counted(wanted: int = 1 + deaths) -> bool:
                await service.fetch_counts()  # it waits a second at most: on a busy machine that may be too short
                return played.value - before == wanted

            await wait_until("the new process's count", counted)
            assert lag.sum - sum_before == pytest.approx(2.0 * (1 + deaths))
        stopped = metrics.archived.labels("stopped").value
        await service.stop()
        assert metrics.archived.labels("stopped").value == stopped + 1, "it tells its last counts"
        assert [s.value for family in metrics.memory_points.labels().collect() for s in family.samples] == [7]
    assert story(tmp_path) == ["start archiver"] * 3 + ["stop archiver"]
    assert "the process of the archiver ended (it was killed by SIGKILL): it is started again" in caplog.text


async def test_a_service_that_dies_is_started_again_until_it_lives(tmp_path: Path) -> None:
    async with archiver(tmp_path) as service:
        await service.start()
        (tmp_path / "play").write_text("archiver fail\narchiver die\n")
        failed: Mapping[str, str | None] = {
            "process": "its process cannot be started again: archiver cannot start: the play says so"
        }
        await wait_until("the reason", lambda: service.checks() == failed)
        (tmp_path / "play").write_text("")
        await ready(service)
        assert service.alive()


async def test_a_process_that_says_nothing_is_not_ready_and_at_last_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervised, "_SILENT_TICKS", 2)
    async with archiver(tmp_path) as service:
        await service.start()
        await ready(service)
        os.kill(first := pid(), SIGSTOP)
        await wait_until("its silence to be told", lambda: "does not answer" in (service.checks().get("process") or ""))
        assert service.checks()["play"] is None
        os.kill(first, SIGCONT)
        await ready(service)
        monkeypatch.setattr(service_process, "_STUCK_TICKS", 2)
        os.kill(first, SIGSTOP)
        await wait_until("another process", lambda: children() not in ([], [first]))
        await ready(service)


async def test_counts_of_a_silent_process_are_not_waited_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_process, "_COUNTS_S", 0.01)
    played = metrics.archived.labels("played")
    before = played.value
    async with archiver(tmp_path) as service:
        await service.start()
        os.kill(pid(), SIGSTOP)
        for _ in range(3):
            await service.fetch_counts()
        assert played.value == before
        os.kill(pid(), SIGCONT)

        async def counted() -> bool:
            await service.fetch_counts()
            return played.value == before + 1

        await wait_until("the counts", counted)


async def test_its_log_goes_where_ours_goes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "pentad")
    async with archiver(tmp_path) as service:
        await service.start()
        told = [("INFO", "it has begun"), ("ERROR", "it failed"), ("WARNING", "said in a thread")]
        name = "pentad.services.archiver.played"
        await wait_until(
            "its lines", lambda: [(r.levelname, r.getMessage()) for r in caplog.records if r.name == name] == told
        )
        [failed] = [record for record in caplog.records if record.getMessage() == "it failed"]
        assert (failed.exc_text or "").startswith("[ValueError: on purpose at ")
        assert failed.filename == "played_archiver.py"
        assert failed.process == pid()


async def test_what_our_log_does_not_take_is_not_sent(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "pentad")
    async with archiver(tmp_path) as service:
        await service.start()
    assert [record.getMessage() for record in caplog.records if record.process != os.getpid()] == ["it failed"]
