"""Joins the requests of many callers into few calls of the model, and embeds no text twice for one user or session."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from secrets import token_hex
from time import monotonic

from pentad.contracts.commands import EmbedCommand, EmbedReply
from pentad.contracts.streams import EMBED_REPLY, split_key
from pentad.services.embedding.domain import Wanted, batches, pack, unpack
from pentad.shared import metrics
from pentad.shared.embedder.vectors import content_key
from pentad.shared.errors import OutageError, PoisonError
from pentad.shared.keys import vector
from pentad.shared.models.embeddings import EmbeddingModel
from pentad.shared.models.ports import (
    ModelFailed,
    ModelMisconfigured,
    ModelRefused,
    ModelTooLong,
    ModelUnavailable,
)
from pentad.shared.owners import session_holder
from pentad.shared.store.store import Argument, Store
from pentad.shared.work.entry import Entry

log = logging.getLogger(__name__)

_MAX_BATCH_CHARS = 200_000
_GATHER_S = 0.003
"""Seconds for which the first request of a batch to an endpoint waits for others."""
_CACHE_TTL_S = 7 * 86_400
_REPLY_TTL_S = 60
_MAX_LENGTH_CHANGES = 3
"""Number of times that vectors of a new length are taken for one request."""
_HARMLESS = "a"
"""A text that every working model embeds."""
_PROBE_S = 5.0
"""Seconds after which a model that has refused a harmless text is asked for it again. Until then each refusal counts
as one of everything."""


class Embedding:
    """The work of the embedding service: it answers requests for vectors."""

    def __init__(self, store: Store, model: EmbeddingModel) -> None:
        self._store, self._model = store, model
        self._here = model.place is None
        """Whether the model computes in this process: then fewer calls save nothing, and requests take turns."""
        self._under_way: dict[str, asyncio.Future[list[float]]] = {}
        """The vectors that this process makes now, by their keys in the cache."""
        self._waiting: list[Wanted] = []
        self._sender: asyncio.Task[None] | None = None
        self._computing: set[asyncio.Task[None]] = set()
        self._refuses_all = False
        """Whether the model has refused even a harmless text, and has embedded nothing since."""
        self._probe_again = 0.0
        """The time at which the harmless text is tried again, by the clock of this process."""

    async def handle(self, entry: Entry) -> None:
        """Answer one request; a refusal of the model is an answer too."""
        command = entry.parse(EmbedCommand)
        place = split_key(entry.stream)
        shard = place[0] if place else 0
        if not command.reply_to.startswith(EMBED_REPLY.key(shard, reply="")):
            raise PoisonError(f"reply_to must be a reply stream of this shard, not {command.reply_to!r}")
        try:
            vectors = await self.embed(shard, command.tenant_id, _cached_for(command), command.texts)
        except ModelRefused as error:
            await self._reply(command, error=str(error), refuses_all=isinstance(error, ModelMisconfigured) or None)
        except ModelUnavailable as error:
            raise OutageError(str(error)) from error
        else:
            await self._reply(command, vectors=vectors)

    async def _reply(
        self,
        command: EmbedCommand,
        vectors: Sequence[list[float]] = (),
        error: str | None = None,
        refuses_all: bool | None = None,
    ) -> None:
        reply = EmbedReply(
            event_id=f"{command.event_id}.reply",
            at=await self._store.now(),
            **command.led_to(),
            model=self._model.name,
            vectors=list(vectors),
            error=error,
            refuses_all=refuses_all,
        )
        await self._store.run("reply", [command.reply_to], [reply.to_json(), _REPLY_TTL_S])
        metrics.published.labels(EMBED_REPLY.name, EmbedReply.__name__).inc()

    async def embed(self, shard: int, tenant: str, cached_for: str, texts: Sequence[str]) -> list[list[float]]:
        """Return the vectors of the texts, all of one length, from the cache of this user or session of the tenant
        where it has them. Raises ``ModelFailed``.

        A cached vector of another length than the model gives now is embedded anew: an endpoint begins or stops to
        refuse `dimensions`, or other ones were configured.
        """
        keys = {text: vector(shard, content_key(self._model.name, tenant, cached_for, text)) for text in texts}
        found = await self._store.call("MGET", *keys.values())
        vectors = {text: unpack(data) for text, data in zip(keys, found, strict=True) if data is not None}
        for tried in range(_MAX_LENGTH_CHANGES):
            length = self._model.dimensions or _common_length(vectors)
            missing = {text: key for text, key in keys.items() if len(vectors.get(text, ())) != length}
            if not tried:
                metrics.embed_cache.labels("hit").inc(len(keys) - len(missing))
            if not missing:
                return [vectors[text] for text in texts]
            vectors |= await self._made(missing)
            metrics.embed_cache.labels("miss").inc(len(missing))
        raise ModelUnavailable(f"{self._model.name} gives vectors of one length and then of another; see its endpoint")

    async def _made(self, missing: Mapping[str, str]) -> dict[str, list[float]]:
        """Return new vectors of texts, by their keys in the cache, which has them from then on."""
        made = await asyncio.gather(*(self._want(Wanted(key, text)) for text, key in missing.items()))
        for key, fresh in zip(missing.values(), made, strict=True):
            args: list[Argument] = [pack(fresh), "EX", _CACHE_TTL_S]
            self._store.send("SET", key, *args)
        return dict(zip(missing, made, strict=True))

    def _want(self, wanted: Wanted) -> "asyncio.Future[list[float]]":
        """Return the future vector of a text, which is embedded once for all callers that share its cache."""
        future = self._under_way.get(wanted.key)
        if future is None:
            future = asyncio.get_running_loop().create_future()
            self._under_way[wanted.key] = future
            self._waiting.append(wanted)
            if self._sender is None:
                self._sender = asyncio.create_task(self._send(), name=f"embed-{token_hex(4)}")
        return asyncio.shield(future)

    async def _send(self) -> None:
        try:
            while self._waiting:
                await asyncio.sleep(0 if self._here else _GATHER_S)
                waiting, self._waiting = self._waiting, []
                for batch in batches(waiting, self._model.most_texts, _MAX_BATCH_CHARS):
                    if self._here:
                        self._compute(batch)
                    else:
                        await self._send_batch(batch)
        finally:
            self._sender = None

    def _compute(self, batch: list[Wanted]) -> None:
        """Begin to embed a batch: the next one does not wait for its end."""
        computing = asyncio.create_task(self._send_batch(batch))
        self._computing.add(computing)
        computing.add_done_callback(self._computing.discard)

    async def _send_batch(self, batch: list[Wanted], answers: bool = False) -> None:
        """Embed one batch. ``answers``: the model is known to embed other texts, so a refusal concerns these."""
        metrics.embed_batch.labels().observe(len(batch))
        try:
            vectors = await self._model.embed([wanted.text for wanted in batch])
        except ModelRefused as error:
            others = None if answers or isinstance(error, ModelTooLong) else await self._failure_of_others(error)
            if others is not None:
                self._fail(batch, others)
            elif len(batch) > 1:
                await self._send_apart(batch)
            else:
                self._fail(batch, ModelRefused(str(error)))
            return
        except Exception as error:
            self._fail(batch, error)
            return
        self._embeds()
        for wanted, made in zip(batch, vectors, strict=True):
            self._under_way.pop(wanted.key).set_result(made)

    async def _failure_of_others(self, refusal: ModelRefused) -> ModelFailed | None:
        """Return why the model embeds nothing else either; None when it does, so that its refusal concerns these
        texts."""
        if monotonic() < self._probe_again:
            return ModelMisconfigured(str(refusal))
        try:
            await self._model.embed([_HARMLESS])
        except ModelRefused:
            self._probe_again = monotonic() + _PROBE_S
            if not self._refuses_all:
                self._refuses_all = True
                log.error("the embedding model refuses every request, so all that needs vectors waits: %s", refusal)
            return ModelMisconfigured(str(refusal))
        except ModelFailed as failure:
            return failure
        self._embeds()
        return None

    def _embeds(self) -> None:
        """Note that the model has embedded something."""
        self._refuses_all, self._probe_again = False, 0.0

    async def _send_apart(self, batch: list[Wanted]) -> None:
        """Embed the halves of a refused batch: the fault may be that of one text, and the callers of the others get
        answers."""
        middle = len(batch) // 2
        for half in (batch[:middle], batch[middle:]):
            await self._send_batch(half, answers=True)

    def _fail(self, batch: list[Wanted], error: Exception) -> None:
        for wanted in batch:
            future = self._under_way.pop(wanted.key)
            future.set_exception(error)
            future.exception()


def _common_length(vectors: Mapping[str, Sequence[float]]) -> int | None:
    """Return the length that all of these have; None when they differ, so that none of them can be told to be
    current."""
    lengths = {len(each) for each in vectors.values() if each}
    return lengths.pop() if len(lengths) == 1 else None


def _cached_for(command: EmbedCommand) -> str:
    return session_holder(command.session_id) if command.cached_for is None else command.cached_for
