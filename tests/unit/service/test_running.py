"""Starting in order, stopping in reverse, and what happens when a part does not play along."""

import asyncio
from collections.abc import Mapping

import pytest

from pentad.shared import telemetry
from pentad.shared.errors import PentadError
from pentad.shared.service.http import all_checks, unmet
from pentad.shared.service.process import Stop, StopAskedError
from pentad.shared.service.run import DiedError, Watched, run_services, stop_services
from pentad.shared.telemetry import LogForm


class Part:
    """Writes down what happens to it."""

    def __init__(self, name: str, story: list[str], stop: Stop | None = None) -> None:
        self.name = name
        self.story = story
        self.wrong: str | None = None
        self.living = True
        self.asks = stop

    async def start(self) -> None:
        self.story.append(f"start {self.name}")

    async def stop(self) -> None:
        self.story.append(f"stop {self.name}")

    def checks(self) -> Mapping[str, str | None]:
        asks, self.asks = self.asks, None
        if asks is not None:
            asks.on_signal()  # asked as soon as somebody looks whether it is ready
        return {"store": self.wrong}

    def alive(self) -> bool:
        return self.living


class Failing(Part):
    async def start(self) -> None:
        raise PentadError("no plugin of that name")


class Hanging(Part):
    async def stop(self) -> None:
        await asyncio.Event().wait()


class Clumsy(Part):
    async def stop(self) -> None:
        raise RuntimeError("stumbled")

    def checks(self) -> Mapping[str, str | None]:
        raise RuntimeError("stumbled")


async def test_starts_in_order_and_stops_in_reverse() -> None:
    story: list[str] = []
    stop = Stop()
    assert await run_services([Part("a", story), Part("b", story, stop)], stop) == 0
    assert story == ["start a", "start b", "stop b", "stop a"]


async def test_says_that_it_is_ready_only_when_every_check_is_met(capsys: pytest.CaptureFixture[str]) -> None:
    stop = Stop()
    part = Part("a", [])
    part.wrong = "no connection"
    running = asyncio.create_task(run_services([part], stop))
    for _ in range(5):
        await asyncio.sleep(0)
    assert capsys.readouterr().out == ""
    part.wrong, part.asks = None, stop
    assert await running == 0
    assert capsys.readouterr().out == "a ready\n"


@pytest.mark.parametrize(("form", "printed"), [("console", "a ready\n"), ("json", "")])
async def test_what_is_said_at_the_start_has_time_and_level_in_the_log(
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    form: LogForm,
    printed: str,
) -> None:
    monkeypatch.setattr(telemetry, "_form", form)
    caplog.set_level("INFO", "pentad")
    stop = Stop()
    assert await run_services([Part("a", [], stop)], stop) == 0
    assert capsys.readouterr().out == printed
    assert ("INFO", "a ready") in [(record.levelname, record.getMessage()) for record in caplog.records]


async def test_a_start_that_fails_stops_what_had_begun() -> None:
    story: list[str] = []
    with pytest.raises(PentadError, match="no plugin of that name"):
        await run_services([Part("a", story), Failing("b", story), Part("c", story)], Stop())
    assert story == ["start a", "stop b", "stop a"]


async def test_a_part_that_dies_stops_all_and_is_named() -> None:
    story: list[str] = []
    dead = Part("b", story)
    dead.living = False
    with pytest.raises(DiedError, match="b has died"):
        await run_services([Part("a", story), dead], Stop())
    assert story[-1] == "stop a"


async def test_what_hangs_or_stumbles_on_its_way_out_does_not_keep_the_others() -> None:
    story: list[str] = []
    stop = Stop()
    stop.on_signal()
    stop.on_signal()
    late = await stop_services([Part("a", story), Hanging("b", story), Clumsy("c", story)], stop)
    assert late == ["c", "b"]
    assert story == ["stop a"]


async def test_work_is_cut_when_the_process_is_asked_to_end() -> None:
    stop = Stop()
    unwound = asyncio.Event()

    async def work() -> None:
        try:
            stop.on_signal()
            await asyncio.Event().wait()
        finally:
            unwound.set()

    with pytest.raises(StopAskedError):
        await stop.unless_asked(work())
    assert unwound.is_set()


async def test_a_check_that_stumbles_has_failed() -> None:
    assert unmet([Clumsy("c", [])]) == {"c.checks": "RuntimeError: stumbled"}


async def test_a_service_is_not_ready_before_it_has_started() -> None:
    watched = Watched(Part("a", []))
    assert unmet([watched]) == {"a.start": "still starting"}
    await watched.start()
    assert all_checks([watched]) == {"a.store": None, "a.start": None}
