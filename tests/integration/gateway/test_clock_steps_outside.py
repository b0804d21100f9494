"""Webhooks and schedules go on at once when the clock of Redis has stepped back by ten minutes."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from pentad.shared.keys import SCHEDULES_TURN, webhook_lease
from pentad.shared.store.store import Store
from tests.integration.gateway.speaker import Speaker
from tests.integration.gateway.test_schedules import added, runs
from tests.integration.gateway.test_webhooks import asking, register
from tests.support.outside.webhook_receiver import BROKEN, OK, Receiver, webhook_receiver
from tests.support.processes import clocks
from tests.support.redis.redis_server import RedisServer
from tests.support.waiting import wait_until

Step = Callable[[int], None]
MINUTES = 60
SOMEBODY_MS = 2_000
pytestmark = pytest.mark.skipif(clocks.missing() is not None, reason=str(clocks.missing()))


@pytest.fixture
async def stepped(tmp_path: Path) -> AsyncIterator[tuple[RedisServer, Step]]:
    """A Redis, and what has its clock step by so many seconds."""
    made, server = clocks.Clocks(tmp_path / "clocks"), RedisServer()
    server.clock = made.environment("redis")
    async with server:
        yield server, lambda seconds: made.step(["redis"], seconds)


@pytest.fixture
async def there(stepped: tuple[RedisServer, Step]) -> AsyncIterator[Store]:
    store = Store(stepped[0].url)
    yield store
    await store.close()


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with webhook_receiver() as made:
        yield made


def steps_of(receiver: Receiver) -> list[int]:
    return [event["step"] for event in receiver.events() if event["type"] == "message"]


async def waiting(http: httpx2.AsyncClient) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = (await http.get("/v1/webhooks")).json()["items"]
    return [each for each in items if each["error"]]


@pytest.mark.parametrize("also_dies", [False, True])
async def test_an_event_that_waits_is_sent_though_the_clock_steps_back(
    stepped: tuple[RedisServer, Step], there: Store, receiver: Receiver, also_dies: bool
) -> None:
    """It was to be tried again two seconds later, of a time that is ten minutes ahead now. The gateway may die, too."""
    server, step = stepped
    speaker = Speaker(there)
    receiver.answer("hook", BROKEN)
    async with asking(server.url, pentad_web_allow=receiver.place) as http:
        await register(http, receiver.url())
        await speaker.session()
        for number in range(2):
            await speaker.say("message", step=number, attempt=1, content=str(number))
        await wait_until("a failure", lambda: waiting(http))
        if not also_dies:
            receiver.answer("hook", OK)
            step(-10 * MINUTES)
            await wait_until("both", lambda: steps_of(receiver)[-2:] == [0, 1])
    if also_dies:
        step(-10 * MINUTES)
        receiver.answer("hook", OK)
        async with asking(server.url, pentad_web_allow=receiver.place):
            await wait_until("both", lambda: steps_of(receiver)[-2:] == [0, 1])


@pytest.mark.parametrize("looks", [True, False])
async def test_what_a_session_that_begins_behind_the_registration_says_comes_wherever_the_clock_is(
    stepped: tuple[RedisServer, Step], there: Store, receiver: Receiver, looks: bool
) -> None:
    """The clock steps back behind the registration, and forward again; a gateway looks meanwhile, or none does."""
    server, step = stepped
    async with asking(server.url, pentad_web_allow=receiver.place) as http:
        await register(http, receiver.url())
        if looks:
            step(-10 * MINUTES)
            await Speaker(there).session()
            await Speaker(there).say("message", step=1, attempt=1, content="x")
            await wait_until("the first event", lambda: steps_of(receiver) == [1])
    if not looks:
        step(-10 * MINUTES)
        await Speaker(there).session()
        await Speaker(there).say("message", step=1, attempt=1, content="x")
    later = Speaker(there, "s2")
    await later.session()
    await later.say("message", step=2, attempt=1, content="x")
    step(10 * MINUTES)
    async with asking(server.url, pentad_web_allow=receiver.place):
        await later.say("message", step=3, attempt=1, content="x")
        await wait_until("all of them", lambda: sorted(steps_of(receiver)) == [1, 2, 3])


async def test_what_was_said_before_the_registration_stays_behind_it_though_the_clock_had_stepped_back(
    stepped: tuple[RedisServer, Step], there: Store, receiver: Receiver
) -> None:
    """The registration's clock is ten minutes behind that of the events."""
    server, step = stepped
    speaker = Speaker(there)
    await speaker.session()
    await speaker.say("message", step=1, attempt=1, content="before")
    step(-10 * MINUTES)
    async with asking(server.url, pentad_web_allow=receiver.place) as http:
        await register(http, receiver.url())
        await speaker.say("message", step=2, attempt=1, content="behind it")
        other = Speaker(there, "s2")
        await other.session()
        await other.say("message", step=3, attempt=1, content="of a new session")
        await wait_until("both", lambda: sorted(steps_of(receiver)) == [2, 3])


async def test_the_lease_of_a_dead_gateway_ends_though_the_clock_steps_back(
    stepped: tuple[RedisServer, Step], there: Store, receiver: Receiver
) -> None:
    server, step = stepped
    await there.call("SET", webhook_lease(0), "a gateway that is dead", "PX", SOMEBODY_MS)
    await there.call("SET", SCHEDULES_TURN, "a gateway that is dead", "PX", SOMEBODY_MS)
    step(-10 * MINUTES)
    async with asking(server.url, pentad_web_allow=receiver.place, pentad_schedule_s=1) as http:
        await register(http, receiver.url())
        name = await added(http, every=1)
        await Speaker(there).session()
        await Speaker(there).say("message", step=7, attempt=1, content="x")
        await wait_until("the event", lambda: steps_of(receiver) == [7])
        await wait_until("a run", lambda: runs(http, name))
