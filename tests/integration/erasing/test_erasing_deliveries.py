"""What waits for webhooks goes with its task, session or user, and does not come back; what others have stays."""

from collections.abc import Sequence

import pytest

from pentad.contracts.events import ErrorEvent
from pentad.contracts.webhooks import Webhook
from pentad.services.gateway.domain.webhooks import AskedPush
from pentad.services.gateway.edge.problems import ProblemError
from pentad.services.gateway.webhooks.event_collector import EventCollector
from pentad.services.gateway.webhooks.followed import RegisteredWebhooks
from pentad.services.gateway.webhooks.push_configs import PushConfigs
from pentad.services.gateway.webhooks.webhook_secrets import WebhookSecrets
from pentad.shared.keys import (
    CALLBACK_TTL_S,
    SessionKeys,
    TaskKeys,
    callback,
    callbacks,
    dedup,
    waiting_webhooks,
    webhook_due,
    webhook_lane,
)
from pentad.shared.registries.registrations import REGISTERED_WEBHOOKS
from pentad.shared.settings import Settings
from tests.integration.erasing.erasable import Erasable
from tests.integration.handlers.flow import SESSION

OTHER = SessionKeys(0, "default", "s2")
KINDS = pytest.mark.parametrize("kind", ["task", "session", "user"])


class Hooks:
    """Webhooks of all sessions and of one, and who collects for them; nobody sends."""

    def __init__(self, world: Erasable) -> None:
        self.world, self.store = world, world.store
        self.registered = RegisteredWebhooks(world.store)
        self.collector = EventCollector(world.store, 0, self.registered, 1, 86_400)

    async def add(self, name: str, session: str | None = None) -> None:
        created = await self.store.clock() - 1
        made = Webhook(
            id=name, tenant_id="default", url="https://h/", events=("*",), session_id=session, created_ms=created
        )
        read = await REGISTERED_WEBHOOKS.read(self.store)
        await REGISTERED_WEBHOOKS.write(self.store, read, name, made)
        self.registered._use((await REGISTERED_WEBHOOKS.read(self.store)).entries)

    async def call_back(self, keys: SessionKeys, message: str) -> None:
        name = keys.callback_id(message)
        made = Webhook(
            id=name,
            tenant_id="default",
            url="https://h/",
            events=("task_end",),
            session_id=keys.session,
            message_id=message,
            created_ms=await self.store.clock() - 1,
        )
        names = [callback(0, name), callbacks(0), dedup(0, keys.tenant, keys.session, "none")]
        await self.store.run("callback_add", names, [name, made.to_json(), CALLBACK_TTL_S, 100, keys.tenant])

    async def collect(self) -> None:
        while await self.collector.collect() or self.collector._heard is None:
            pass
        await self.collector.collect()

    async def waiting(self) -> Sequence[str]:
        """Return what waits: the webhook and the lane of each."""
        found = []
        for webhook in await self.store.call("ZRANGE", waiting_webhooks(0), 0, -1):
            for lane in await self.store.call("ZRANGE", webhook_due(0, webhook.decode()), 0, -1):
                assert await self.store.call("LLEN", webhook_lane(0, webhook.decode(), lane.decode()))
                found.append(f"{webhook.decode()} {lane.decode()}")
        return sorted(found)


def about(task: TaskKeys, session: SessionKeys = SESSION, hook: str = "all") -> str:
    return f"{hook} {session.actor}/{task.task}"


@KINDS
async def test_what_waits_is_erased_and_what_others_have_stays(world: Erasable, kind: str) -> None:
    hooks = Hooks(world)
    await hooks.add("all")
    await hooks.add("one", "s1")
    await hooks.call_back(SESSION, "m-zebra")
    task = await world.tell("my zebra is called Ada", user_id="ada", message_id="m-zebra")
    other = await world.tell("something else", OTHER, user_id="bob")
    await hooks.collect()
    waiting = await hooks.waiting()
    assert {about(task), about(task, hook="one"), about(other, OTHER)} <= set(waiting)
    assert any(each.startswith(SESSION.callback_id("m-zebra")) for each in waiting)
    assert await world.traces("zebra") != []
    await world.ask(kind, task)
    await world.erase()
    left = await hooks.waiting()
    assert about(other, OTHER) in left
    assert [each for each in left if task.task in each] == []
    if kind == "session":
        assert [each for each in left if SESSION.actor + "/" in each] == []
        assert [each.id for each in (await REGISTERED_WEBHOOKS.read(world.store)).entries] == ["all"]
    assert await world.traces("zebra") == []
    assert not await world.store.call("EXISTS", callback(0, SESSION.callback_id("m-zebra")))
    await world.erase()  # delivered again
    assert about(other, OTHER) in await hooks.waiting()


@KINDS
async def test_where_updates_of_a_task_are_sent_is_erased_with_it(world: Erasable, kind: str) -> None:
    hooks, store = Hooks(world), world.store
    pushes = PushConfigs(store, WebhookSecrets(Settings()), ())
    task = await world.tell("my zebra is called Ada", user_id="ada")
    other = await world.tell("something else", OTHER, user_id="bob")
    for session, keys in ((SESSION, task), (OTHER, other)):
        await pushes.add(session, keys.task, AskedPush("c1", "https://zebra.example/", None, {}, "http://h"), 1)
    await hooks.collect()
    assert [each.endswith(task.task) for each in await hooks.waiting()].count(True) == 1
    await world.ask(kind, task)
    await world.erase()
    assert [task.task in each for each in await hooks.waiting()] == [False]
    assert await store.call("EXISTS", task.push_configs, other.push_configs) == 1
    assert await store.call("ZCARD", callbacks(0)) == 1
    with pytest.raises(ProblemError, match="archived"):
        await pushes.add(SESSION, task.task, AskedPush("c1", "https://zebra.example/", None, {}, "http://h"), 1)


@KINDS
async def test_who_collects_late_brings_nothing_back(world: Erasable, kind: str) -> None:
    """It has read the events before the erasure, and puts them on their way behind it."""
    hooks = Hooks(world)
    await hooks.add("all")
    task = await world.tell("my zebra is called Ada", user_id="ada")
    entries = await world.store.call("XRANGE", SESSION.events, "-", "+")
    await world.ask(kind, task)
    await world.erase()
    items: list[str | bytes] = []
    for entry, fields in entries:
        items += ["1", f"{SESSION.actor}/{task.task}", task.task, entry, fields[1]]
    names = [waiting_webhooks(0), SESSION.webhook_cursors, SESSION.erased]
    head = ["60", "default", "100", "1000000", "1", "all", "", entries[-1][0]]
    assert await world.store.run("webhook_collect", names, [*head, *items]) == [1]
    assert await hooks.waiting() == []


async def test_what_is_told_behind_the_erasure_is_sent(world: Erasable) -> None:
    hooks = Hooks(world)
    await hooks.add("all")
    task = await world.tell("my zebra is called Ada", user_id="ada")
    await hooks.collect()
    await world.ask("session", task)
    later = await world.tell("a new beginning", user_id="ada")
    await hooks.collect()
    await world.erase()
    waiting = await hooks.waiting()
    assert about(later) in waiting
    assert about(task) not in waiting
    assert ErrorEvent.type_name() not in str(
        await world.store.call("LRANGE", webhook_lane(0, "all", f"{SESSION.actor}/"), 0, -1)
    )
