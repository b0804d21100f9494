"""Sends the events that wait for the webhooks of one shard: those of a lane in order, lanes beside each other.

An event leaves its lane when its server has taken it, in a script that compares. Whoever is killed between leaves it
there, and the next one sends it again under the same id.
"""

import asyncio
import logging
import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from time import time
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from pydantic_core import from_json

from pentad.contracts.dead_letters import DeadLetter
from pentad.contracts.ids import decoded_id
from pentad.contracts.streams import DEAD
from pentad.contracts.webhooks import Webhook, WebhookDelivery
from pentad.services.gateway.domain.webhooks import (
    Outcome,
    WaitingEvent,
    delivery_body,
    delivery_id,
    next_attempt,
    read_waiting,
)
from pentad.services.gateway.edge.problems import ProblemError
from pentad.services.gateway.webhooks.webhook_registry import drop_webhook, is_callback, push_place, read_kept
from pentad.services.gateway.webhooks.webhook_secrets import SecretClosedError, WebhookSecrets
from pentad.shared import metrics
from pentad.shared.clipping import plain
from pentad.shared.errors import DamagedError, OutageError
from pentad.shared.event_loop import cancel_all
from pentad.shared.immutable import immutable
from pentad.shared.keys import CALLBACK_TTL_S, callback, waiting_webhooks, webhook_due, webhook_lane, webhook_state
from pentad.shared.outbound.address_guard import OutboundError
from pentad.shared.registries.registrations import REGISTERED_WEBHOOKS
from pentad.shared.store.store import Argument, Store
from pentad.shared.telemetry import ThrottledLog
from pentad.shared.work.dead_letters import chain_of, make_letter

if TYPE_CHECKING:
    from pentad.shared.outbound.outside_client import OutsideClient

log = logging.getLogger(__name__)
_say = ThrottledLog(log)

TIMEOUT_S = 15.0
"""Seconds in which a server must answer."""
MAX_REQUESTS, MAX_PER_TENANT, MAX_PER_RECEIVER = 256, 64, 8
"""Requests that are under way at once: in all, of one tenant, and to one receiver."""
_EVENTS_IN_A_ROW = 32
"""Events of one lane that are sent one after the other before others have their turn."""
_WEBHOOKS_PER_LOOK = 200
_MAX_CLOCK_LEAD_MS = 1_000
"""Milliseconds. A lane that got its time further in the future got it before the clock of Redis stepped back."""
_POSTPONEMENT_MS = 500
"""Milliseconds for which a webhook is passed over whose server has no place free."""
_MAX_WHY = 300
"""Characters of a failure's reason that are kept."""
_MAX_FAILING = 10_000
"""Receivers that are remembered because their last answer was a failure."""
Receiver = tuple[str, str]
"""A tenant, and one of its webhooks or the server of its callbacks: these are too many to count each apart."""


class Places:
    """Counts requests under way, so that a receiver that hangs takes no place from another, nor a tenant from another.

    A receiver whose last answer was a failure has one place, so that few requests wait for what may never answer.
    """

    def __init__(self) -> None:
        self._of_receiver, self._of_tenant = Counter[Receiver](), Counter[str]()
        self._failing: set[Receiver] = set()
        self._taken = 0

    def free(self, receiver: Receiver) -> int:
        """Return how many requests may begin."""
        most = 1 if receiver in self._failing else MAX_PER_RECEIVER
        left = (
            most - self._of_receiver[receiver],
            MAX_PER_TENANT - self._of_tenant[receiver[0]],
            MAX_REQUESTS - self._taken,
        )
        return max(0, min(left))

    def occupy(self, receiver: Receiver) -> None:
        """Count a request that begins."""
        self._taken += 1
        self._of_receiver[receiver] += 1
        self._of_tenant[receiver[0]] += 1

    def leave(self, receiver: Receiver, failed: bool | None) -> None:
        """Count a request that has ended. ``failed``: the outcome of the request; None: there was none."""
        self._taken -= 1
        self._of_receiver[receiver] -= 1
        self._of_tenant[receiver[0]] -= 1
        if not self._of_receiver[receiver]:
            del self._of_receiver[receiver]
        if not self._of_tenant[receiver[0]]:
            del self._of_tenant[receiver[0]]
        if failed:
            if len(self._failing) >= _MAX_FAILING:
                self._failing.clear()
            self._failing.add(receiver)
        elif failed is False:
            self._failing.discard(receiver)


class UpdateForm(Protocol):
    """The form of A2A, which tells an event as updates of its task."""

    async def bodies(self, webhook: Webhook, event: Mapping[str, Any]) -> Sequence[bytes]:
        """Return the bodies that an event is sent as, in order. Raises ``OutageError``, and ``ProblemError``."""


@immutable
class Sending:
    """The parts of the gateway that events are sent with."""

    outside: Callable[[], "OutsideClient"]
    secrets: WebhookSecrets
    updates: UpdateForm


class Deliveries:
    """Sends the events of one shard. ``places`` are those of the process."""

    def __init__(self, store: Store, shard: int, sending: Sending, places: Places) -> None:
        self._store, self._shard, self._sending, self._places = store, shard, sending, places
        self._under_way: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._latest_ms = math.inf
        """The latest time that the clock of Redis has shown; infinite before the first look."""
        self.news = asyncio.Event()
        """Set when a request has ended, so that others may begin."""

    def reset(self) -> None:
        """Begin anew: the clock may have stepped while another gateway worked, or Redis has another clock."""
        self._latest_ms = math.inf

    async def begin_due(self) -> bool:
        """Begin to send what is due; returns whether there may be more. Raises ``OutageError``."""
        now = await self._store.clock()
        if now < self._latest_ms - _MAX_CLOCK_LEAD_MS:
            await self._restart_those_ahead()
        self._latest_ms = now
        command = ("ZRANGEBYSCORE", waiting_webhooks(self._shard), "-inf", now, "LIMIT", 0, _WEBHOOKS_PER_LOOK)
        found = [name.decode() for name in await self._store.call(*command)]
        later: list[Argument] = []
        begun = 0
        for name in found:
            started = await self._begin(name, now)
            begun += started
            if not started:
                later += (now + _POSTPONEMENT_MS, name)
        if later:
            await self._store.call("ZADD", waiting_webhooks(self._shard), "XX", "GT", *later)
        return len(found) == _WEBHOOKS_PER_LOOK

    async def _restart_those_ahead(self) -> None:
        """Have due now what got its time before the clock stepped back, or it would wait for as long as that step."""
        names, restarted = await self._store.call("ZRANGE", waiting_webhooks(self._shard), 0, -1), 0
        for first in range(0, len(names), _WEBHOOKS_PER_LOOK):
            args: list[Argument] = [_MAX_CLOCK_LEAD_MS, *names[first : first + _WEBHOOKS_PER_LOOK]]
            restarted += await self._store.run("webhook_restart", [waiting_webhooks(self._shard)], args)
        if restarted:
            log.warning("the clock of Redis has stepped back: what waits for %d webhooks is due now", restarted)

    async def _begin(self, name: str, now: int) -> int:
        """Begin to send the first events of a webhook's lanes, as many as have a place; returns how many."""
        try:
            webhook = await read_kept(self._store, self._shard, name)
        except DamagedError as error:
            _say.error(name, "what waits for a webhook is left as it is: %s", error)
            return 0
        if webhook is None:
            dropped = await self._store.call("ZCARD", webhook_due(self._shard, name))
            await drop_webhook(self._store, self._shard, name)
            log.info("%d lanes of a webhook that was removed are dropped", dropped)
            return 1
        receiver = (webhook.tenant_id, _origin(webhook.url) if is_callback(name) else name)
        free = self._places.free(receiver)
        busy = sum(1 for known, _ in self._under_way if known == name)
        if not free:
            return 0
        command = ("ZRANGEBYSCORE", webhook_due(self._shard, name), "-inf", now, "LIMIT", 0, free + busy)
        lanes = [lane.decode() for lane in await self._store.call(*command)]
        begun = 0
        for lane in lanes:
            if (name, lane) not in self._under_way and begun < free:
                self._places.occupy(receiver)
                task = asyncio.create_task(self._serve(webhook, lane, receiver))
                self._under_way[name, lane] = task
                begun += 1
        return begun

    async def _serve(self, webhook: Webhook, lane: str, receiver: Receiver) -> None:
        """Send the events of a lane, one after the other, until one fails or there is none."""
        failed: bool | None = None
        try:
            for _ in range(_EVENTS_IN_A_ROW):
                outcome = await self._send_first(webhook.id, lane)
                if outcome is None:
                    break
                failed = not outcome.delivered
                if failed:
                    break
        except OutageError as error:
            _say.warning("waits", "webhooks wait for Redis: %s", error)
        except Exception:
            log.exception("an event could not be sent to webhook %s", webhook.id)
            failed = True
        finally:
            self._places.leave(receiver, failed)
            del self._under_way[webhook.id, lane]
            self.news.set()

    async def _send_first(self, name: str, lane: str) -> Outcome | None:
        """Send the first event of a lane, and note what has come of it; None where there is none."""
        commands = (
            ("LINDEX", webhook_lane(self._shard, name, lane), 0),
            ("HGET", webhook_state(self._shard, name), f"try:{lane}"),
        )
        item, tried = await self._store.calls(commands)
        webhook = await read_kept(self._store, self._shard, name)  # it may have been removed, or have another secret
        if item is None or webhook is None:
            return None
        waiting, failures = read_waiting(item), int(tried or 0)
        outcome = Outcome(410, webhook.gone) if webhook.gone is not None else await self._post(webhook, lane, waiting)
        if outcome.delivered:
            await self._done(name, lane, item, "sent")
            metrics.webhook_attempts.labels("delivered").inc()
            return outcome
        if outcome.gone and webhook.gone is None:
            await self._disable(webhook, outcome.why)
        age_ms = await self._store.now_ms() - waiting.since_ms
        again = next_attempt(outcome, failures, age_ms, random.random())
        metrics.webhook_attempts.labels("failed" if again else "dead").inc()
        if again is not None:
            await self._done(name, lane, item, "retry", again.after_ms, outcome.why)
        else:
            letter = await self._letter(webhook, lane, waiting, outcome.why, failures + 1)
            if await self._done(name, lane, item, "dead", letter.to_json()):
                metrics.dead.labels("webhooks", WebhookDelivery.__name__).inc()
                log.error("an event was not delivered to webhook %s, and is set aside: %s", name, outcome.why)
        return outcome

    async def _post(self, webhook: Webhook, lane: str, waiting: WaitingEvent) -> Outcome:
        """Send an event, and return what its server says."""
        event = from_json(waiting.event)
        name = delivery_id(webhook.id, lane, waiting.entry, str(event.get("event_id")))
        try:
            if webhook.push is None:
                return await self._request(webhook, name, delivery_body(waiting.entry, event))
            outcome = Outcome(204, "it was told nothing: there is no update in this event")
            for number, body in enumerate(await self._sending.updates.bodies(webhook, event)):
                outcome = await self._request(webhook, f"{name}.{number}" if number else name, body)
                if not outcome.delivered:
                    break
            return outcome
        except (OutboundError, SecretClosedError, ProblemError) as error:
            return Outcome(0, plain(str(error), _MAX_WHY))

    async def _request(self, webhook: Webhook, name: str, body: bytes) -> Outcome:
        from pentad.shared.outbound.outside_client import OutsideRequest

        headers = self._sending.secrets.headers(webhook, name, int(time()), body)
        request = OutsideRequest("POST", webhook.url, headers, content=body, timeout_s=TIMEOUT_S)
        answer = await self._sending.outside().send(request, wants=lambda _: False)
        return Outcome(answer.status, _said(answer.status), answer.retry_after)

    async def _done(self, name: str, lane: str, item: bytes, outcome: str, *more: Argument) -> bool:
        keys = [waiting_webhooks(self._shard), DEAD.key(self._shard)]
        return bool(await self._store.run("webhook_done", keys, [name, lane, item, outcome, *more]))

    async def _disable(self, webhook: Webhook, why: str) -> None:
        """Send nothing more to a webhook whose server is gone. Registered again, it gets events again."""
        gone = webhook.model_copy(update={"gone": why})
        if (pushed := push_place(self._shard, webhook.id)) is not None:
            configs, name = pushed
            await self._store.run("push_replace", [configs], [name, webhook.to_json(), gone.to_json()])
            return
        if is_callback(webhook.id):
            key = callback(self._shard, webhook.id)
            await self._store.call("SET", key, gone.to_json(), "XX", "EX", CALLBACK_TTL_S)
            return
        read = await REGISTERED_WEBHOOKS.read(self._store)
        if webhook in read.entries:  # one that was registered anew meanwhile stays
            await REGISTERED_WEBHOOKS.write(self._store, read, webhook.id, gone)

    async def _letter(self, webhook: Webhook, lane: str, waiting: WaitingEvent, why: str, attempts: int) -> DeadLetter:
        event: Mapping[str, Any] = from_json(waiting.event)
        tenant, session, task = lane.split("/")
        delivery = WebhookDelivery(webhook_id=webhook.id, entry=waiting.entry, event=dict(event))
        ids = {name: str(event.get(name) or "") for name in ("correlation_id", "event_id")}
        return make_letter(
            "entry",
            waiting_webhooks(self._shard),
            waiting.entry,
            [("data", delivery.to_json())],
            reason=f"{_origin(webhook.url)}: {why}",
            attempts=attempts,
            at=await self._store.now(),
            whom={"tenant_id": tenant, "session_id": decoded_id(session), "task_id": task},
            chain=chain_of(message=ids["correlation_id"], task=task, cause=ids["event_id"]),
        )

    async def stop(self) -> None:
        """End the requests under way: who comes next makes them again."""
        await cancel_all(list(self._under_way.values()))


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _said(status: int) -> str:
    words = {410: "it answered 410: it is gone, and nothing is sent there any more"}
    if 300 <= status < 400:
        return f"it answered {status}: redirects are not followed, so register the address that it redirects to"
    return words.get(status, f"it answered {status}; an answer from 200 to 299 says that the event was taken")
