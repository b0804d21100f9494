"""Forks of tasks in tests: what a gateway would do, without its routes."""

from typing import Any

from pentad.contracts.models import ModelKind
from pentad.services.gateway.domain.fork import read_fork
from pentad.services.gateway.edge.problems import missing
from pentad.services.gateway.tasks.comparisons import Comparisons
from pentad.services.gateway.tasks.forks import Forked, Forks
from pentad.services.gateway.tasks.queries import Queries
from pentad.shared.actors.actors import Actors
from pentad.shared.presence.instruction_book import InstructionBook
from pentad.shared.records.record_store import Records
from pentad.shared.settings import Settings
from pentad.shared.store.store import Store


class OneModel:
    """A registry that knows the model ``fast`` and the default one."""

    async def of_kind(self, kind: ModelKind, model_id: str) -> str | None:
        if model_id not in ("fast", "default"):
            raise missing("there is no such model")
        return "fast" if model_id == "fast" else None


class Forking:
    """Forks and compares the tasks of the tenant ``default``, and keeps what it was asked to erase again."""

    def __init__(self, store: Store, records: Records, settings: Settings, book: InstructionBook | None = None) -> None:
        self.store, self.queries = store, Queries(store, records, settings.pentad_shards)
        self.erased: list[str] = []
        known = book or InstructionBook(store)
        actors = Actors(store, "forking", settings.lease_ms)
        self.forks = Forks(store, self.queries, actors, known, OneModel(), self._erase, settings)
        self.comparisons = Comparisons(self.queries)

    async def _erase(self, tenant: str, task: str) -> None:
        self.erased.append(f"{tenant}/{task}")

    async def fork(self, task: str, step: int, message_id: str = "f1", **fields: Any) -> Forked:
        """Fork a task as a client asks for it."""
        return await self.forks.fork("default", task, read_fork({"step": step, **fields}, message_id))
