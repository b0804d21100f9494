"""What has come behind the entries of a stream that were read last. A plain read: it takes nothing."""

from typing import Any

from pentad.shared.inbound.arrival import fields_of
from pentad.shared.store.redis_replies import Heard
from pentad.shared.store.store import Store


class News:
    """One question at a time: asked before what was read is handled, awaited after.

    So it leaves together with what the handling writes, and does not wake a sleeping server once more.
    """

    def __init__(self, store: Store, stream: str) -> None:
        self._store, self._stream = store, stream
        self._asked: Heard | None = None

    def ask(self, after: str, block_ms: int) -> None:
        """Ask for the first entry behind this one, to wait for at most so long.

        One that was asked for before, and is not heard yet, stays: it stands behind an earlier entry and comes sooner.
        """
        if self._asked is None:
            self._asked = self._store.listen(self._stream, after, block_ms)

    async def hear(self) -> tuple[str, dict[bytes, bytes]] | None:
        """Await it: its id and fields; None when nothing has come, or what is not small. Raises ``OutageError``."""
        asked, self._asked = self._asked, None
        reply: Any = None if asked is None else await self._store.heard(asked, self._stream)
        if not reply:
            return None
        [[_, [[entry_id, fields]]]] = reply
        return entry_id.decode(), fields_of(fields)

    def drop(self) -> None:
        """Nobody will await what was asked for."""
        asked, self._asked = self._asked, None
        if asked is not None:
            asked.cancel()
