"""A router's decisions without its service: words decide, and no model confirms unless a pool is given."""

from pentad.services.router.domain.scoring import WEIGHTS
from pentad.services.router.message_router import MessageRouter
from pentad.services.router.model_confirmation import ModelConfirmation
from pentad.services.router.similarity_router import SimilarityRouter
from pentad.shared.models.model_pool import ModelPool, pool_of
from pentad.shared.models.offline.model import OfflineModel
from pentad.shared.presence.instruction_book import InstructionBook
from pentad.shared.records.record_store import Records
from pentad.shared.settings import Settings
from pentad.shared.store.store import Store


def message_router_of(
    store: Store,
    records: Records,
    settings: Settings,
    book: InstructionBook | None = None,
    pool: ModelPool | None = None,
) -> MessageRouter:
    """Make a message router. ``pool``: the models that confirm."""
    book = book or InstructionBook(store)
    confirmation = ModelConfirmation(store, pool or pool_of(OfflineModel()), book, settings.pentad_route_confidence)
    return MessageRouter(store, records, book, SimilarityRouter(None, WEIGHTS), confirmation, settings)
