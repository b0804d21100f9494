"""Where conversations stand: by the digest of what was said, so that the next request finds its session.

A place is known for as long as sessions are, and the first message that goes on from it has claimed it.
"""

import hashlib
from collections.abc import Sequence
from secrets import token_hex
from typing import Any

from pydantic_core import to_json

from pentad.contracts.ids import shard_of
from pentad.services.gateway.edge.problems import ProblemError
from pentad.services.gateway.tasks.patience import persist
from pentad.shared.immutable import immutable
from pentad.shared.keys import chat_place, chat_request
from pentad.shared.store.store import Store

TURN_LIMIT_S = 3_600
"""Seconds in which the same request again is a repeat while its turn goes on."""
_REPEAT_S = 600
"""Seconds in which it is one after the turn's end: clients wait so long for an answer."""
_NAMED_S = 86_400
"""Seconds for which the key is known under which a client has sent a request."""


@immutable
class Scope:
    """The conversations among which one is looked for."""

    tenant: str
    named: str
    """Session or chat that the client has named, with its kind; '' for none."""
    user: str

    def digest(self, *what: Any) -> str:
        """Return the digest of something in this scope."""
        return hashlib.sha256(to_json([self.named, self.user, *what])).hexdigest()


@immutable
class ChatPlace:
    """A place in a conversation, after the answer to a turn."""

    session: str
    task: str
    """Task that has answered; '' for none."""
    step: int
    claimed_by: str
    """Message that goes on from here."""


class ChatPlaces:
    """Reads and writes places of conversations. Raises ``OutageError``."""

    def __init__(self, store: Store, shards: int, ttl_s: int) -> None:
        self._store, self._shards, self._ttl_s = store, shards, ttl_s

    async def message_id(self, scope: Scope, asked: str, key: str | None) -> str:
        """Return the id of the message that a request stands for. A repeat has the same.

        ``asked``: digest of the request; ``key``: the client's own name of it. Raises ``ProblemError`` (409) for
        another request under the same name.
        """
        digest = scope.digest("asked", asked) if key is None else scope.digest("named", key)
        place, new = self._request(scope, digest), f"oai-{token_hex(16)}"
        ttl_s = TURN_LIMIT_S if key is None else _NAMED_S
        mine = f"{new} {asked}"
        told = await persist(lambda: self._store.call("SET", place, mine, "NX", "GET", "EX", ttl_s))
        found, _, before = (told or mine.encode()).decode().partition(" ")
        if key is not None and before not in ("", asked):
            why = "Idempotency-Key: another request was sent with it: give each request one of its own"
            raise ProblemError(409, why)
        return found

    async def ended(self, scope: Scope, asked: str) -> None:
        """Note that the turn of a request without a name has ended: the same again is a repeat for a while."""
        await self._store.call("EXPIRE", self._request(scope, scope.digest("asked", asked)), _REPEAT_S, "LT")

    async def forget(self, scope: Scope, asked: str, message_id: str) -> None:
        """Forget a request that came without a name: the same again is a new one."""
        place = self._request(scope, scope.digest("asked", asked))
        await persist(lambda: self._store.run("unlock", [place], [f"{message_id} {asked}"]))

    async def claim(self, scope: Scope, texts: Sequence[Any], message_id: str, session: str = "") -> ChatPlace | None:
        """Claim the place after these texts for a message; return who has it, or None for a place that is not known.

        ``session``: the session of a place that is not known yet.
        """
        place = self._place(scope, texts)
        found = await persist(lambda: self._store.run("chat_claim", [place], [message_id, session, self._ttl_s]))
        if not found:
            return None
        named, task, step, claimed = [(value or b"").decode() for value in found]
        return ChatPlace(named, task, int(step or 0), claimed)

    async def keep(self, scope: Scope, texts: Sequence[Any], session: str, task: str, step: int) -> None:
        """Keep where a conversation stands after these texts."""
        args: list[str | int] = [session, task, step, self._ttl_s]
        await persist(lambda: self._store.run("chat_keep", [self._place(scope, texts)], args))

    async def drop(self, scope: Scope, texts: Sequence[Any]) -> None:
        """Forget where a conversation stands after these texts."""
        await persist(lambda: self._store.call("DEL", self._place(scope, texts)))

    def _place(self, scope: Scope, texts: Sequence[Any]) -> str:
        digest = scope.digest("place", list(texts))
        return chat_place(shard_of(scope.tenant, digest, self._shards), scope.tenant, digest)

    def _request(self, scope: Scope, digest: str) -> str:
        return chat_request(shard_of(scope.tenant, digest, self._shards), scope.tenant, digest)
