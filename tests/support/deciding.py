"""A router's decisions without its service: words decide, and no model confirms unless a pool is given."""

from pentad.services.router.confirming_model import ConfirmingModel
from pentad.services.router.deciding import Deciding
from pentad.services.router.domain.scoring import WEIGHTS
from pentad.services.router.weighing import Weighing
from pentad.shared.models.model_pool import ModelPool, pool_of
from pentad.shared.models.offline.model import OfflineModel
from pentad.shared.presence.instruction_book import InstructionBook
from pentad.shared.records.record_store import Records
from pentad.shared.settings import Settings
from pentad.shared.store.store import Store


def deciding_of(
    store: Store,
    records: Records,
    settings: Settings,
    book: InstructionBook | None = None,
    pool: ModelPool | None = None,
) -> Deciding:
    """``pool``: the models that confirm."""
    book = book or InstructionBook(store)
    confirming = ConfirmingModel(store, pool or pool_of(OfflineModel()), book, settings.pentad_route_confidence)
    return Deciding(store, records, book, Weighing(None, WEIGHTS), confirming, settings)
