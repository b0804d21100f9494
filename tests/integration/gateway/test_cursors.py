"""Coming back with a cursor: never a silent gap, never two attempts mixed (hazards 4, 5, 15)."""

import asyncio
from typing import Any

from pentad.services.gateway.app import GatewayService
from tests.integration.gateway.conftest import Client, opened
from tests.integration.gateway.speaker import TASK, Speaker


async def gap(client: Client) -> dict[str, Any]:
    """The snapshot that follows ``cursor_expired``."""
    error, snapshot = await client.receive(), await client.receive()
    assert (error["type"], error["code"]) == ("error", "cursor_expired")
    assert "id" not in error
    assert snapshot["type"] == "snapshot"
    return snapshot


async def filled(speaker: Speaker, count: int) -> list[str]:
    """So many events."""
    return [await speaker.say("task_start", goal=str(number)) for number in range(count)]


async def test_a_trimmed_cursor_gets_a_snapshot_and_goes_on_from_now(gateway: GatewayService, speaker: Speaker) -> None:
    first, *_ = await filled(speaker, 20)
    await speaker.store.call("XTRIM", speaker.keys.events, "MAXLEN", 5)
    await speaker.task()
    await speaker.session({"role": "user", "content": "hi", "message_id": "m1"})
    newest = (await filled(speaker, 1))[0]
    async with opened(gateway.address, f"session_id=s1&after={first}") as client:
        assert client.session["cursor"] == newest
        snapshot = await gap(client)
        assert snapshot["id"] == newest
        assert [task["task_id"] for task in snapshot["tasks"]] == [TASK]
        assert [turn["content"] for turn in snapshot["messages"]] == ["hi"]
        await speaker.say("task_start", goal="next")
        assert (await client.receive())["goal"] == "next"


async def test_zero_begins_with_the_oldest_kept(gateway: GatewayService, speaker: Speaker) -> None:
    wrote = await filled(speaker, 20)
    await speaker.store.call("XTRIM", speaker.keys.events, "MAXLEN", 5)
    async with opened(gateway.address, "session_id=s1&after=0") as client:
        assert (await client.receive())["id"] == wrote[15]


async def test_a_kept_cursor_goes_on_after_it(gateway: GatewayService, speaker: Speaker) -> None:
    wrote = await filled(speaker, 3)
    async with opened(gateway.address, f"session_id=s1&after={wrote[0]}") as client:
        assert [(await client.receive())["id"], (await client.receive())["id"]] == wrote[1:]


async def test_a_stream_that_ended_is_a_gap(gateway: GatewayService, speaker: Speaker) -> None:
    wrote = await filled(speaker, 2)
    await speaker.store.call("DEL", speaker.keys.events)
    async with opened(gateway.address, f"session_id=s1&after={wrote[0]}") as client:
        await gap(client)
    fresh = await filled(speaker, 1)
    async with opened(gateway.address, f"session_id=s1&after={wrote[0]}") as client:
        assert (await gap(client))["id"] == fresh[0]


async def test_a_cursor_of_a_lost_tail_is_a_gap(gateway: GatewayService, speaker: Speaker) -> None:
    await filled(speaker, 2)
    async with opened(gateway.address, "session_id=s1&after=99999999999999-0") as client:
        await gap(client)


async def test_a_client_that_was_told_live_learns_of_a_trimmed_middle(
    gateway: GatewayService, speaker: Speaker
) -> None:
    async with opened(gateway.address) as client:
        await filled(speaker, 1)
        await client.receive()
        pipe = speaker.store.redis.pipeline()
        for number in range(700):
            pipe.xadd(speaker.keys.events, {"data": f'{{"type":"task_start","goal":"{number}"}}'})
        pipe.xtrim(speaker.keys.events, maxlen=150, approximate=False)
        await pipe.execute()
        await gap(client)


async def test_resuming_in_a_step_mixes_no_attempt_into_it(gateway: GatewayService, speaker: Speaker) -> None:
    await speaker.delta("old", 0, attempt=1)
    cursor = await speaker.delta("ne", 0, attempt=2)
    await speaker.delta(" zombie", 3, attempt=1)
    await speaker.delta("new", 0, attempt=2)
    async with opened(gateway.address, f"session_id=s1&after={cursor}") as client:
        rest = await client.receive()
        assert (rest["attempt"], rest["offset"], rest["content"]) == (2, 2, "w")
        await speaker.delta("again zombie", 0, attempt=1)
        await speaker.delta("er", 3, attempt=2)
        assert (await client.receive())["content"] == "er"


async def test_an_attempt_of_another_history_is_told_from_its_beginning(
    gateway: GatewayService, speaker: Speaker
) -> None:
    """After a failover that lost writes an attempt's number can be given again: the texts are not glued together."""
    async with opened(gateway.address) as client:
        await speaker.delta("what the old server knew", 0)
        await client.receive()
        await speaker.store.call("DEL", speaker.keys.events)
        await speaker.store.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        await gap(client)
        await speaker.delta("what the new one has to say", 0)
        told = await client.receive()
        assert (told["offset"], told["content"]) == (0, "what the new one has to say")


async def test_joining_in_a_step_shows_what_comes_next(gateway: GatewayService, speaker: Speaker) -> None:
    await speaker.delta("half", 0)
    async with opened(gateway.address) as client:
        await speaker.delta(" more", 4)
        assert (await client.receive())["offset"] == 4


async def test_after_a_hole_the_message_is_next(gateway: GatewayService, speaker: Speaker) -> None:
    async with opened(gateway.address) as client:
        await speaker.delta("ab", 0)
        await speaker.delta("ef", 4)
        await speaker.say("message", step=1, attempt=1, content="abcdef")
        seen = await client.until(lambda frame: frame["type"] == "message")
        assert [frame["content"] for frame in seen] == ["ab", "abcdef"]


async def test_a_replay_tells_a_finished_step_by_its_message(gateway: GatewayService, speaker: Speaker) -> None:
    await speaker.turn("m1")
    async with opened(gateway.address, "session_id=s1&after=0") as client:
        seen = await client.until(lambda frame: frame["type"] == "task_end")
        assert [frame["type"] for frame in seen] == ["message_routed", "task_start", "message", "task_end"]


async def test_many_clients_of_one_session_see_the_same(gateway: GatewayService, speaker: Speaker) -> None:
    async def follow(after: str) -> list[str]:
        async with opened(gateway.address, f"session_id=s1{after}") as client:
            joined.release()
            return [frame["id"] for frame in await client.until(lambda frame: frame.get("goal") == "last")]

    joined = asyncio.Semaphore(0)
    following = [asyncio.create_task(follow(after)) for after in ("", "&after=0", "", "&after=0", "")]
    for _ in following:
        await joined.acquire()
    wrote = await filled(speaker, 50)
    wrote.append(await speaker.say("task_start", goal="last"))
    assert await asyncio.gather(*following) == [wrote] * len(following)


async def test_a_long_step_is_read_back_to_its_beginning(gateway: GatewayService, speaker: Speaker) -> None:
    await speaker.delta("old", 0, attempt=1)
    entries = [await speaker.delta("x", offset, attempt=2) for offset in range(150)]
    await speaker.delta(" zombie", 3, attempt=1)
    async with opened(gateway.address, f"session_id=s1&after={entries[139]}") as client:
        assert [(await client.receive())["offset"] for _ in range(10)] == list(range(140, 150))


async def test_reading_back_ends_at_the_newest_attempt_and_not_at_what_a_zombie_wrote_since(
    gateway: GatewayService, speaker: Speaker
) -> None:
    await speaker.delta("new", 0, attempt=2)
    zombies = [await speaker.delta("x", offset, attempt=1) for offset in range(1, 150)]
    async with opened(gateway.address, f"session_id=s1&after={zombies[-1]}") as client:
        await speaker.delta("x", 150, attempt=1)
        await speaker.delta("er", 3, attempt=2)
        told = await client.receive()
    assert (told["attempt"], told["offset"]) == (2, 3)
