"""A task whose grace time is over becomes a record and leaves Redis."""

from pydantic_core import from_json

from pentad.contracts.commands import WakeUp
from pentad.contracts.ids import is_tool_call_id, rfc3339
from pentad.contracts.records import StepRecord, TaskRecord
from pentad.contracts.streams import ARCHIVE, EXTRACT, REMEMBER
from pentad.services.archiver.ended_tasks import task_named
from pentad.services.archiver.extraction_model import ExtractionModel
from pentad.shared import metrics
from pentad.shared.actors.erased_marks import is_erased
from pentad.shared.actors.headers import TaskHeader, pairs, task_header
from pentad.shared.actors.transcript import shown
from pentad.shared.keys import SessionKeys, TaskKeys, task_index, timers
from pentad.shared.records.record_store import Records
from pentad.shared.store.store import Argument, Store
from pentad.shared.work.entry import Entry

NO_MODEL = "no model was there to be asked"
"""Problem in the record of a task about which nobody is asked: what it states is found by rule."""
_RETRY_MS = 5_000
"""Milliseconds after which a task that was busy is archived again."""
_MATERIALS = ("tools:", "instruction:", "graph:")
"""Prefixes of the large values that a record has: those that its manifests name by digest."""


class Archiving:
    """Archives tasks at least once: a record is written again, and the removal compares the last step.

    The record is stored before lists find it, and lists find it before the task leaves Redis.
    """

    def __init__(
        self,
        store: Store,
        records: Records,
        grace_ms: int,
        index_ttl_s: int,
        model: ExtractionModel | None = None,
    ) -> None:
        """Make the handler. ``model``: the model that is asked about archived tasks; None where none is asked."""
        self._store, self._records, self._grace_ms, self._index_ttl_s = store, records, grace_ms, index_ttl_s
        self._model = model

    async def handle(self, entry: Entry) -> None:
        """Archive the task that the entry names, unless it is gone, open again or not yet due."""
        keys = task_named(entry, ARCHIVE)
        names = [keys.header, keys.log, keys.steps, keys.big]
        now, raw_header, log, steps, big = await self._store.run("whole", names, [])
        fields = pairs(raw_header)
        header = task_header(keys.tenant, keys.task, fields)
        if header is None:
            if not await self._stay_erased(keys):
                await self._ask_to_extract(keys)  # it may have left Redis just before this was asked for
            return
        if not header.ended:
            return
        grace_ms = 0 if header.archive_of and header.archive_of == header.ended_at else self._grace_ms
        if (left := min(grace_ms, header.ended_at + grace_ms - now)) > 0:
            # The timer was set under a shorter grace time, or the clock has stepped back since.
            names = [timers(keys.shard), keys.header]
            await self._store.run("add_timer", names, [f"archive {keys.actor}", left, "ended_at"])
            return
        record = record_of(header, log, steps, pairs(big), now)
        if self._model is None or await self._model.wanted() is None:
            record = record.model_copy(update={"extraction": {"problem": NO_MODEL}})
        await self._records.write(record)
        await self._records.enter(record)
        if await self._stay_erased(keys, record):
            return
        if fields.get("remember_of", b"") != fields.get("last_step", b""):
            await self._ask_to_remember(keys)
        await self._remove(entry, keys, header, fields.get("last_step", b"").decode(), now)

    async def _ask_to_extract(self, keys: TaskKeys) -> None:
        """Queue the extraction again: the archiver that removed the task may have queued it already, and repetition is
        safe."""
        await self._store.call("XADD", EXTRACT.key(keys.shard), "*", "data", WakeUp(actor=keys.actor).to_json())
        metrics.published.labels(EXTRACT.name, WakeUp.__name__).inc()

    async def _stay_erased(self, keys: TaskKeys, written: TaskRecord | None = None) -> bool:
        """Remove the record of an erased task: it may have been erased since it was read, or before a kill."""
        erased = await is_erased(self._store, keys)
        if erased:
            await self._records.remove(keys.tenant, keys.task, written)
        return erased

    async def _ask_to_remember(self, keys: TaskKeys) -> None:
        """Queue a task to be remembered, because its last end did not: it went on since, or a runner was older."""
        data = WakeUp(actor=keys.actor).to_json()
        await self._store.call("XADD", REMEMBER.key(keys.shard), "*", "data", data)
        metrics.published.labels(REMEMBER.name, WakeUp.__name__).inc()

    async def _remove(self, entry: Entry, keys: TaskKeys, header: TaskHeader, last_step: str, now: int) -> None:
        """Remove a task from Redis and queue its extraction in one step: nobody rewrites its record afterwards."""
        session = SessionKeys(keys.shard, keys.tenant, header.session)
        names = [entry.stream, session.header, timers(keys.shard), *keys.all(), EXTRACT.key(keys.shard)]
        args: list[Argument] = [ARCHIVE.group or "", entry.id, last_step, keys.task, f"archive {keys.actor}", _RETRY_MS]
        args.append(WakeUp(actor=keys.actor).to_json())
        outcome = await self._store.run("archive", names, args)
        metrics.archived.labels(outcome.decode()).inc()
        if outcome == b"ok":
            metrics.published.labels(EXTRACT.name, WakeUp.__name__).inc()
        oldest = now - self._index_ttl_s * 1000
        await self._store.call("ZREMRANGEBYSCORE", task_index(keys.shard, keys.tenant), "-inf", oldest)


def record_of(header: TaskHeader, log: list[bytes], steps: list[bytes], big: dict[str, bytes], now: int) -> TaskRecord:
    """Return the record of a finished task."""
    return TaskRecord(
        tenant_id=header.tenant,
        task=header.describe().model_copy(update={"archived_at": rfc3339(now)}),
        messages=[shown(raw) for raw in log],
        steps=[StepRecord.model_validate_json(raw) for raw in steps],
        materials={name: from_json(value) for name, value in big.items() if name.startswith(_MATERIALS)},
        results={name: value.decode("utf-8", "replace") for name, value in big.items() if is_tool_call_id(name)}
        or None,
    )
