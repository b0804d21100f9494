"""Who remembers gives way to who answers, where they share a machine: with all that it starts."""

import os
from pathlib import Path

from tests.support.processes.system import System
from tests.support.redis.redis_server import RedisServer


def priority(process: int) -> int:
    return os.getpriority(os.PRIO_PROCESS, process)


def children(process: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{process}/task/{process}/children").read_text(encoding="ascii").split()]


async def test_an_archiver_and_its_children_are_nicer_than_what_answers(tmp_path: Path) -> None:
    async with RedisServer() as server, System(server.url, tmp_path, {"router": 1, "archiver": 1}) as system:
        router, archiver = (process.running.pid for process in system.processes if process.running is not None)
        started = children(archiver)
        assert started, "the embedded memory has a process of its own"
        assert priority(router) == priority(0)
        assert {priority(each) - priority(router) for each in (archiver, *started)} == {5}
