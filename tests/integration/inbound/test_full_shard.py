"""A shard that takes no more holds up nobody else, and its own messages keep their order."""

from collections.abc import Callable
from typing import Any

import pytest

from pentad.contracts.ids import shard_of
from pentad.contracts.streams import INBOUND
from pentad.shared.actors.mail import read_session_mail
from pentad.shared.inbound import ingress as inbound
from pentad.shared.keys import SessionKeys, load
from pentad.shared.settings import Settings
from pentad.shared.store.store import Store
from tests.integration.inbound.test_ingress import start
from tests.support.waiting import wait_until

__all__ = ["start"]

LIMIT, SENT = 5, 300
SHARDS = Settings(pentad_lease_s=0.5, pentad_shards=2)


def session(shard: int) -> SessionKeys:
    name = next(f"s{n}" for n in range(100) if shard_of("default", f"s{n}", 2) == shard)
    return SessionKeys(shard, "default", name)


async def send(store: Store, to: SessionKeys, content: str) -> None:
    text = f'{{"content":"{content}","session_id":"{to.session}"}}'
    await store.call("XADD", INBOUND.key(), "*", "data", text)


async def contents(store: Store, of: SessionKeys) -> list[str]:
    mail = await store.call("ZRANGE", of.messages, 0, -1)
    return [read_session_mail(m.split(b" ", 2)[2])[1].content for m in mail]


async def test_a_full_shard_holds_up_no_other(
    store: Store, start: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbound, "WAITING_LIMIT", LIMIT)
    full, other = session(0), session(1)
    for n in range(SENT):
        await send(store, full, str(n))
    await send(store, other, "hello")
    start(SHARDS)
    await wait_until("the other shard's message", lambda: contents(store, other))
    assert await contents(store, full) == [str(n) for n in range(LIMIT)]
    await send(store, full, str(SENT))
    monkeypatch.setattr(inbound, "WAITING_LIMIT", 10 * SENT)
    await store.call("HSET", load(0), "mail", 0)
    await wait_until("all of the full one's", lambda: _all_there(store, full))
    assert await contents(store, full) == [str(n) for n in range(SENT + 1)]


async def _all_there(store: Store, full: SessionKeys) -> bool:
    return bool(await store.call("ZCARD", full.messages) == SENT + 1)
