"""Two gateways that take events for a webhook at once leave nothing out and double nothing."""

import pytest

from pentad.contracts.commands import InboundMessage
from pentad.contracts.webhooks import Webhook
from pentad.services.gateway.domain.webhooks import AskedPush
from pentad.services.gateway.webhooks.event_collector import EventCollector
from pentad.services.gateway.webhooks.followed import RegisteredWebhooks
from pentad.services.gateway.webhooks.push_configs import PushConfigs
from pentad.services.gateway.webhooks.webhook_registry import read_kept
from pentad.services.gateway.webhooks.webhook_secrets import WebhookSecrets
from pentad.shared.inbound.callbacks import MessageCallbacks
from pentad.shared.keys import bell, callbacks, webhook_lane
from pentad.shared.registries.registrations import REGISTERED_WEBHOOKS
from pentad.shared.settings import Settings
from pentad.shared.store.store import Store
from tests.integration.gateway.speaker import TASK, Speaker
from tests.support.waiting import wait_until

AHEAD_MS = 600_000
KINDS = (b"message_routed", b"message", b"message")


class Collecting:
    """A gateway that takes events and sends none."""

    def __init__(self, store: Store) -> None:
        self.registered = RegisteredWebhooks(store)
        self.collector = EventCollector(store, 0, self.registered, 1, 60)

    async def all(self) -> None:
        """Take all that there is."""
        while await self.collector.collect():
            pass


@pytest.fixture
async def both(store: Store) -> list[Collecting]:
    """Two gateways that know of one webhook, and have looked at all sessions."""
    now = await store.clock()
    hook = Webhook(id="w", tenant_id="default", url="https://h/", events=("message",), created_ms=now - 1)
    await REGISTERED_WEBHOOKS.write(store, await REGISTERED_WEBHOOKS.read(store), "w", hook)
    made = [Collecting(store), Collecting(store)]
    await Speaker(store).session()
    await Speaker(store).say("message", step=0, attempt=1, content="x")
    for each in made:
        each.registered._use((await REGISTERED_WEBHOOKS.read(store)).entries)
        await each.all()
        await each.all()
    return made


async def steps(store: Store, name: str = "w") -> list[int]:
    items = await store.call("LRANGE", webhook_lane(0, name, f"default/s1/{TASK}"), 0, -1)
    return [int(item.partition(b'"step":')[2].partition(b",")[0]) for item in items]


async def test_one_that_comes_back_goes_on_where_the_other_has_come_to(
    store: Store, speaker: Speaker, both: list[Collecting]
) -> None:
    first, second = both
    await speaker.say("message", step=1, attempt=1, content="x")
    await first.all()
    for step in (2, 3):
        await speaker.say("message", step=step, attempt=1, content="x")
    await second.all()  # it remembers an earlier cursor
    assert await steps(store) == [0, 1, 2, 3]
    await speaker.say("message", step=4, attempt=1, content="x")
    await first.all()
    await second.all()
    assert await steps(store) == [0, 1, 2, 3, 4]


async def test_a_turn_that_is_read_anew_is_told_no_gap_and_nothing_twice(store: Store, speaker: Speaker) -> None:
    """A gateway that takes over reads the turn of a callback from its beginning, to know where it is."""
    name = speaker.keys.callback_id("m1")
    asked = InboundMessage(content="hi", session_id="s1", message_id="m1", callback_url="https://h/")
    await MessageCallbacks(store, ()).note(speaker.keys, asked)
    first = Collecting(store)
    await first.all()
    await speaker.routed("m1")
    await speaker.say("message", step=1, attempt=1, content="x")
    await first.all()
    await speaker.say("message", step=2, attempt=1, content="x")
    await Collecting(store).all()
    items = await store.call("LRANGE", webhook_lane(0, name, f"default/s1/{TASK}"), 0, -1)
    assert [b'"type":"%b"' % kind in item for kind, item in zip(KINDS, items, strict=True)] == [True] * 3
    assert not await store.call("EXISTS", webhook_lane(0, name, "default/s1/"))


PUSHED = AskedPush("c1", "https://h/", None, {}, "http://gateway")


async def pushed_steps(store: Store) -> list[int]:
    (name,) = await store.call("ZRANGE", callbacks(0), 0, -1)
    return await steps(store, name.decode())


async def test_a_config_that_is_made_again_begins_anew_and_one_that_is_replaced_goes_on(
    store: Store, speaker: Speaker
) -> None:
    """Each time another gateway collects, which knows no more than what is kept."""
    pushes = PushConfigs(store, WebhookSecrets(Settings()), ())
    await speaker.task()
    await pushes.add(speaker.keys, TASK, PUSHED, await store.clock())
    await speaker.say("message", step=1, attempt=1, content="x")
    await Collecting(store).all()
    await speaker.say("message", step=2, attempt=1, content="x")
    await pushes.add(speaker.keys, TASK, PUSHED, await store.clock() + 1)
    await Collecting(store).all()
    assert await pushed_steps(store) == [1, 2]
    await pushes.delete(speaker.keys, TASK, "c1")
    await speaker.say("message", step=3, attempt=1, content="x")
    await pushes.add(speaker.keys, TASK, PUSHED, await store.clock() + 1)
    await wait_until("a later time", lambda: _is_later(store))
    await speaker.say("message", step=4, attempt=1, content="x")
    await Collecting(store).all()
    assert await pushed_steps(store) == [4]


async def _is_later(store: Store) -> bool:
    """Return whether the clock is behind what a config was made with."""
    (name,) = await store.call("ZRANGE", callbacks(0), 0, -1)
    kept = await read_kept(store, 0, name.decode())
    return kept is not None and await store.clock() > kept.created_ms


async def test_a_config_gets_nothing_of_before_it_while_the_clock_is_behind_the_shard(
    store: Store, speaker: Speaker
) -> None:
    """All that is told meanwhile has one time."""
    pushes = PushConfigs(store, WebhookSecrets(Settings()), ())
    await store.call("XADD", bell(0), f"{await store.clock() + AHEAD_MS}-0", "s", "another")
    await speaker.task()
    await speaker.say("message", step=1, attempt=1, content="x")
    await pushes.add(speaker.keys, TASK, PUSHED, await pushes.now(0))
    await speaker.say("message", step=2, attempt=1, content="x")
    await Collecting(store).all()
    assert await pushed_steps(store) == [2]


async def test_a_shard_that_has_not_the_time_of_a_registration_is_set_to_it(store: Store, speaker: Speaker) -> None:
    """It may be a new one, or its primary has lost the last writes, and its clock is behind that of the others."""
    hook = Webhook(id="w", tenant_id="default", url="https://h/", events=("message",), created_ms=0)
    hook = hook.model_copy(update={"created_ms": await store.clock() + AHEAD_MS})
    await REGISTERED_WEBHOOKS.write(store, await REGISTERED_WEBHOOKS.read(store), "w", hook)
    made = Collecting(store)
    made.registered._use((await REGISTERED_WEBHOOKS.read(store)).entries)
    await made.all()
    await made.all()
    await speaker.session()
    await speaker.say("message", step=1, attempt=1, content="x")
    await made.all()
    assert await steps(store) == [1]


async def test_what_is_not_wanted_moves_no_cursor_and_is_passed(
    store: Store, speaker: Speaker, both: list[Collecting]
) -> None:
    first, second = both
    before = await store.call("HGETALL", speaker.keys.webhook_cursors)
    for offset in range(60):
        await speaker.delta("x", offset)
    await first.all()
    assert await store.call("HGETALL", speaker.keys.webhook_cursors) == before
    for offset in range(60, 600):
        await speaker.delta("x", offset, ring=offset == 599)
    await first.all()
    assert await store.call("HGETALL", speaker.keys.webhook_cursors) != before
    await speaker.say("message", step=1, attempt=1, content="x")
    await second.all()
    await first.all()
    assert await steps(store) == [0, 1]
