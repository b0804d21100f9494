"""A client that comes back with its cursor misses nothing and sees nothing twice, on whichever gateway it lands."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.clients.api import Api
from tests.support.clients.line import Event, Line
from tests.support.models.model_server import Script
from tests.support.models.replies import Reply, call, say
from tests.support.processes.cluster import Cluster
from tests.support.processes.stage import Stage, new_session
from tests.support.redis.raw_redis import events_of, publish
from tests.support.waiting import wait_until

pytestmark = pytest.mark.acceptance

EPHEMERAL = ("content", "thinking", "tool_progress")
TEXT = "a long answer that comes in many small pieces, so that a line may well be cut in the middle of it"


def position(event: Event) -> tuple[int, ...]:
    """A cursor as something that compares."""
    return tuple(map(int, str(event["id"]).split("-")))


def check(seen: Sequence[Event], on_stream: Sequence[Event], healed: bool = False) -> None:
    """No repeat, no gap, in order; the deltas that were seen make up what the messages say.

    ``healed``: the last deltas of a step may be left out, because its ``message`` follows.
    """
    ids = [position(e) for e in seen]
    assert ids == sorted(set(ids)), f"repeated or out of order: {[e['id'] for e in seen]}"
    missing = [e for e in on_stream if e["type"] not in EPHEMERAL and e not in seen]
    assert missing == [], f"never came: {missing}"
    texts: dict[tuple[int, int], str] = {}
    for event in seen:
        if event["type"] == "content":
            key = (event["step"], event["attempt"])
            known = texts.get(key, "")
            assert event["offset"] == len(known), f"a gap or a repeat in the text: {known!r} then {event}"
            texts[key] = known + event["content"]
        elif event["type"] == "message":
            known = texts.get((event["step"], event["attempt"]), "")
            assert event["content"].startswith(known)
            assert healed or known in ("", event["content"]), f"only {known!r} of {event}"


def tool_then(answer: Reply) -> Script:
    """A tool call, then the answer."""
    asked = call(("echo", {"text": "hello"}), text="let me see")
    return lambda r: answer if r["messages"][-1]["role"] == "tool" else asked


async def test_a_websocket_goes_on_at_another_gateway_in_the_middle_of_a_streaming_step(cluster: Cluster) -> None:
    go, session = asyncio.Event(), new_session()
    first, second = cluster.gateways
    async with cluster.model(tool_then(say(TEXT, chunks=12, delay=0.06, wait=go, wait_after=7))):
        async with Line(first, session) as line:
            await line.say("talk")
            await line.until("content", lambda e: e["step"] == 2)
        resumed, beside = (Line(gateway, session, after=line.cursor) for gateway in (second, first))
        async with resumed, beside:
            await resumed.until("content")  # what was written before the model was held
            assert resumed.answers("message") == []
            go.set()
            await resumed.until("task_end")
            await beside.until("task_end")
    streamed = "".join(
        e["content"] for e in (*line.events, *resumed.events) if e["type"] == "content" and e["step"] == 2
    )
    print(f"WebSocket: {len(line.events)} events before, after: {dict(Counter(e['type'] for e in resumed.events))}")
    on_stream = await events_of(cluster.redis_url, session)
    for later in (resumed, beside):
        check([*line.events, *later.events], on_stream)
    assert streamed == TEXT


async def test_sse_goes_on_at_another_gateway_in_the_middle_of_a_streaming_step(cluster: Cluster) -> None:
    go, session, seen = asyncio.Event(), new_session(), list[Event]()
    first, second = cluster.gateways
    async with cluster.model(tool_then(say(TEXT, chunks=12, delay=0.06, wait=go, wait_after=7))):
        await publish(cluster.redis_url, {"content": "talk", "session_id": session})
        async with Api(first) as api, api.sse(session) as events:
            async for event in events:
                seen.append(event)
                if event["type"] == "content" and event["step"] == 2:
                    break
        before = len(seen)
        async with Api(second) as api, api.sse(session, last_event_id=seen[-1]["id"]) as events:
            async for event in events:
                seen.append(event)
                go.set()  # the second gateway streams from the middle of the step
                if event["type"] == "task_end":
                    break
    streamed = "".join(e["content"] for e in seen if e["type"] == "content" and e["step"] == 2)
    print(f"SSE: {before} events before, {len(seen) - before} after: {[e['type'] for e in seen[before:]]}")
    assert streamed == TEXT
    check(seen, await events_of(cluster.redis_url, session))
    assert seen[0]["type"] == "message_routed"


async def test_a_client_that_comes_back_after_every_event_sees_each_once(cluster: Cluster) -> None:
    session, seen, hops = new_session(), list[Event](), 0
    async with cluster.model(tool_then(say(TEXT, chunks=10, delay=0.03))):
        await publish(cluster.redis_url, {"content": "talk", "session_id": session})
        while not seen or seen[-1]["type"] != "task_end":
            cursor = seen[-1]["id"] if seen else "0"
            async with Line(cluster.gateways[hops % 2], session, after=cursor) as line:
                await line.until("session")
                await wait_for_events(line)
            seen += line.events
            hops += 1
    print(f"{len(seen)} events over {hops} connections to two gateways")
    check(seen, await events_of(cluster.redis_url, session))
    assert hops >= 3


async def wait_for_events(line: Line) -> None:
    """Until this connection has brought something."""
    await wait_until("the next event", lambda: line.events)


async def test_what_was_missed_is_told_from_any_cursor_on(cluster: Cluster) -> None:
    session = new_session()
    async with cluster.model(tool_then(say(TEXT, chunks=4, delay=0.06))), Line(cluster.gateways[0], session) as line:
        await line.turn("talk")
        await line.turn("talk again", count=2)
    on_stream = await events_of(cluster.redis_url, session)
    for n, event in enumerate(on_stream[:-1]):
        gateway, later = cluster.gateways[n % 2], on_stream[n + 1 :]
        async with Line(gateway, session, after=event["id"]) as resumed:
            await resumed.until("task_end", lambda e: e["id"] == on_stream[-1]["id"])
        check([*on_stream[: n + 1], *resumed.events], on_stream, healed=True)
        async with Api(gateway) as api, api.sse(session, last_event_id=event["id"]) as events:
            by_sse = [await anext(events) for _ in resumed.events]
        assert by_sse == resumed.events, f"after {event['id']}"
        assert all(e in later for e in resumed.events)
    print(f"{len(on_stream)} cursors, each by WebSocket and by SSE")


async def test_a_long_history_is_replayed_whole(pentad_up: Stage) -> None:
    session, count = new_session(), 400
    async with pentad_up.model(lambda _: say("yes")), pentad_up.line(session) as live:
        await publish(pentad_up.redis_url, *({"content": f"{n}", "session_id": session} for n in range(count)))
        await live.until("message_routed", count=count)
        routed_last = live.answers("message_routed")[-1]
        await live.until("task_end", lambda e: position(e) > position(routed_last))
    on_stream = await events_of(pentad_up.redis_url, session)
    for cursor, rest in (("0", on_stream), (on_stream[9]["id"], on_stream[10:])):
        async with pentad_up.line(session, after=cursor) as resumed:
            await resumed.until("task_end", lambda e: e["id"] == on_stream[-1]["id"])
        durable = [e for e in rest if e["type"] not in EPHEMERAL]
        assert [e for e in resumed.events if e["type"] not in EPHEMERAL] == durable
    print(f"{len(on_stream)} events, replayed from the beginning and from the tenth")
    assert [e for e in live.events if e["type"] not in EPHEMERAL] == [
        e for e in on_stream if e["type"] not in EPHEMERAL
    ]


async def test_a_cursor_that_is_no_longer_kept_gets_an_error_and_a_snapshot(strict: Stage) -> None:
    async with strict.model(lambda r: say(f"answer to {len(r['messages'])}")), strict.api() as api:
        async with strict.line() as line:
            await line.turn("the beginning")
        gone, session = line.cursor, line.session
        await publish(strict.redis_url, *({"content": f"more {n}", "session_id": session} for n in range(300)))
        async with strict.line(session) as live:
            await live.say("the last", "last")
            await live.until("message_routed", lambda e: e["message_id"] == "last")
            await live.until("task_end", lambda e: follows(live, e, "last"))
        kept = await events_of(strict.redis_url, session)
        async with strict.line(session, after=gone) as late:
            snapshot = await late.until("snapshot")
            error = late.answers("error")[0]
            end = await late.turn("and now?", message_id="now")
        async with api.sse(session, last_event_id=gone) as events:
            by_sse = [await anext(events) for _ in range(2)]
        async with strict.line(session, after="0") as oldest:
            await oldest.until("task_end", lambda e: e["id"] == end["id"])
    print(
        f"limit 100: {len(kept)} kept; snapshot of {len(snapshot['tasks'])} tasks, {len(snapshot['messages'])} messages"
    )
    assert len(kept) < 300
    assert [f["type"] for f in late.frames[:3]] == ["session", "error", "snapshot"]
    assert error["code"] == "cursor_expired"
    assert "the last" in [m["content"] for m in snapshot["messages"]]
    assert [t["session_id"] for t in snapshot["tasks"]] == [session]
    assert end["task_id"] == snapshot["tasks"][0]["task_id"]
    assert [e["type"] for e in late.events if e.get("message_id") == "now"] == ["message_routed"]
    assert [e["type"] for e in by_sse] == ["error", "snapshot"]
    assert oldest.answers("error") == []


def follows(line: Line, end: Event, message_id: str) -> bool:
    """Whether a task's end lies behind the routing of a message."""
    routed = [e for e in line.answers("message_routed") if e["message_id"] == message_id]
    return bool(routed) and position(routed[0]) < position(end)


async def test_a_session_without_events_has_a_cursor_to_come_back_to(cluster: Cluster) -> None:
    session = new_session()
    async with Line(cluster.gateways[0], session) as line:
        hello: dict[str, Any] = line.frames[0]
    async with cluster.model(lambda _: say("hello")):
        await publish(cluster.redis_url, {"content": "hi", "session_id": session})
        async with Line(cluster.gateways[1], session, after=hello["cursor"]) as resumed:
            await resumed.until("task_end")
    assert (hello["type"], hello["session_id"]) == ("session", session)
    check(resumed.events, await events_of(cluster.redis_url, session))
