"""Clients have segments of the memory forgotten: at once no search finds them, and none comes back.

The record stays: to remove the words themselves, their task is erased.
"""

from collections.abc import Sequence

from pentad.contracts.commands import WakeUp
from pentad.contracts.ids import LAST_MS, shard_in
from pentad.contracts.streams import REMEMBER
from pentad.services.gateway.domain.forget_request import ForgetRequest
from pentad.services.gateway.problems import invalid
from pentad.shared import metrics
from pentad.shared.immutable import immutable
from pentad.shared.keys import TaskKeys
from pentad.shared.memory.forgotten import FORGOTTEN, note_forgotten
from pentad.shared.memory.points import SEGMENT_KIND
from pentad.shared.owners import Owner
from pentad.shared.store.store import Store
from pentad.shared.vectors.points import KeptPoint
from pentad.shared.vectors.selection import Selection, Whose
from pentad.shared.vectors.vector_store import Vectors

_PAGE = 1000
"""Points that one request forgets."""


@immutable
class ForgottenPage:
    """What one request has done."""

    forgotten: int
    next: str | None
    """Where the next one goes on; None: there is no more."""


class Forgetting:
    """Raises ``OutageError`` while a store is away: asked again, it goes on."""

    def __init__(self, store: Store, vectors: Vectors, shards: int) -> None:
        self._store, self._vectors, self._shards = store, vectors, shards

    async def forget(self, tenant: str, asked: ForgetRequest) -> ForgottenPage:
        """Forget what is meant among the next points, whatever model embedded them."""
        names = sorted({kept.name for kept in await self._vectors.collections()} - {FORGOTTEN})
        name, after = asked.cursor or (names[0] if names else "", None)
        if not names:
            return ForgottenPage(0, None)
        if name not in names:
            raise invalid("cursor: what it names is not there any more; begin again without it")
        page = await self._vectors.scroll(name, _selection(tenant, asked), _PAGE, after)
        await self._forget(tenant, names, page.points)
        others = names[names.index(name) + 1 :]
        after_this = f"{name}:{page.next}" if page.next else f"{others[0]}:" if others else None
        return ForgottenPage(len(page.points), after_this)

    async def _forget(self, tenant: str, names: Sequence[str], segments: Sequence[KeptPoint]) -> None:
        """What is noted first is not written again; then their tasks are written without them, and they go."""
        if not segments:
            return
        await note_forgotten(self._vectors, segments)
        for task in sorted({segment.payload.task for segment in segments}):
            await self._remember(tenant, task)
        ids = tuple(segment.id for segment in segments)
        for name in names:
            await self._vectors.delete(name, Selection(Owner(tenant), Whose.ALL, ids=ids))

    async def _remember(self, tenant: str, task: str) -> None:
        """Have the task remembered again: words and neighbours of what is forgotten go from its other points too."""
        shard = shard_in(task, self._shards)
        if shard is None:
            return
        data = WakeUp(actor=TaskKeys(shard, tenant, task).actor).to_json()
        await self._store.call("XADD", REMEMBER.key(shard), "*", "data", data)
        metrics.published.labels(REMEMBER.name, WakeUp.__name__).inc()


def _selection(tenant: str, asked: ForgetRequest) -> Selection:
    return Selection(
        Owner(tenant, asked.user),
        Whose.OWN if asked.user else Whose.ALL,
        kinds=(SEGMENT_KIND,),
        tasks=(asked.task,) if asked.task else (),
        since=asked.since,
        until=None if asked.until is None else min(asked.until, LAST_MS),
        ids=asked.ids,
    )
