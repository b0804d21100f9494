"""Tools of MCP servers, which the official SDK runs as processes: what a call gives, whatever happens to it."""

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from pentad.contracts.tool_servers import ToolServer
from pentad.contracts.tools import Effect
from pentad.services.tool_worker.servers import program_link, server_tools
from pentad.services.tool_worker.servers import served as served_servers
from pentad.shared.errors import SettingsError
from tests.integration.tool_worker_servers.conftest import Offer, Offering
from tests.support.mcp.entries import HttpServerProcess, http_process, program, raw
from tests.support.processes.up import ROOT
from tests.support.waiting import wait_until

KINDS = ["stdio", "http", "old-http", "sse"]
"""Ways to speak to a server; those of ``old-http`` and ``sse`` are of the protocol before 2026."""


@asynccontextmanager
async def served(kind: str, folder: Path, offer: Offer) -> AsyncIterator[tuple[Offering, HttpServerProcess | None]]:
    if kind == "stdio":
        async with offer(program("s", folder)) as offering:
            await offering.until("s", "ready")
            yield offering, None
        return
    async with (
        http_process(kind, folder) as process,
        offer(ToolServer(name="s", url=process.url, sse=kind == "sse")) as offering,
    ):
        await offering.until("s", "ready")
        yield offering, process


def ledger(folder: Path) -> list[str]:
    path = folder / "ledger"
    return path.read_text().splitlines() if path.exists() else []


def is_cancelled(folder: Path, name: str) -> bool:
    return f"cancelled {name}" in ledger(folder)


async def begun(folder: Path, name: str) -> int:
    """Return the id of the process in which a call has begun."""

    def found() -> int | None:
        lines = [line.split() for line in ledger(folder) if line.startswith(f"begun {name} ")]
        return int(lines[-1][2]) if lines else None

    pid = await wait_until(f"the call of {name} has begun", found)
    assert pid is not None
    return pid


@pytest.mark.parametrize("kind", KINDS)
async def test_a_call_gives_its_result_and_tells_how_far_it_is(kind: str, tmp_path: Path, offer: Offer) -> None:
    async with served(kind, tmp_path, offer) as (offering, _):
        assert offering.source.tools["s__add"].effect is Effect.PURE
        assert offering.source.tools["s__hold_once"].effect is Effect.UNSAFE
        done = await offering.call("s__add", a=2, b=3)
        assert (done.kind, done.text) == ("ok", "5")
        counted = await offering.call("s__count", to=2)
        assert counted.text == "counted to 2"
        assert offering.progress == [("at 1", 0.5), ("at 2", 1.0)]
        wrong = await offering.call("s__add", a="two", b=3)
        assert wrong.kind == "error"
        assert "integer" in wrong.text
        shown = await offering.call("s__picture")
        assert shown.text == "here it is\n[a file of 100 bytes, image/png, which is not kept: set PENTAD_FILES]"


@pytest.mark.parametrize("kind", KINDS)
async def test_a_call_that_is_cancelled_or_takes_too_long_is_cancelled_at_the_server(
    kind: str, tmp_path: Path, offer: Offer
) -> None:
    async with served(kind, tmp_path, offer) as (offering, _):
        late = await offering.call("s__hold", timeout_s=0.5, name="late")
        assert late.kind == "timeout"
        assert "no result within 0.5 s" in late.text
        call = asyncio.create_task(offering.call("s__hold", name="given-up"))
        await begun(tmp_path, "given-up")
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        for name in ("late", "given-up"):
            await wait_until(f"{name} is cancelled", partial(is_cancelled, tmp_path, name))
        assert (await offering.call("s__add", a=1, b=1)).text == "2"


@pytest.mark.parametrize("kind", KINDS)
async def test_a_server_killed_during_a_call_interrupts_it_and_is_there_again(
    kind: str, tmp_path: Path, offer: Offer
) -> None:
    async with served(kind, tmp_path, offer) as (offering, process):
        call = asyncio.create_task(offering.call("s__hold", name="x"))
        os.kill(await begun(tmp_path, "x"), signal.SIGKILL)
        lost = await call
        assert lost.kind == "interrupted"
        assert "the server 's' was lost during the call" in lost.text
        next_call = asyncio.create_task(offering.call("s__add", a=1, b=1))
        if process is not None:
            await process.kill()
            await process.start()
        assert (await next_call).text == "2"
        assert (await offering.until("s", "ready")).error is None


@pytest.mark.parametrize("kind", KINDS)
async def test_a_tool_that_comes_while_it_runs_is_offered(kind: str, tmp_path: Path, offer: Offer) -> None:
    async with served(kind, tmp_path, offer) as (offering, _):
        before = offering.changes
        assert (await offering.call("s__grow", name="later")).kind == "ok"
        await wait_until("the new tool is offered", lambda: "s__later" in offering.names)
        assert offering.changes > before
        assert (await offering.call("s__later")).text == "later ran"


async def test_a_server_that_is_away_is_told_with_its_reason_and_the_call_was_not_made(
    tmp_path: Path, offer: Offer
) -> None:
    async with http_process("http", tmp_path) as process, offer(ToolServer(name="s", url=process.url)) as offering:
        await offering.until("s", "ready")
        await process.kill()
        outcome = await offering.call("s__add", timeout_s=1, a=1, b=1)
        assert outcome.kind == "error"
        assert "the server 's' cannot be reached, and the call was not made: no connection to" in outcome.text
        report = await offering.until("s", "failing")
        assert "it is not there, or refuses" in str(report.error)
        assert "s__add" in offering.names, "it may be back in a moment"


async def test_one_failing_request_leaves_other_calls_of_the_connection_alone(tmp_path: Path, offer: Offer) -> None:
    async with served("http", tmp_path, offer) as (offering, _):
        held = asyncio.create_task(offering.call("s__hold_once", name="go"))
        await begun(tmp_path, "go")
        large = await offering.call("s__add", a=1, b="x" * (5 << 20))
        assert large.kind in ("error", "interrupted")
        (tmp_path / "go").touch()
        assert (await held).text == "go is there"


async def test_a_program_sees_the_variables_that_are_named_and_no_others(
    tmp_path: Path, offer: Offer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLM_API_KEY", "sk-secret")
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    async with offer(program("s", tmp_path, env={"GIVEN": "yes"})) as offering:
        await offering.until("s", "ready")
        seen = (await offering.call("s__environment")).text
        assert '"GIVEN": "yes"' in seen.replace('":"', '": "')
        for name in ("LLM_API_KEY", "sk-secret", "PYTHONPATH"):
            assert name not in seen


async def test_programs_end_with_their_source(tmp_path: Path, offer: Offer) -> None:
    async with offer(program("s", tmp_path)) as offering:
        await offering.until("s", "ready")
        call = asyncio.create_task(offering.call("s__hold", name="x"))
        pid = await begun(tmp_path, "x")
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert (await call).kind == "interrupted"


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("exits", "it exited with code 7"),
        ("misfit", "its answer does not fit the protocol: tools.1.inputSchema.type: Input should be 'object'"),
        ("wrong-protocol", "Unsupported protocol version from the server: 1999-01-01"),
    ],
)
async def test_a_server_that_does_not_start_says_why(kind: str, why: str, offer: Offer) -> None:
    async with offer(raw("s", kind)) as offering:
        report = await offering.until("s", "failing")
        assert why in str(report.error)
        assert report.said == ("the token is missing" if kind == "exits" else None)
        assert report.tools == 0


async def test_a_program_that_is_not_there_says_what_to_do(offer: Offer) -> None:
    async with offer(
        ToolServer(name="s", command="no-such-program"), ToolServer(name="t", command="sh", cwd="/no")
    ) as it:
        assert "there is no program no-such-program where the tool-worker runs" in str(
            (await it.until("s", "failing")).error
        )
        assert "its folder /no is not there" in str((await it.until("t", "failing")).error)


async def test_servers_that_hang_or_talk_rubbish_hurt_neither_the_start_nor_another_server(
    tmp_path: Path, offer: Offer
) -> None:
    good = program("good", tmp_path)
    async with offer(raw("hangs", "hangs"), raw("rubbish", "rubbish"), raw("endless", "endless"), good) as offering:
        await offering.until("good", "ready")
        assert (await offering.call("good__add", a=1, b=2)).text == "3"
        assert offering.report("hangs").condition == "connecting"
        assert offering.report("rubbish").condition == "connecting"
        assert (await offering.until("endless", "ready")).left_out[0].why == "the server lists more tools than are read"


async def test_hostile_answers_are_errors_of_their_calls(tmp_path: Path, offer: Offer) -> None:
    names = ["no-result", "values", "large", "asks", "flood", "fine"]
    tools = tmp_path / "tools.json"
    tools.write_text(str([{"name": name, "inputSchema": {"type": "object"}} for name in names]).replace("'", '"'))
    async with offer(raw("s", "old", tools)) as offering:
        await offering.until("s", "ready")
        assert "answered what is no result" in (await offering.call("s__no-result")).text
        assert "more than 30,000 values" in (await offering.call("s__values")).text
        large = await offering.call("s__large")
        assert large.kind == "ok"
        assert 1 << 20 < len(large.text) < 1.1 * (1 << 20)
        asks = await offering.call("s__asks")
        assert asks.kind == "error"
        flood = await offering.call("s__flood")
        assert (flood.kind, (await offering.call("s__fine")).text) == ("interrupted", "fine ran")


async def test_of_a_hostile_list_what_is_good_is_offered_and_the_rest_told(offer: Offer) -> None:
    async with offer(raw("s", "hostile")) as offering:
        report = await offering.until("s", "ready")
        assert "s__good" in offering.names
        assert report.tools == len(offering.names) == 256
        assert report.left_out_count == 1_000 - 256 + 1
        assert report.left_out[0].why == "the server lists more tools than are read"
        assert {each.tool for each in report.left_out} > {"bomb", "away", "giant"}


async def test_a_list_that_changes_all_the_time_is_read_at_most_once_a_second(tmp_path: Path, offer: Offer) -> None:
    tools = tmp_path / "tools.json"
    tools.write_text('[{"name": "one", "inputSchema": {"type": "object"}}]')
    async with offer(raw("s", "old", tools)) as offering:
        await offering.until("s", "ready")
        assert offering.report("s").protocol == "2025-06-18"
        tools.write_text('[{"name": "two", "inputSchema": {"type": "object"}}]')
        begun_at = asyncio.get_running_loop().time()
        await offering.call("s__one")  # it says behind each call that its list has changed
        await wait_until("the list is read", lambda: offering.names == {"s__two"})
        assert asyncio.get_running_loop().time() - begun_at > 0.9


async def test_without_the_sdk_a_file_of_servers_stops_the_start_with_what_to_install(
    tmp_path: Path, offer: Offer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_tools, "_SERVED", "mcp.not_installed")
    with pytest.raises(SettingsError, match=re.escape("pip install 'pentad[mcp]'")):
        async with offer(program("s", tmp_path)):
            pass
    async with offer() as offering:
        assert offering.names == set()


async def test_the_tools_of_a_server_that_stays_away_are_withdrawn_and_come_back(
    tmp_path: Path, offer: Offer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served_servers, "_LOOK_S", 0.05)
    async with served("http", tmp_path, offer) as (offering, process):
        assert process is not None
        monkeypatch.setattr(served_servers, "_KEPT_S", 0.1)
        await process.kill()
        await offering.call("s__add", a=1, b=1, timeout_s=0.2)  # it is noticed
        await wait_until("its tools are withdrawn", lambda: offering.names == set())
        await process.start()
        await wait_until("they are offered again", lambda: "s__add" in offering.names)


async def test_a_program_that_does_not_end_when_it_is_asked_to_is_killed(
    tmp_path: Path, offer: Offer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program_link, "_END_S", 0.1)
    code = "import os,signal,sys,time; signal.signal(15, signal.SIG_IGN)\n"
    code += "open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(600)"
    async with offer(ToolServer(name="s", command=sys.executable, args=("-c", code, str(tmp_path / "pid")))):
        await wait_until("it runs", lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
        pid = int((tmp_path / "pid").read_text())
        os.kill(pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_program_ends_with_its_worker_however_that_ends(tmp_path: Path) -> None:
    worker = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.support.mcp.lone_worker", str(tmp_path)),
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    await wait_until("the server runs", lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    pid = int((tmp_path / "pid").read_text())
    worker.kill()
    await worker.wait()
    await wait_until("the server has ended", lambda: not _runs(pid))


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
