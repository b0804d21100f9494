"""Redriving and discarding of dead letters. Each is redriven once, however often that is requested or interrupted.

A redrive has three acts, each safe to repeat: the letter is claimed for a minute, its content is sent under a guard in
the shard, and the letter is removed. They are separate because a letter of the inbound stream and its session have
different hash tags.
"""

from collections.abc import Mapping
from typing import Any

from pydantic_core import to_json

from pentad.contracts.dead_letters import DeadLetter
from pentad.contracts.ids import shard_of
from pentad.contracts.streams import SESSION_WAKE, TASK_WAKE, split_key, work_stream
from pentad.services.gateway.domain.redrive import (
    AppendEntry,
    ContinueTask,
    Redrive,
    SendMessages,
    SendToWebhook,
    UnfitError,
    WakeActor,
    plan_redrive,
)
from pentad.services.gateway.edge.problems import ProblemError, missing
from pentad.services.gateway.operator.dead_letters import LetterName, Letters
from pentad.services.gateway.tasks.queries import Queries
from pentad.services.gateway.webhooks.webhook_registry import read_kept
from pentad.shared import metrics
from pentad.shared.actors.actors import count_wake_ups
from pentad.shared.actors.mail import RedriveMail
from pentad.shared.inbound.callbacks import MessageCallbacks, without_callback
from pentad.shared.keys import (
    DAY_S,
    DEDUP_TTL_S,
    REDRIVEN_TTL_S,
    SessionKeys,
    TaskKeys,
    dedup,
    erased_user,
    load,
    redrive_claim,
    redriven,
    session_index,
    waiting_webhooks,
)
from pentad.shared.kinds import REDRIVE, USER
from pentad.shared.settings import Settings
from pentad.shared.store.store import Argument, Store

_CLAIM_S = 60
"""Seconds for which a redrive claims a letter: after a crash the claim ends then."""


def _being_redriven(name: LetterName) -> ProblemError:
    return ProblemError(409, f"dead letter {name} is being redriven with something else: look again in a minute")


class Redrives:
    """Redrives dead letters. Raises ``ProblemError``, and ``OutageError`` in an outage: try again to continue."""

    def __init__(self, store: Store, letters: Letters, queries: Queries, settings: Settings) -> None:
        self._store, self._letters, self._queries = store, letters, queries
        self._session_ttl_s, self._shards = settings.session_ttl_s, settings.pentad_shards
        self._callbacks = MessageCallbacks(store, settings.pentad_web_allow)

    async def redrive(self, name: LetterName, edit: Mapping[str, Any] | None) -> dict[str, Any]:
        """Send a letter's content again, and return what was sent."""
        letter = await self._letters.read(name)
        if letter is None:
            raise await self._gone(name)
        sent: dict[str, Any] = {"repeated": True}
        if not await self._was_sent(name):
            sent = await self._send_once(name, letter, edit)
        await self._store.run("dead_remove", self._keys(name), [name.entry, "redriven", DAY_S])
        return {"id": str(name)} | sent

    async def _send_once(self, name: LetterName, letter: DeadLetter, edit: Mapping[str, Any] | None) -> dict[str, Any]:
        context, now = await self._letters.context_of(letter), await self._store.clock()
        try:
            plan = plan_redrive(str(name), letter, edit, context, now)
        except UnfitError as error:
            raise ProblemError(409, str(error)) from None
        await self._claim(name, edit)
        try:
            await self._send(name, plan, now)
        except ProblemError:  # nothing was sent: something else may be tried
            await self._store.run("redrive_unclaim", self._keys(name)[1:], [_as_json(edit)])
            raise
        return _sent(plan)

    async def discard(self, name: LetterName) -> None:
        """Remove a dead letter for good."""
        outcome = await self._store.run("dead_remove", self._keys(name), [name.entry, "discarded", DAY_S])
        if outcome == b"busy":
            raise _being_redriven(name)
        if outcome == b"gone":
            raise await self._gone(name)

    def _keys(self, name: LetterName) -> list[str]:
        return [name.stream, redrive_claim(name.stream, name.entry)]

    async def _was_sent(self, name: LetterName) -> bool:
        """Return whether an interrupted redrive has sent the content: its guard is then in the shard of the target."""
        for shard in range(self._shards):
            if await self._store.call("EXISTS", redriven(shard, str(name))):
                return True
        return False

    async def _gone(self, name: LetterName) -> ProblemError:
        if await self._store.call("GET", redrive_claim(name.stream, name.entry)) == b"done":
            return ProblemError(409, f"dead letter {name} was redriven before")
        return missing("there is no such dead letter: it may have been discarded, or dropped by age or number")

    async def _claim(self, name: LetterName, edit: Mapping[str, Any] | None) -> None:
        """Claim a letter for a while, so that of two requests with different content only one sends it."""
        args: list[Argument] = [name.entry, _as_json(edit), _CLAIM_S]
        outcome = await self._store.run("redrive_claim", self._keys(name), args)
        if outcome == b"busy":
            raise _being_redriven(name)
        if outcome != b"ok":
            raise await self._gone(name)

    async def _send(self, name: LetterName, plan: Redrive, now: int) -> None:
        if isinstance(plan, SendMessages):
            await self._send_messages(name, plan)
        elif isinstance(plan, ContinueTask):
            await self._continue_task(name, plan, now)
        elif isinstance(plan, AppendEntry):
            await self._append_entry(name, plan)
        elif isinstance(plan, SendToWebhook):
            await self._send_to_webhook(name, plan)
        else:
            await self._wake(plan)

    async def _send_to_webhook(self, name: LetterName, plan: SendToWebhook) -> None:
        delivery, session = plan.delivery, plan.session
        webhook = None if plan.shard >= self._shards else await read_kept(self._store, plan.shard, delivery.webhook_id)
        if webhook is None or webhook.tenant_id != session.tenant:
            raise ProblemError(
                409, "its webhook was removed: discard it, or name another of the tenant with an edit of `webhook_id`"
            )
        if webhook.gone is not None:
            raise ProblemError(409, f"its webhook gets nothing any more ({webhook.gone}): register it again first")
        mark = session.erased if plan.task is None else TaskKeys(plan.shard, session.tenant, plan.task).erased
        keys = [redriven(plan.shard, str(name)), waiting_webhooks(plan.shard), session.erased, mark]
        lane = f"{session.actor}/{plan.task or ''}"
        args: list[Argument] = [REDRIVEN_TTL_S, webhook.id, lane, delivery.entry, to_json(delivery.event)]
        if await self._store.run("webhook_redrive", keys, args) < 0:
            raise ProblemError(409, "what it is about has been erased meanwhile: discard it")

    async def _wake(self, plan: WakeActor) -> None:
        actor = plan.actor
        found, woken = await self._store.run("redrive_wake", [actor.header, actor.wake], [actor.actor])
        if not found:
            raise ProblemError(409, f"there is no {actor.actor} to be woken: discard it")
        count_wake_ups(actor.stream, woken)

    async def _send_messages(self, name: LetterName, plan: SendMessages) -> None:
        session = SessionKeys(shard_of(plan.tenant, plan.session, self._shards), plan.tenant, plan.session)
        for each in plan.messages:
            refused = await self._callbacks.note(session, each)
            if refused is not None:
                raise ProblemError(409, f"{refused.problem}. An edit may name another one, or leave it out")
        keys = [redriven(session.shard, str(name)), session.header, session.messages, session.wake]
        keys += [load(session.shard), session_index(session.shard, session.tenant)]
        keys.append(dedup(session.shard, session.tenant, session.session, plan.messages[0].message_id or ""))
        keys += sorted(_marks(session, plan))
        args: list[Argument] = [REDRIVEN_TTL_S, self._session_ttl_s, session.actor, session.tenant, session.name]
        args += [
            DEDUP_TTL_S,
            "1" if plan.new else "",
            name.ms,
            *(without_callback(each).to_json() for each in plan.messages),
        ]
        posted, woken = await self._store.run("redrive_messages", keys, args)
        if posted == -2:
            raise ProblemError(409, "what it is about has been erased meanwhile: discard it")
        if posted < 0:
            raise ProblemError(
                409, "a message of this id has been accepted meanwhile: discard it, or edit `message_id`"
            )
        metrics.published.labels(SESSION_WAKE.name, USER).inc(posted)
        count_wake_ups(SESSION_WAKE, woken)

    async def _continue_task(self, name: LetterName, plan: ContinueTask, now: int) -> None:
        keys = self._queries.task_keys(plan.tenant, plan.task)
        if keys is None:
            raise ProblemError(409, f"{plan.task[:128]!r} is no task of ours")
        mail = RedriveMail(letter=str(name), at=now, calls=list(plan.calls))
        names = [redriven(keys.shard, str(name)), keys.header, keys.signals, keys.wake]
        status, posted, woken = await self._store.run(
            "redrive_task", names, [REDRIVEN_TTL_S, keys.actor, mail.to_json()]
        )
        if status in (b"none", b"cancelled"):
            raise ProblemError(409, "its task has just been archived or cancelled: look at it again")
        metrics.published.labels(TASK_WAKE.name, REDRIVE).inc(posted)
        count_wake_ups(TASK_WAKE, woken)

    async def _append_entry(self, name: LetterName, plan: AppendEntry) -> None:
        place, stream = split_key(plan.stream), work_stream(plan.stream)
        if place is None or stream is None or place[0] >= self._shards:
            raise ProblemError(409, f"there is no shard for {plan.stream}: discard it")
        keys = [redriven(place[0], str(name)), plan.stream]
        appended = await self._store.run("redrive_entry", keys, [REDRIVEN_TTL_S, plan.data])
        metrics.published.labels(stream.name, stream.carries[0].__name__).inc(appended)


def _marks(session: SessionKeys, plan: SendMessages) -> set[str]:
    """Return the keys of the marks that say that the session, the tasks or the users of the messages were erased."""
    shard, tenant = session.shard, session.tenant
    users = {erased_user(shard, tenant, message.user_id) for message in plan.messages if message.user_id}
    return users | {session.erased, *(TaskKeys(shard, tenant, m.task_id).erased for m in plan.messages if m.task_id)}


def _as_json(edit: Mapping[str, Any] | None) -> bytes:
    return b"" if edit is None else to_json(edit)


def _sent(plan: Redrive) -> dict[str, Any]:
    """Return a description of what was sent, for the client."""
    if isinstance(plan, SendMessages):
        return {"session_id": plan.session, "message_ids": [message.message_id for message in plan.messages]}
    if isinstance(plan, ContinueTask):
        return {"task_id": plan.task}
    if isinstance(plan, SendToWebhook):
        return {"webhook_id": plan.delivery.webhook_id}
    return {"stream": plan.stream} if isinstance(plan, AppendEntry) else {"actor": plan.actor.actor}
