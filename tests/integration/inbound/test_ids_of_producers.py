"""Producers may give their entries ids of their own; one that is no time stops nobody."""

import json
from collections.abc import Callable
from typing import Any

from pentad.contracts.streams import INBOUND, INBOUND_DEAD
from pentad.shared.keys import SessionKeys, session_index
from pentad.shared.store.store import Store
from tests.integration.inbound.test_ingress import start
from tests.support.waiting import wait_until

__all__ = ["start"]

FAR = "999999999999999999-1"


async def test_an_unreadable_entry_with_an_id_that_is_no_time_is_set_aside(
    store: Store, start: Callable[..., Any]
) -> None:
    start()
    await store.call("XADD", INBOUND.key(), FAR, "data", '{"content":"","session_id":"s1"}')
    await wait_until("the dead letter", lambda: store.call("XLEN", INBOUND_DEAD.key()))
    await store.call("XADD", INBOUND.key(), "*", "data", '{"content":"hi","session_id":"s1"}')
    await wait_until("the next message", lambda: store.call("ZCARD", SessionKeys(0, "default", "s1").messages))
    (told,) = await store.call("XRANGE", SessionKeys(0, "default", "s1").events, "-", "+")
    assert json.loads(told[1][1])["code"] == "bad_message"


async def test_an_id_that_is_no_time_does_not_make_older_sessions_vanish(
    store: Store, start: Callable[..., Any]
) -> None:
    start()
    await store.call("XADD", INBOUND.key(), "*", "data", '{"content":"hi","session_id":"s1"}')
    await store.call("XADD", INBOUND.key(), FAR, "data", '{"content":"hi","session_id":"s2"}')
    await wait_until("the second session", lambda: store.call("EXISTS", SessionKeys(0, "default", "s2").messages))
    assert await store.call("ZRANGE", session_index(0, "default"), 0, -1) == [b"s1", b"s2"]
