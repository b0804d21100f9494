"""The archiver of a real ``pentad up``: in a process of its own, which may be killed and never outlives the system."""

import json
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import httpx2
import pytest

from pentad import GatewayUnreachable, connect
from tests.support.processes.up import Up
from tests.support.slow import rarely
from tests.support.waiting import SLOW_START, wait_until

pytestmark = pytest.mark.acceptance

_CHECKS = {f"archiver.{name}": None for name in ("redis", "archiving", "memory", "graph")}


def children(pid: int) -> list[int]:
    try:
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()]
    except OSError:
        return []


def _command_of(pid: int | str) -> bytes:
    """Return a process' command line; nothing for one that has ended just now."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def archiver_of(up: Up) -> int | None:
    """The archiver's process; None while there is none."""
    for pid in children(up.pid):
        if b"pentad.system.service_child" in _command_of(pid):
            return pid
    return None


def archiver(up: Up) -> int:
    found = archiver_of(up)
    assert found is not None
    return found


def listening(pid: int) -> list[str]:
    """The sockets of a process that others can connect to."""
    lines = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()]
    inodes = {f"socket:[{fields[9]}]" for fields in lines if fields[3] == "0A"}
    return [str(link) for fd in Path(f"/proc/{pid}/fd").iterdir() if (link := str(fd.readlink())) in inodes]


async def get(url: str) -> httpx2.Response:
    async with httpx2.AsyncClient(trust_env=False, timeout=30) as http:
        return await http.get(url)


async def counted(url: str, name: str) -> float:
    page = (await get(f"{url}/metrics")).text
    return sum(float(line.split()[-1]) for line in page.splitlines() if line.startswith((f"{name} ", f"{name}{{")))


async def is_ready(url: str) -> bool:
    return (await get(f"{url}/readyz")).status_code == 200


async def teach(url: str, sentences: Sequence[str]) -> None:
    """Say each in a task of its own."""
    async with connect(url, user_id="ada") as agent:
        for number, sentence in enumerate(sentences):
            await agent.session(f"s{number}").ask(sentence)


async def remember(url: str, count: int) -> None:
    """Wait until so many tasks are remembered. While there is no archiver the gateway answers with 503."""

    async def all_there() -> bool:
        with suppress(GatewayUnreachable):
            return (await agent.inspection.memory_stats()).tasks == count
        return False

    async with connect(url) as agent:
        await wait_until("all to be remembered", all_there)


async def best(url: str, question: str) -> str:
    """What is found first."""
    found: list[str] = []

    async def anything() -> bool:
        with suppress(GatewayUnreachable):
            found[:] = [hit.content for hit in await agent.inspection.search_memory(question, user_id="ada")]
        return bool(found)

    async with connect(url) as agent:
        await wait_until("an answer of the memory", anything)
    return found[0]


async def test_it_is_as_ready_as_before_and_the_gateway_alone_listens(tmp_path: Path) -> None:
    with Up(tmp_path) as up:
        url = await up.ready()
        checks = (await get(f"{url}/readyz")).json()
        assert {name: wrong for name, wrong in checks.items() if name.startswith("archiver.")} == _CHECKS
        its = archiver(up)
        assert len(listening(up.pid)) == 1
        assert [listening(pid) for pid in (its, *children(its))] == [[], []]
        own = os.getpriority(os.PRIO_PROCESS, up.pid)
        assert [os.getpriority(os.PRIO_PROCESS, pid) - own for pid in (its, *children(its))] == [5, 5]


async def test_a_memory_that_cannot_be_opened_holds_up_no_start_and_is_told(tmp_path: Path) -> None:
    in_its_place = tmp_path / "data" / "memory" / "vectors"
    in_its_place.parent.mkdir(parents=True)
    in_its_place.write_text("a file where the folder should be")
    with Up(tmp_path) as up:
        url = await up.ready()
        told = await get(f"{url}/readyz")
        wrong = {name for name, wrong in told.json().items() if wrong is not None}
        assert (told.status_code, wrong) == (503, {"archiver.memory"})
        assert "the long-term memory waits" in up.err
        async with connect(url) as agent:
            assert await agent.session("s").ask("hello")


async def test_killed_while_it_remembers_it_comes_back_and_forgets_nothing(tmp_path: Path) -> None:
    sentences = [f"the locker of person {number} has the code {7000 + number}" for number in range(12)]
    with Up(tmp_path, {"PENTAD_LEASE_S": "0.5"}) as up:
        url = await up.ready()
        await teach(url, sentences)
        os.kill(first := archiver(up), signal.SIGKILL)
        await wait_until("another archiver", lambda: archiver_of(up) not in (None, first))
        await wait_until("the archiver to be ready", lambda: is_ready(url))
        await remember(url, len(sentences))
        for number in (0, len(sentences) - 1):
            assert await best(url, f"code of the locker of person {number}") == sentences[number]
        assert "archiver ended (it was killed by SIGKILL): it is started again" in up.err


async def test_what_it_counts_is_on_the_gateway_s_page_and_does_not_fall_when_it_is_killed(tmp_path: Path) -> None:
    name = "pentad_memory_segments_total"
    with Up(tmp_path) as up:
        url = await up.ready()
        await teach(url, ["the cat is called Ada"])

        async def is_counted() -> bool:
            return await counted(url, name) > 0

        await wait_until("the segments to be counted", is_counted)
        before = await counted(url, name)
        os.kill(first := archiver(up), signal.SIGKILL)
        await wait_until("another archiver", lambda: archiver_of(up) not in (None, first))
        await wait_until("the archiver to be ready", lambda: is_ready(url))
        assert await counted(url, name) == before
        page = (await get(f"{url}/metrics")).text.splitlines()
        heads = [line for line in page if line.startswith("# TYPE")]
        assert len(heads) == len(set(heads))
        assert sum(line.startswith("process_cpu_seconds_total ") for line in page) == 1


async def test_when_the_system_is_killed_its_archiver_ends_and_the_next_has_the_memory(tmp_path: Path) -> None:
    said = "the ferry to Bergen leaves at nine"
    with Up(tmp_path, {"PENTAD_REDIS_FSYNC": "always"}) as up:
        url = await up.ready()
        await teach(url, [said])
        up.signal(signal.SIGKILL)
        await up.ended()
        await wait_until("every process to end", lambda: up.descendants() == [])
        up.start()
        url = await up.ready()
        await remember(url, 1)
        assert await best(url, "When does the ferry leave?") == said
        assert "stands by" not in up.err


@pytest.mark.parametrize(
    "number", rarely([signal.SIGINT, signal.SIGTERM, signal.SIGHUP], signal.SIGINT, signal.SIGTERM)
)
async def test_it_ends_with_the_system_at_every_signal(tmp_path: Path, number: signal.Signals) -> None:
    with Up(tmp_path, {"PENTAD_LOG_FORMAT": "json"}) as up:
        await wait_until("the system to be ready", lambda: '"ready on ' in up.err)
        os.killpg(up.pid, number)
        assert await up.ended() == 0
        assert up.descendants() == []
        said = [json.loads(line) for line in up.err.splitlines()]
    wrong = [each for each in said if each["level"] in ("warning", "error") and SLOW_START not in each["message"]]
    assert wrong == []
    assert [each["message"] for each in said].count("archiver has started") == 1


async def test_the_third_ctrl_c_takes_it_along_although_it_hangs(tmp_path: Path) -> None:
    with Up(tmp_path) as up:
        await up.ready()
        os.kill(archiver(up), signal.SIGSTOP)
        up.ctrl_c()
        await wait_until("the first to be heard", lambda: "stopping" in up.err)
        up.ctrl_c()
        await wait_until("the second to be heard", lambda: "hurrying" in up.err or up.returned is not None)
        up.ctrl_c()
        await up.ended()
        await wait_until("every process to end", lambda: up.descendants() == [])


async def test_a_second_ctrl_c_does_not_wait_for_one_that_hangs(tmp_path: Path) -> None:
    with Up(tmp_path) as up:
        await up.ready()
        os.kill(archiver(up), signal.SIGSTOP)
        up.ctrl_c()
        await wait_until("the first to be heard", lambda: "stopping" in up.err)
        up.ctrl_c()
        assert await up.ended() == 1
        assert up.descendants() == []
        assert "archiver did not stop in time" in up.err
