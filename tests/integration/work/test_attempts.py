"""What is counted of an entry goes with the entry: the counts' hash does not grow for as long as something fails."""

from pentad.contracts.streams import DEAD
from pentad.shared.keys import attempts
from pentad.shared.store.store import Store
from pentad.shared.work.entry import Entry
from tests.integration.work.crew import add, settled, working
from tests.support.waiting import wait_until


async def test_the_counts_of_entries_that_ended_are_gone(store: Store) -> None:
    seen: list[bytes] = []

    async def work(entry: Entry) -> None:
        seen.append(entry.data)
        if entry.data == b"never" or seen.count(entry.data) == 1:
            raise ValueError("not yet")

    async def nothing_counted() -> bool:
        return not await store.call("EXISTS", attempts(0))

    async with working(store, "one", work, attempts=2):
        await add(store, "second time", "never")
        await wait_until("the dead letter", lambda: store.call("XLEN", DEAD.key(0)))
        await wait_until("the acknowledgements", lambda: settled(store))
        await wait_until("the counts to be gone", nothing_counted)
