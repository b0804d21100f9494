"""The router's composition root."""

from collections.abc import Coroutine, Iterable, Sequence
from typing import Any

from pentad.contracts.instructions import Instruction
from pentad.contracts.streams import INBOUND, SESSION_WAKE, Stream
from pentad.services.router.domain.scoring import Weights
from pentad.services.router.fast_routing import FastRouting
from pentad.services.router.handlers import RouterHandler
from pentad.services.router.message_router import MessageRouter
from pentad.services.router.model_confirmation import ModelConfirmation
from pentad.services.router.similarity_router import SimilarityRouter
from pentad.shared.actors.actors import Actors
from pentad.shared.actors.leases import LeaseKeeper
from pentad.shared.embedder.embedder import CircuitBreakerEmbedder, make_embedder
from pentad.shared.inbound.ingress import WAITING_LIMIT, Ingress
from pentad.shared.instructions.instruction_list import configured_instructions
from pentad.shared.models.configured_models import ConfiguredModels
from pentad.shared.presence.instruction_book import InstructionBook
from pentad.shared.records.record_store import Records
from pentad.shared.service.consuming import ConsumingService
from pentad.shared.service.process_models import ProcessModels
from pentad.shared.settings import Settings
from pentad.shared.work.dead_letters import DeadLetterLimits

_SLOTS = 256
"""Sessions of a shard that are handled at once."""


class Router(ConsumingService):
    """Moves inbound messages to their sessions, and routes sessions' messages to tasks."""

    name = "router"
    check = "routing"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        actors = Actors(self.store, self.consumer_name, settings.lease_ms)
        self._keeper = LeaseKeeper(actors)
        self._book = InstructionBook(self.store, configured_instructions(settings))
        hashes = settings.embed_model_type == "simple"
        self._embedder = None if hashes else CircuitBreakerEmbedder(make_embedder(settings, self.store))
        self._models = ProcessModels(settings, self.store, self.name, self.consumer_name)
        confirmation = ModelConfirmation(self.store, self._models.pool, self._book, settings.pentad_route_confidence)
        similarity = SimilarityRouter(self._embedder, Weights(recency=settings.pentad_route_recency))
        message_router = MessageRouter(
            self.store, Records(settings.records_url), self._book, similarity, confirmation, settings
        )
        self._ingress = Ingress(self.store, settings, FastRouting(actors, message_router, WAITING_LIMIT))
        for shard in self.shards:
            self.serve(
                SESSION_WAKE, shard, RouterHandler(actors, self._keeper, message_router, settings, shard), _SLOTS
            )

    def loops(self) -> Iterable[Coroutine[Any, Any, None]]:
        limits = DeadLetterLimits(self.store, self.settings, self.shards)
        own = (self._keeper.run(), self._ingress.run(), limits.run(), self._book.follow())
        return (*own, *self._models.loops())

    def streams(self) -> list[tuple[Stream, str]]:
        return [*super().streams(), (INBOUND, INBOUND.key())]

    def use_instructions(self, configured: Sequence[Instruction]) -> None:
        """Take other instructions of the file."""
        self._book.use_file(configured)

    def use_models(self, configured: ConfiguredModels) -> None:
        """Take other chat models of the file."""
        self._models.use_configured(configured)

    async def close(self) -> None:
        await self._ingress.release()
        await self._models.close()
        if self._embedder is not None:
            await self._embedder.aclose()


def build(settings: Settings) -> Router:
    """Build a router that is ready to start."""
    return Router(settings)
