"""Many erasures of one tenant do not keep that of another waiting: after one, the other has its turn."""

import asyncio

from pentad.contracts.commands import EraseCommand
from pentad.contracts.streams import ERASE
from pentad.services.archiver.erasing import Erasing
from pentad.services.archiver.kept_tasks import KeptTasks
from pentad.shared.work.entry import Entry
from tests.integration.erasing.erasable import Erasable
from tests.support.waiting import wait_until


class SlowErasing(Erasing):
    """Erases as the archiver does, each task once it is allowed to."""

    def __init__(self, world: Erasable) -> None:
        kept = KeptTasks(world.store, world.records)
        super().__init__(world.store, kept, world.erasing._tasks, world.erasing._memory, [0])
        self.begun: list[str] = []
        self.allowed = asyncio.Semaphore(0)

    async def _task(self, command: EraseCommand, shard: int) -> None:
        self.begun.append(command.tenant_id)
        await self.allowed.acquire()
        await super()._task(command, shard)


def erasure(tenant: str, number: int) -> Entry:
    command = EraseCommand(kind="task", tenant_id=tenant, name=f"task-0-{number}")
    return Entry(ERASE.key(0), f"{number}-0", command.to_json())


async def test_an_erasure_waits_for_one_more_of_a_tenant_that_has_many(world: Erasable) -> None:
    erasing = SlowErasing(world)
    async with asyncio.TaskGroup() as group:
        for number in range(20):
            group.create_task(erasing.handle(erasure("greedy", number)))
        await wait_until("the first to begin", lambda: len(erasing.begun) == 2)
        group.create_task(erasing.handle(erasure("modest", 20)))
        await asyncio.sleep(0)
        for begun in (3, 4):
            erasing.allowed.release()
            await wait_until("the next to begin", lambda n=begun: len(erasing.begun) == n)  # type: ignore[misc]
        assert erasing.begun == ["greedy", "greedy", "greedy", "modest"], "one more each"
        for _ in range(20):
            erasing.allowed.release()
    assert erasing.begun.count("greedy") == 20
