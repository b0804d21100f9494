"""What was said is found although everything was killed before it could be written: after the restart, from Redis."""

from contextlib import suppress
from pathlib import Path

import pytest

from pentad.shared.errors import MemoryOutageError, MemoryRefusedError
from pentad.shared.keys import timers
from pentad.shared.memory.archiver_client import ArchiverVectors
from pentad.shared.memory.points import SEGMENT_KIND
from pentad.shared.owners import Owner
from pentad.shared.store.store import Store
from pentad.shared.vectors.selection import Selection, Whose
from tests.support.processes.crew import crew
from tests.support.redis.bus_client import Bus
from tests.support.redis.redis_server import RedisServer
from tests.support.remembering import COLLECTION
from tests.support.waiting import wait_until

pytestmark = pytest.mark.acceptance

BEFORE = {"router": 1, "task-runner": 1}
AFTER = {"task-runner": 1, "archiver": 2}
SAID = "my cat is called Ada"


async def test_a_task_that_ended_before_everything_was_killed_is_found_after_the_restart(tmp_path: Path) -> None:
    """They die before an archiver is even asked: the timer lies in Redis. Then there are two, one has the memory."""
    async with RedisServer() as server, Bus(server.url) as bus:
        async with crew(server.url, tmp_path / "before", BEFORE, PENTAD_DATA_DIR=str(tmp_path / "data")) as team:
            await bus.send(SAID, "s1", user_id="ada")
            [end] = await bus.until("s1", "task_end")
            for name in BEFORE:
                for process in team.named(name):
                    team.kill(process)
        store = Store(server.url)
        vectors = ArchiverVectors(store)
        selection = Selection(Owner("default", "ada"), Whose.OWN, kinds=(SEGMENT_KIND,), tasks=(end["task_id"],))
        assert await store.call("ZSCORE", timers(0), f"remember default/{end['task_id']}") is not None, "not asked yet"
        async with crew(server.url, tmp_path / "after", AFTER, PENTAD_DATA_DIR=str(tmp_path / "data")):

            async def found() -> list[str]:
                with suppress(MemoryOutageError, MemoryRefusedError):  # nobody has it yet
                    page = await vectors.scroll(COLLECTION, selection, 10)
                    return [point.payload.text for point in page.points]
                return []

            assert SAID in await wait_until("the segments", found)
        await vectors.aclose()
        await store.close()
