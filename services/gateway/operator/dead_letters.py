"""Reading of dead letters of the inbound stream and of all shards, newest first."""

import re
from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from pentad.contracts.commands import InboundMessage
from pentad.contracts.dead_letters import DeadLetter
from pentad.contracts.ids import is_identifier
from pentad.contracts.streams import DEAD, INBOUND_DEAD
from pentad.services.gateway.domain.redrive import LetterContext
from pentad.services.gateway.edge.pages import BadPageError, Page
from pentad.services.gateway.tasks.queries import Queries
from pentad.shared.errors import DamagedError
from pentad.shared.immutable import immutable
from pentad.shared.store.store import Store
from pentad.shared.work.entry import data_of

_READ = 5
"""Letters that are read from one stream at a time: each has up to a MiB."""
_ID_NUMBER_BOUND = 1 << 64
"""Bound of the numbers in an entry's id."""
_NAME = re.compile(r"(inbound|\d{1,4})-(\d{1,20})-(\d{1,20})", re.ASCII)


@immutable
class LetterName:
    """The name of a dead letter: ``inbound-ENTRY`` or ``SHARD-ENTRY``."""

    place: str
    """Place of the letter: ``inbound``, or the shard's number."""
    ms: int
    seq: int

    def __str__(self) -> str:
        return f"{self.place}-{self.entry}"

    @property
    def entry(self) -> str:
        return f"{self.ms}-{self.seq}"

    @property
    def stream(self) -> str:
        """Key of the letter's stream."""
        return INBOUND_DEAD.key() if self.place == "inbound" else DEAD.key(int(self.place))

    @property
    def order(self) -> tuple[int, int, str]:
        """Sort key of the letter among all: the newest has the highest."""
        return self.ms, self.seq, self.place


def parse_name(text: str) -> LetterName | None:
    """Return the name of a letter; None for a text that is no name."""
    found = _NAME.fullmatch(text)
    if found is None or max(int(found[2]), int(found[3])) >= _ID_NUMBER_BOUND:
        return None
    return LetterName(found[1], int(found[2]), int(found[3]))


class Letters:
    """Reads dead letters. Raises ``OutageError`` if a store is unavailable."""

    def __init__(self, store: Store, queries: Queries, shards: int) -> None:
        self._store, self._queries = store, queries
        self._places = ("inbound", *map(str, range(shards)))

    def knows(self, name: LetterName) -> bool:
        """Return whether the letter's place exists in this installation."""
        return name.place in self._places

    async def page(self, limit: int, cursor: str | None) -> Page:
        """Return a page of the newest letters after the cursor, without their bodies. Raises ``BadPageError``."""
        after = None if cursor is None else parse_name(cursor)
        if cursor is not None and after is None:
            raise BadPageError("the cursor must be the `next` of an earlier page")
        items: list[dict[str, Any]] = []
        last = after
        while len(items) <= limit:
            # One stream after the other, for letters may be large.
            pieces = [await self._piece(place, last) for place in self._places]
            # Letters after the end of a full piece are not known yet.
            ends = [piece[-1][0].order for piece in pieces if len(piece) == _READ]
            floor = max(ends, default=None)
            known = [each for piece in pieces for each in piece if floor is None or each[0].order >= floor]
            for name, summary in sorted(known, key=lambda each: each[0].order, reverse=True):
                if len(items) == limit:
                    return Page(items, str(last))
                items.append(summary)
                last = name
            if floor is None:
                return Page(items, None)
        return Page(items[:limit], str(last))

    async def _piece(self, place: str, after: LetterName | None) -> list[tuple[LetterName, dict[str, Any]]]:
        """Return up to ``_READ`` letters of one stream after ``after``, newest first, without their bodies."""
        highest = "+"
        if after is not None:
            if (after.ms, after.seq) == (0, 0):  # no entry has this id, and Redis takes it for no interval
                return []
            highest = after.entry if place < after.place else f"({after.entry}"
        key = LetterName(place, 0, 0).stream
        found = await self._store.call("XREVRANGE", key, highest, "-", "COUNT", _READ)
        return [(name := _named(place, entry), _summary(name, _letter(fields))) for entry, fields in found]

    async def read(self, name: LetterName) -> DeadLetter | None:
        """Return a whole letter; None if there is none. Raises ``DamagedError``."""
        found = await self._store.call("XRANGE", name.stream, name.entry, name.entry)
        if not found:
            return None
        letter = _letter(found[0][1])
        if letter is None:
            raise DamagedError(f"dead letter {name} cannot be read")
        return letter

    async def context_of(self, letter: DeadLetter) -> LetterContext:
        """Return the present state of the letter's task, with the user's message that led to the letter."""
        if letter.tenant_id is None or letter.task_id is None:
            return LetterContext()
        if not (is_identifier(letter.tenant_id) and is_identifier(letter.task_id)):  # somebody else has written it
            return LetterContext()
        keys = self._queries.task_keys(letter.tenant_id, letter.task_id)
        if keys is None:
            return LetterContext()
        status = await self._store.call("HGET", keys.header, "status")
        try:
            archived = status is None and await self._queries.record(letter.tenant_id, letter.task_id) is not None
            said = await self._said(letter)
        except DamagedError:
            return LetterContext((status or b"").decode(errors="replace"))
        return LetterContext((status or b"").decode(errors="replace"), archived, said)

    async def _said(self, letter: DeadLetter) -> InboundMessage | None:
        """Return the user's message at the beginning of the chain, from the transcript or the record."""
        message = next((link.id for link in letter.chain if link.kind == "message"), "")
        tenant, task_id = letter.tenant_id or "", letter.task_id or ""
        task = await self._queries.task(tenant, task_id) if message else None
        if task is None:
            return None
        transcript = await self._queries.transcript(tenant, task_id) or []
        contents = [m.get("content") for m in transcript if m.get("role") == "user" and m.get("message_id") == message]
        given = {"tenant_id": tenant, "session_id": task.session_id, "task_id": task_id, "user_id": task.user_id}
        try:
            return InboundMessage.model_validate(
                {**given, "message_id": message, "instruction": task.instruction, "content": contents[-1]}
            )
        except (ValidationError, IndexError):
            return None


def _named(place: str, entry: bytes) -> LetterName:
    ms, _, seq = entry.decode().partition("-")
    return LetterName(place, int(ms), int(seq))


def _letter(fields: Sequence[bytes]) -> DeadLetter | None:
    try:
        return DeadLetter.model_validate_json(data_of(fields))
    except (ValueError, TypeError, RecursionError):  # it may have been written by anybody
        return None


def _summary(name: LetterName, letter: DeadLetter | None) -> dict[str, Any]:
    if letter is None:
        return {"id": str(name), "problem": "this dead letter cannot be read"}
    return {"id": str(name)} | letter.model_dump(mode="json", exclude={"version", "body"}, exclude_none=True)
