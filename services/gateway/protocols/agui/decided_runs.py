"""Runs of AG-UI that a decision has begun: they have no message, so what they are is kept in Redis under their id."""

from typing import Any

from pydantic import Field, ValidationError

from pentad.contracts.envelope import Contract
from pentad.services.gateway.edge.problems import busy
from pentad.services.gateway.tasks.patience import persist
from pentad.shared.errors import OutageError
from pentad.shared.keys import DEDUP_TTL_S, SessionKeys, agui_run
from pentad.shared.store.store import Argument, Store


class DecidedRun(Contract):
    """A run that a decision has begun."""

    task_id: str
    """Task about whose calls was decided."""
    begins: str = Field(pattern=r"^[0-9]{1,20}-[0-9]{1,20}$")
    """Cursor of the session after which the events of the run come."""

    @property
    def begins_ms(self) -> int:
        """Time in ms of the last event before the run."""
        return int(self.begins.partition("-")[0])


class DecidedRuns:
    """Keeps and reads which runs decisions have begun. Raises ``ProblemError`` (503)."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def keep(self, keys: SessionKeys, run: str, begun: DecidedRun) -> DecidedRun:
        """Keep what a run is, and return it as it was kept first: the same id again is the same run."""
        name, mine = agui_run(keys, run), begun.to_json()
        told = await _known(self._store, "SET", name, mine, "NX", "GET", "EX", DEDUP_TTL_S)
        return _read(told) or begun

    async def read(self, keys: SessionKeys, run: str) -> DecidedRun | None:
        """Return a run; None for one that no decision has begun, or that is long ago."""
        return _read(await _known(self._store, "GET", agui_run(keys, run)))

    async def forget(self, keys: SessionKeys, run: str) -> None:
        """Forget a run that has decided nothing."""
        await _known(self._store, "DEL", agui_run(keys, run))


async def _known(store: Store, *command: Argument) -> Any:
    try:
        return await persist(lambda: store.call(*command))
    except OutageError:
        raise busy("Redis is unavailable: send the same again, it is decided once", outage=True) from None


def _read(told: bytes | None) -> DecidedRun | None:
    try:
        return None if told is None else DecidedRun.model_validate_json(told)
    except ValidationError:
        return None
