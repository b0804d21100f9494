"""Back-pressure: what waits is counted until a step has taken it in, of everybody and of each tenant."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from time import monotonic
from typing import Any

import httpx2
import pytest

from pentad.contracts.commands import InboundMessage
from pentad.contracts.streams import INBOUND
from pentad.services.gateway.tasks.message_intake import PARKED_LIMIT, LossWatch, MessageIntake
from pentad.services.gateway.webhooks.webhook_registry import WebhookRegistry
from pentad.services.gateway.webhooks.webhook_secrets import WebhookSecrets
from pentad.shared.inbound.backlog import Backlog
from pentad.shared.inbound.inbox import Inbox
from pentad.shared.keys import SessionKeys, load
from pentad.shared.settings import Settings
from pentad.shared.store.store import Store
from pentad.shared.work.broker import ensure_group
from tests.integration.gateway.conftest import running
from tests.support.waiting import PATIENCE_S, wait_until

LIMIT, SHARE = 10_000, 5_000
Clients = dict[str, httpx2.AsyncClient]


@pytest.fixture
async def tenants(redis_url: str, tmp_path: Any) -> AsyncIterator[Clients]:
    """A client of each of two tenants of one gateway."""
    async with AsyncExitStack() as stack:
        service = await stack.enter_async_context(
            running(redis_url, pentad_api_keys="ka:acme,kb:bolt", pentad_data_dir=tmp_path)
        )
        clients = {
            tenant: httpx2.AsyncClient(
                base_url=service.address,
                trust_env=False,
                timeout=PATIENCE_S,
                headers={"authorization": f"Bearer {key}"},
            )
            for tenant, key in (("acme", "ka"), ("bolt", "kb"))
        }
        for client in clients.values():
            await stack.enter_async_context(client)
        yield clients


async def said(tenants: Clients, tenant: str) -> httpx2.Response:
    return await tenants[tenant].post("/v1/messages", json={"content": "hi", "session_id": "s1"})


async def test_the_flood_of_one_tenant_gives_no_other_a_429(tenants: Clients, store: Store) -> None:
    await store.call("HSET", load(0), "mail", SHARE, "tenant:acme", SHARE)
    refused = await said(tenants, "acme")
    assert (refused.status_code, refused.headers["retry-after"], refused.json()["code"]) == (429, "1", "busy")
    assert "of yours" in refused.json()["detail"]
    assert (await said(tenants, "bolt")).status_code == 202
    await store.call("HSET", load(0), "mail", SHARE - 1, "tenant:acme", SHARE - 1)

    async def accepted() -> bool:
        return (await said(tenants, "acme")).status_code == 202

    await wait_until("room", accepted)


async def test_over_the_limit_of_all_everybody_waits(tenants: Clients, store: Store) -> None:
    await store.call("HSET", load(0), "mail", LIMIT, "tenant:acme", SHARE - 1, "tenant:third", SHARE - 1)
    assert [(await said(tenants, tenant)).status_code for tenant in tenants] == [429, 429]


async def test_what_no_router_has_read_is_counted_for_the_tenants_that_this_gateway_took_it_from(store: Store) -> None:
    """While no router is alive nothing is counted by tenant in Redis; a tenant's flood is seen all the same."""
    inbox = Inbox(store, 100, 100)
    await ensure_group(store, INBOUND.key(), INBOUND.group or "")
    for tenant, count in (("acme", 30), ("bolt", 10)):
        for _ in range(count):
            await inbox.append(InboundMessage(content="hi", session_id="s1", tenant_id=tenant))
    for _ in range(40):  # another gateway's, whose tenants are not known here
        await store.call("XADD", INBOUND.key(), "*", "data", "{}")
    backlog = inbox.backlog
    assert (await backlog.all(0), await backlog.of(0, "acme"), await backlog.of(0, "bolt")) == (80, 60, 20)
    await store.call("XREADGROUP", "GROUP", INBOUND.group or "", "router", "STREAMS", INBOUND.key(), ">")

    async def forgotten() -> bool:
        return (await backlog.all(0), await backlog.of(0, "acme")) == (0, 0)

    await wait_until("what was read to be forgotten", forgotten)
    assert not backlog._appended
    assert not backlog._own


async def test_both_parts_count_together(store: Store) -> None:
    await ensure_group(store, INBOUND.key(), INBOUND.group or "")
    await store.call("XADD", INBOUND.key(), "*", "data", "{}")
    await store.call("HSET", load(0), "mail", 5, "tenant:acme", 2)
    backlog = Backlog(store)
    assert (await backlog.all(0), await backlog.of(0, "acme")) == (6, 2)


def _parked(tenant: str, session: str, number: int) -> list[str | int]:
    counts = (("parked", 2 * SHARE), (f"parked:{tenant}", number), (f"parked:{tenant}/{session}", number))
    return [part for pair in counts for part in pair]


async def test_what_lies_with_a_paused_task_shuts_out_its_session_alone(tenants: Clients, store: Store) -> None:
    await store.call("HSET", load(0), *_parked("acme", "s1", PARKED_LIMIT), "parked:bolt", SHARE - 1)
    refused = await said(tenants, "acme")
    assert (refused.status_code, refused.headers["retry-after"], refused.json()["code"]) == (429, "60", "busy")
    assert f"{PARKED_LIMIT} messages of this session lie with paused tasks" in refused.json()["detail"]
    elsewhere = await tenants["acme"].post("/v1/messages", json={"content": "hi", "session_id": "s2"})
    assert (elsewhere.status_code, (await said(tenants, "bolt")).status_code) == (202, 202)


async def test_what_lies_with_paused_tasks_of_a_tenant_shuts_out_no_other(tenants: Clients, store: Store) -> None:
    await store.call("HSET", load(0), *_parked("acme", "s9", SHARE))
    refused = await said(tenants, "acme")
    assert refused.status_code == 429
    assert f"{SHARE} messages of yours lie with paused tasks" in refused.json()["detail"]
    assert (await said(tenants, "bolt")).status_code == 202


async def test_what_is_parked_costs_no_question_where_it_is_little(store: Store, monkeypatch: Any) -> None:
    await store.call("HSET", load(0), *_parked("acme", "s1", 1), "parked", PARKED_LIMIT - 1)
    asked: list[str] = []
    real = Backlog.parked_of

    async def parked_of(backlog: Backlog, keys: SessionKeys) -> tuple[int, int]:
        asked.append(keys.session)
        return await real(backlog, keys)

    monkeypatch.setattr(Backlog, "parked_of", parked_of)
    inbox = Inbox(store, 100, 100)
    webhooks = WebhookRegistry(store, WebhookSecrets(Settings()), (), 1)
    accepting = MessageIntake(inbox, LossWatch(store, inbox, monotonic), webhooks, 0.5)
    message = InboundMessage(content="hi", session_id="s1", tenant_id="acme", message_id="m1")
    await accepting.accept(message, SessionKeys(0, "acme", "s1"))
    assert asked == []
