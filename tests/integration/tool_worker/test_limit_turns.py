"""Who may run next under a limit, in Redis: whatever dies, is lost, or becomes of the clock, no place is stuck."""

from collections.abc import Sequence

from pentad.shared.keys import tool_limit
from pentad.shared.store.store import Argument, Store
from tests.support.redis.stepping import step_back

PLACES, HOLDERS, STARTS, COUNTS, TURNS = tool_limit("t")
LEASE_MS, WINDOW_MS = 6000, 1000


def ref(call: str, tenant: str = "a") -> str:
    return f"0 default {tenant}/task-0-a {call} 0"


class Limit:
    """One limit, as workers ask for it."""

    def __init__(self, store: Store, concurrency: int = 1, rate: int = 0) -> None:
        self.store, self.concurrency, self.rate = store, concurrency, rate

    async def tell(self, worker: str, operation: str, *calls: str) -> tuple[bool, list[str]]:
        """Tell of some calls; return whether the one that enters may run, and whose turn has come."""
        args: list[Argument] = [operation, self.concurrency, self.rate, WINDOW_MS, LEASE_MS, worker, *calls]
        runs, _, _, *told = await self.store.run("tool_limit", tool_limit("t"), args)
        return bool(runs), [each.decode() for each in told]

    async def enter(self, worker: str, call: str) -> bool:
        return (await self.tell(worker, "enter", call))[0]

    async def turns(self) -> list[str]:
        """Return whose turn has come by now."""
        return (await self.tell("", "look"))[1]

    async def age(self, ms: int, *, heard: bool = True) -> None:
        """Let places age. ``heard``: workers were heard of meanwhile."""
        for place, end in await self.ends():
            await self.store.call("ZADD", PLACES, end - ms, place)
        if not heard:
            await self.store.call("HINCRBY", COUNTS, "seen", -ms)

    async def ends(self) -> Sequence[tuple[bytes, int]]:
        found = await self.store.call("ZRANGE", PLACES, 0, -1, "WITHSCORES")
        return [(place, round(float(end))) for place, end in zip(found[::2], found[1::2], strict=True)]


async def test_the_place_of_a_dead_worker_ends_and_goes_to_who_waits(store: Store) -> None:
    limit = Limit(store)
    assert await limit.enter("one", ref("c1"))
    assert not await limit.enter("two", ref("c2"))
    await limit.tell("two", "line_up", ref("c2"))
    assert await limit.turns() == []
    await limit.age(LEASE_MS)
    assert await limit.turns() == [ref("c2")]


async def test_a_place_that_is_beaten_does_not_end(store: Store) -> None:
    limit = Limit(store)
    await limit.enter("one", ref("c1"))
    await limit.age(LEASE_MS - 500)
    await limit.tell("one", "beat", ref("c1"))
    await limit.age(LEASE_MS - 500)
    assert not await limit.enter("two", ref("c2"))


async def test_a_call_that_does_not_come_in_its_turn_is_served_again_before_all_others(store: Store) -> None:
    limit = Limit(store)
    await limit.enter("one", ref("c1"))
    await limit.tell("one", "line_up", ref("c2"), ref("c3"), ref("b1", "b"))
    assert (await limit.tell("one", "leave", ref("c1")))[1] == [ref("c2")]
    await limit.age(5000)
    assert await limit.turns() == [ref("c2")]
    assert await limit.enter("two", ref("c2"))


async def test_tenants_are_served_in_turn(store: Store) -> None:
    limit = Limit(store)
    await limit.enter("one", ref("a0"))
    await limit.tell("one", "line_up", *(ref(f"a{n}") for n in range(1, 6)))
    await limit.tell("one", "line_up", ref("b1", "b"), ref("b2", "b"), ref("c1", "c"))
    served, running = [], ref("a0")
    while running:
        turn = (await limit.tell("one", "leave", running))[1]
        running = turn[0] if turn else ""
        if running:
            assert await limit.enter("one", running)
            served.append(running.split(" ")[3])
    assert served == ["a1", "b1", "c1", "a2", "b2", "a3", "a4", "a5"]


async def test_who_comes_new_does_not_pass_those_who_wait(store: Store) -> None:
    limit = Limit(store)
    await limit.enter("one", ref("c1"))
    await limit.tell("one", "line_up", ref("c2"))
    await limit.tell("one", "leave", ref("c1"))
    assert not await limit.enter("two", ref("c3"))
    assert await limit.enter("two", ref("c2"))
    await limit.tell("one", "line_up", *(ref(f"w{n}") for n in range(60)))
    limit.concurrency = 100  # the turns of fifty are told at once
    assert not await limit.enter("two", ref("c4"))


async def test_a_worker_that_was_taken_for_dead_does_not_give_back_the_place_of_its_successor(store: Store) -> None:
    limit = Limit(store)
    await limit.enter("one", ref("c1"))
    assert await limit.enter("two", ref("c1")), "the call was taken over, and keeps its place"
    await limit.tell("one", "leave", ref("c1"))
    assert not await limit.enter("one", ref("c2"))
    await limit.tell("one", "beat", ref("c1"))
    assert not await limit.enter("one", ref("c2"))
    await limit.tell("two", "leave", ref("c1"))
    assert await limit.enter("one", ref("c2"))


async def test_what_runs_keeps_its_place_when_nobody_could_beat(store: Store) -> None:
    """Redis was away, or its clock has stepped on."""
    limit = Limit(store)
    await limit.enter("one", ref("c1"))
    await limit.age(600_000, heard=False)
    assert not await limit.enter("two", ref("c2"))
    await limit.age(LEASE_MS)
    assert await limit.enter("two", ref("c2")), "and once only"


async def test_no_place_and_no_start_outlasts_a_clock_that_steps_back(store: Store) -> None:
    limit = Limit(store, concurrency=1, rate=1)
    await limit.enter("one", ref("c1"))
    await step_back(store, 600_000)
    assert not await limit.enter("two", ref("c2"))
    [(_, end)] = await limit.ends()
    [start] = (await store.call("ZRANGE", STARTS, 0, -1, "WITHSCORES"))[1::2]
    now = await store.clock()
    assert (end <= now + LEASE_MS, round(float(start)) <= now) == (True, True)


async def test_a_call_that_runs_again_starts_again_for_the_rate(store: Store) -> None:
    limit = Limit(store, concurrency=0, rate=2)
    assert await limit.enter("one", ref("c1"))
    assert await limit.enter("two", ref("c1"))
    assert not await limit.enter("three", ref("c1"))
    assert not await limit.enter("three", ref("c2"))


async def test_a_call_whose_turn_has_come_late_does_not_start_beyond_the_rate(store: Store) -> None:
    limit = Limit(store, concurrency=0, rate=1)
    await limit.enter("one", ref("c0"))
    await limit.tell("one", "line_up", ref("c1"))
    await store.call("DEL", STARTS)
    assert await limit.turns() == [ref("c1")]
    await store.call("DEL", STARTS)  # its window has passed while it was in the queue
    assert (await limit.tell("one", "line_up", ref("c2")))[1] == [ref("c2")]
    assert not await limit.enter("one", ref("c1"))
    assert await limit.enter("one", ref("c2"))
