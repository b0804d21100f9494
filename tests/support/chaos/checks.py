"""Checks of a chaos run by the events that its clients saw, the ledger of its tools, and the data in Redis."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from redis import Redis as SyncRedis
from redis.asyncio import Redis

from pentad.contracts.ids import shard_of
from pentad.contracts.streams import EVENTS, INBOUND
from tests.support.chaos.ledger import Ledger
from tests.support.chaos.plan import ALLOWED, Step
from tests.support.chaos.report import Report
from tests.support.chaos.troubles import Troubles
from tests.support.clients.follower import DURABLE, Event, Follower

_SETTLED_S = 15.0


def missing(accepted: Iterable[str], port: int) -> set[str]:
    """Return the accepted messages that the Redis at this port lacks, in the inbound stream and in mailboxes."""
    with SyncRedis(port=port) as redis:
        entries = redis.xrange(INBOUND.key())
        had = {json.loads(fields[b"data"]).get("message_id") for _, fields in entries}
        had |= {key.decode().rsplit(":", 1)[1] for key in redis.scan_iter("pentad:*:seen:*", count=1000)}
    return set(accepted) - had


async def unlike(redis: Redis, followers: Sequence[Follower], shards: int) -> list[str]:
    """Return the sessions whose client differs from the server, after some time to catch up."""
    limit = asyncio.get_running_loop().time() + _SETTLED_S
    left = list(followers)
    while True:
        found = [(follower, _shown(follower), await _held(redis, follower.session, shards)) for follower in left]
        found = [(follower, shown, held) for follower, shown, held in found if _ids(shown) != _ids(held)]
        if not found or asyncio.get_running_loop().time() > limit:
            return [_difference(*each) for each in found]
        left = [follower for follower, _, _ in found]
        await asyncio.sleep(0.2)


def _shown(follower: Follower) -> list[Event]:
    return [event for event in follower.events if event["type"] in DURABLE]


async def _held(redis: Redis, session: str, shards: int) -> list[Event]:
    key = EVENTS.key(shard_of("default", session, shards), tenant="default", session=session)
    entries: Any = await redis.xrange(key)
    events = [json.loads(fields[b"data"]) | {"id": entry.decode()} for entry, fields in entries]
    return [event for event in events if event["type"] in DURABLE]


def _ids(events: Sequence[Event]) -> list[str]:
    return [event["event_id"] for event in events]


def _difference(follower: Follower, shown: Sequence[Event], held: Sequence[Event]) -> str:
    """Return in words how a client differs from the server: after a failover a cursor may be of another event."""
    lacks, has = (
        [f"{e['type']} {e['id']}" for e in one if e["event_id"] not in _ids(other)]
        for one, other in ((held, shown), (shown, held))
    )
    return (
        f"{follower.session}: the client does not show what the server holds: it lacks {lacks}, has besides {has}, "
        f"and is at {follower.cursor}"
    )


_DOWN = "brought its process down"


def faults_of(follower: Follower, plan: Sequence[Step], report: Report) -> list[str]:
    """Check a session's events: each durable event once, one end for each start, each planned call once."""
    who = follower.session
    wanted = Counter(name for step in plan for name, _ in step)
    counts = {
        "message_routed": 1,
        "task_start": 1,
        "task_end": 1,
        "message": 1,
        "tool_call": wanted.total(),
        "tool_result": wanted.total(),
        "approval_request": wanted[ALLOWED],
        "approval": wanted[ALLOWED],
    }
    if report.failovers and (lost := wanted[ALLOWED] - len(follower.seen("approval"))) > 0:
        report.undecided += lost
        counts["approval"] -= lost
    faults = [
        f"{who}: {len(follower.seen(kind))} {kind}, expected {count}"
        for kind, count in counts.items()
        if len(follower.seen(kind)) != count
    ]
    faults += seen_twice(follower)
    asked = Counter(e["tool"] for e in follower.seen("tool_call"))
    if asked != wanted:
        faults.append(f"{who}: asked for {dict(asked)}, planned {dict(wanted)}")
    faults += [
        f"{who}: ended {e['status']} {e['reason']}" for e in follower.seen("task_end") if e["status"] != "completed"
    ]
    deadly = {args["tag"] for step in plan for _, args in step if "die" in args}
    return faults + follower.faults + failed_calls(follower, deadly, report)


def seen_twice(follower: Follower) -> list[str]:
    """Return the events that a client got more than once."""
    ids = Counter(e["event_id"] for e in follower.events if "event_id" in e)
    return [f"{follower.session}: event {i} came {n} times" for i, n in ids.items() if n > 1]


def failed_calls(follower: Follower, deadly: set[str], report: Report, *, moved: bool = False) -> list[str]:
    """Check failed calls: only a call that kills its process, or an unsafe call whose worker died, may fail.

    ``moved``: calls of a message that was moved away may be given up.
    """
    faults = []
    tags = {e["tool_call_id"]: e["args"].get("tag") for e in follower.seen("tool_call")}
    for result in follower.seen("tool_result"):
        report.calls += 1
        error = result.get("error") or ""
        if "outcome unknown" in error:
            report.unknown += 1
        elif _DOWN in error and tags.get(result["tool_call_id"]) in deadly:
            report.brought_down += 1
        elif moved and "was moved" in error:
            report.given_up += 1
        elif error:
            faults.append(f"{follower.session}: {result['tool']} failed: {error}")
    return faults


def ledger_faults(ledger: Ledger, unsafe: set[str], troubles: Troubles, report: Report) -> list[str]:
    """Check that no unsafe call started twice, unless a new primary lacked its start."""
    faults = []
    for call, starts in ledger.starts().items():
        report.reruns += len(starts) - 1
        for first, second in pairwise(starts):
            if call in unsafe and troubles.lost_between(first, second):
                report.unknown_starts += 1
            elif call in unsafe:
                faults.append(f"unsafe call {call} started {len(starts)} times")
    return faults
