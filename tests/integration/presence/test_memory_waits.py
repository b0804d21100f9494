"""What an archiver waits for is told while it waits, and not long after."""

import asyncio

from pentad.shared.event_loop import cancel_all
from pentad.shared.keys import MEMORY_WAITS
from pentad.shared.presence.announcements import announce_wait, memory_wait
from pentad.shared.store.store import Store
from tests.support.waiting import wait_until


async def test_a_reason_is_told_and_ends_seconds_later(store: Store) -> None:
    """Promise: whatever the reason says, it can be read, and it does not outlast the wait for long."""
    assert await memory_wait(store) is None
    telling = asyncio.create_task(announce_wait(store, lambda: "a file \udcff" + "x" * 10_000))
    reason = await wait_until("the reason to be told", lambda: memory_wait(store))
    assert reason is not None
    assert reason.startswith("a file ?xxx")
    assert len(reason) == 1000
    assert 0 < await store.call("TTL", MEMORY_WAITS) <= 6
    await cancel_all([telling])


async def test_an_archiver_that_waits_for_nothing_takes_back_no_others_reason(store: Store) -> None:
    """Promise: of several archivers one that is well does not hide what another one waits for."""
    await store.call("SET", MEMORY_WAITS, "of another", "EX", 6)
    looked = asyncio.Event()
    telling = asyncio.create_task(announce_wait(store, looked.set))
    await looked.wait()
    assert await memory_wait(store) == "of another"
    await cancel_all([telling])


async def test_what_was_told_before_the_clock_stepped_back_is_not_believed(store: Store) -> None:
    """Promise: after a step of ten minutes no reason stands for ten minutes."""
    await store.call("SET", MEMORY_WAITS, "before the step", "EX", 606)
    assert await memory_wait(store) is None
