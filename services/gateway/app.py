"""The gateway's composition root."""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from secrets import token_hex
from typing import Any

from pentad.services.gateway.asgi import make_app
from pentad.services.gateway.edge.access import Access, EventTokens
from pentad.services.gateway.memory.forgetting import Forgetting, ForgettingUndo
from pentad.services.gateway.memory.knowledge import Knowledge
from pentad.services.gateway.memory.live_memory import LiveMemory
from pentad.services.gateway.memory.memories import Memories
from pentad.services.gateway.memory.rebuilds import MemoryRebuilds
from pentad.services.gateway.memory.reindexing import Reindexing
from pentad.services.gateway.memory.statements import Episodes, KnowledgeEdits
from pentad.services.gateway.operator.dead_letters import Letters
from pentad.services.gateway.operator.erasures import Erasures
from pentad.services.gateway.operator.instructions import InstructionRegistry, KnownInstructions
from pentad.services.gateway.operator.models import ModelRegistry
from pentad.services.gateway.operator.redrives import Redrives
from pentad.services.gateway.parts import Parts
from pentad.services.gateway.tasks.control import Control
from pentad.services.gateway.tasks.eval_cases import EvalCases
from pentad.services.gateway.tasks.message_intake import LossWatch, MessageIntake
from pentad.services.gateway.tasks.message_moves import MessageMoves
from pentad.services.gateway.tasks.queries import Queries
from pentad.services.gateway.tasks.task_list import TaskList, TasksByTime
from pentad.services.gateway.tasks.turn_stream import TurnStreams
from pentad.shared.actors.actors import Actors
from pentad.shared.embedder.embedder import make_embedder
from pentad.shared.errors import OutageError, SettingsError
from pentad.shared.events.relay import Relay
from pentad.shared.inbound.inbox import Inbox
from pentad.shared.inbound.renewal import IdsWatch
from pentad.shared.instructions.instruction_file import configured_instructions
from pentad.shared.memory.choosing_stores import graph_of, vectors_of
from pentad.shared.memory.hit_walks import HitWalks
from pentad.shared.models.configured import configured_models
from pentad.shared.presence.instruction_book import InstructionBook
from pentad.shared.presence.loop_holds import keep_telling_holds
from pentad.shared.records.record_store import Records
from pentad.shared.service.background import Background, wait_for_redis
from pentad.shared.service.connections import ConnectionLimits
from pentad.shared.service.http import HttpServer, health_routes, lazily
from pentad.shared.service.listening import DEFAULT_PORTS
from pentad.shared.service.port import RunnableService
from pentad.shared.service.run import metrics_keys_of
from pentad.shared.service.signals import cancel_and_wait
from pentad.shared.settings import Settings, is_loopback
from pentad.shared.store.admission import agree, keep_watching
from pentad.shared.store.store import Store
from pentad.shared.work.tenant_turns import TenantTurns

_GRACE_S = 5
_ASK_EVERY_S = 1.0
_START_QUIETLY_S = 1.0
_TIMES = 4
"""Of a tenant's calls of memory at once: so many times may wait, and of all tenants be under way."""


class GatewayService:
    """The edge: takes messages, relays events, answers questions. Keeps nothing that another gateway could not."""

    name = "gateway"

    def __init__(
        self, settings: Settings, host: str, port: int | None, others: Sequence[RunnableService], store: Store
    ) -> None:
        self._settings, self._store = settings, store
        self._relay = Relay(store.url, settings.pentad_shards)
        inbox = Inbox(
            store, settings.pentad_events_maxlen, settings.pentad_events_ttl_s, settings.pentad_redis_replicas
        )
        self._watch = LossWatch(store, inbox, lambda: self._relay.answered_at)
        self._relay.on_connect(self._watch.suspect)
        self._file = configured_instructions(settings)
        self._book = InstructionBook(store, self._file)
        self._parts = self._make_parts(inbox)
        self._metrics_keys = metrics_keys_of(settings, host)
        self._others = tuple(others)
        self._server = HttpServer(
            lazily(self._make_app),
            host,
            port,
            default_port=DEFAULT_PORTS["gateway"],
            grace_s=_GRACE_S,
            limits=ConnectionLimits(settings.pentad_connections, settings.pentad_connections_per_address),
        )
        self._background = Background()
        self._started = False
        self._ids = IdsWatch(store)

    def _make_parts(self, inbox: Inbox) -> Parts:
        settings, store, calls = self._settings, self._store, self._settings.pentad_memory_calls
        records, shards = Records(settings.records_url), settings.pentad_shards
        queries = Queries(store, records, shards)
        folder = settings.pentad_eval_cases
        self._cases = None if folder is None else EvalCases(folder, queries)
        known = KnownInstructions(store, self._file)
        models = ModelRegistry(store, configured_models(settings), [known])
        letters = Letters(store, queries, settings.pentad_shards)
        vectors, embedder = vectors_of(settings, store), make_embedder(settings, store)
        graph = graph_of(settings, store)
        knowledge = Knowledge(graph)
        noting = KnowledgeEdits(store, records, graph, vectors, embedder, knowledge, shards)
        memories = Memories(store, queries, vectors, embedder, knowledge, HitWalks(graph), shards)
        return Parts(
            streams=TurnStreams(store, self._relay, queries),
            queries=queries,
            tasks=TaskList(store, queries, TasksByTime(store, records, shards, settings.session_ttl_s)),
            inbox=inbox,
            accepting=MessageIntake(inbox, self._watch, settings.pentad_tenant_share),
            control=Control(Actors(store, f"gateway-{token_hex(6)}", settings.lease_ms), queries),
            moving=MessageMoves(store, queries, self._cases),
            memories=memories,
            working=LiveMemory(store, queries),
            episodes=Episodes(store, records, shards),
            erasures=Erasures(store, queries, memories, shards),
            forgetting=Forgetting(store, vectors, graph, shards),
            unforgetting=ForgettingUndo(
                store, records, vectors, noting, shards, extracts=settings.pentad_extract == "auto"
            ),
            reindexing=Reindexing(store, vectors, embedder, shards),
            rebuilds=MemoryRebuilds(store),
            knowledge=knowledge,
            turns=TenantTurns(calls, _TIMES * calls, _TIMES * calls),
            noting=noting,
            letters=letters,
            redriving=Redrives(store, letters, queries, settings.session_ttl_s, settings.pentad_shards),
            models=models,
            book=self._book,
            instructions=InstructionRegistry(store, known, models, queries.tool_names),
            access=Access(settings.api_keys, settings.admin_key, settings.pentad_cors_origins),
            tokens=EventTokens(settings.api_keys),
            origins=settings.pentad_cors_origins,
            shards=settings.pentad_shards,
        )

    def _make_app(self) -> Any:
        health = health_routes([self, *self._others], metrics_keys=self._metrics_keys)
        return make_app(self._parts, health, self._unstarted)

    def _unstarted(self) -> str | None:
        """Why clients are not served yet; None once they are."""
        return None if self._started else self._store.trouble or "not all that it needs is there yet"

    @property
    def address(self) -> str:
        """``http://HOST:PORT``, once the port is claimed."""
        return self._server.address

    async def start(self) -> None:
        """Claim the port, wait for Redis, relay, serve. A wait that lasts is told to whoever asks meanwhile."""
        self._server.claim()
        serving = await self._reach_redis()
        self._background.run(self._ask_redis())
        self._background.run(self._ids.run())
        self._background.run(self._book.follow())
        self._background.run(keep_watching(self._store))
        self._background.run(keep_telling_holds(self._store))
        await self._relay.start()
        if not serving:
            await self._server.start()
        self._started = True

    async def _reach_redis(self) -> bool:
        """Wait for Redis; whether the port is served by then. A port that is claimed and never answers would look to
        probes like a process that hangs."""
        reaching = asyncio.create_task(self._agree())
        try:
            done, _ = await asyncio.wait({reaching}, timeout=_START_QUIETLY_S)
            if not done:
                await self._server.start()
            await reaching
        finally:
            await cancel_and_wait(reaching)
        return not done

    async def _agree(self) -> None:
        await wait_for_redis(self._store, self.name)
        await agree(self._store, self._settings.pentad_shards)

    async def stop(self) -> None:
        """Close WebSockets with 1012, end streams and waits, let answers finish."""
        self._parts.streams.closing.set()
        await self._server.stop()
        await self._relay.stop()
        await self._watch.close()
        await self._parts.inbox.close()
        await self._parts.memories.aclose()
        await self._parts.knowledge.aclose()
        await self._background.stop()
        if self._cases is not None:
            self._cases.close()
        await self._store.close()

    async def _ask_redis(self) -> None:
        """An unready gateway gets no requests: without this it would never learn that Redis is back."""
        while True:
            with contextlib.suppress(OutageError):
                await self._store.call("PING")
            await asyncio.sleep(_ASK_EVERY_S)

    def checks(self) -> Mapping[str, str | None]:
        starting = {} if self._started else {"start": "still starting"}
        return {"redis": self._store.trouble, "relay": self._relay.trouble, "inbound": self._ids.full} | starting

    def notes(self) -> Mapping[str, str]:
        return {"inbound_ids": self._ids.early} if self._ids.early else {}

    def alive(self) -> bool:
        return not self._started or (self._relay.alive() and self._server.alive() and self._background.alive())


def build(
    settings: Settings, host: str, port: int | None = None, others: Sequence[RunnableService] = ()
) -> GatewayService:
    """The gateway, ready to start. ``others``: services of the same process, whose health it speaks for.

    Raises ``SettingsError`` for an open gateway that others than this machine could reach.
    """
    if not settings.api_keys and not is_loopback(host):
        raise SettingsError(f"PENTAD_API_KEYS is not set: a gateway on {host} needs it, as key:tenant,...")
    return GatewayService(settings, host, port, others, Store(settings.redis()))
