"""Inbound entries, read as any producer may have written them."""

import hashlib
import re
from collections.abc import Sequence

from pydantic import ValidationError
from pydantic_core import from_json, to_json

from pentad.contracts.commands import InboundMessage
from pentad.contracts.errors import ErrorCode
from pentad.contracts.ids import DEFAULT_TENANT, LAST_MS, is_external_id, is_identifier, rfc3339, shard_of
from pentad.contracts.plain_json import MOST_VALUES, collector_waits, values_in
from pentad.shared.immutable import immutable
from pentad.shared.keys import FIRST_ID, SessionKeys
from pentad.shared.work.entry import complaint

MOST_ENTRY_BYTES = 8 << 20
"""Bytes of an inbound entry, names and values of its fields together: any message fits, however its JSON is written."""
_ID = re.compile(rb"[0-9]{1,20}-[0-9]{1,20}")
_FIRST_ID = FIRST_ID.encode()
_NAMED = ("user_id", "task_id", "instruction", "output_schema", "state", "files")
"""Fields that decide, beside the text, what a message asks for and who may hear the answer."""


@immutable
class Arrival:
    """One inbound entry: readable with a message, or not with the reason."""

    entry_id: str
    first_id: str
    """The id that the producer was told: another one when the stream has been replaced since."""
    session: SessionKeys | None
    message: InboundMessage | None
    problem: str
    fields: dict[bytes, bytes]
    cut: bool = False
    """The fields are only the beginning of what was appended."""
    code: ErrorCode = ErrorCode.BAD_MESSAGE
    """The kind of the problem, as its session is told it."""

    @property
    def at(self) -> str:
        """The time at which the entry was appended; ids that producers give may be no times at all."""
        return rfc3339(min(int(self.first_id.split("-")[0]), LAST_MS))

    @property
    def message_id(self) -> str:
        """The message id that the sender gave, as far as it can be read; else the entry's first id."""
        try:
            given = from_json(self.fields.get(b"data", b"{}")).get("message_id")
        except (ValueError, AttributeError):
            given = None
        return given if isinstance(given, str) and is_external_id(given) else self.first_id


def message_digest(message: InboundMessage) -> str:
    """Return a digest by which two messages are compared: of the text, and of the user, task, instruction, output,
    state, files and tools named.

    It is the first 16 hexadecimal digits of a SHA-256: of the text alone, when nothing else is named.
    """
    named = {name: value for name in _NAMED if (value := getattr(message, name)) is not None}
    named |= {"tools": message.tools} if message.tools else {}  # an empty list of tools is none
    said = to_json([message.content, named]) if named else message.content.encode()
    return hashlib.sha256(said).hexdigest()[:16]


def another_message(accepted: str, sent: str) -> str:
    """Return why a message is refused whose id another was accepted with. Both digests are of `message_digest`."""
    return (
        "message_id: it was accepted before with another text, user_id, task_id, instruction, output, state, files "
        f"or tools (digest {accepted}, this one's is {sent}): "
        "send a new message under an id of its own"
    )


def fields_of(flat: Sequence[bytes] | None) -> dict[bytes, bytes]:
    """Return an entry's fields from the server's list; none for a deleted entry."""
    names = iter(flat or ())
    return dict(zip(names, names, strict=True))


def read_entry(entry_id: str, fields: dict[bytes, bytes], shards: int) -> Arrival:
    """Read an inbound entry as any producer may have written it."""
    data, first = fields.get(b"data"), _first_id(entry_id, fields)
    if data is None:
        return Arrival(entry_id, first, None, None, "the entry has no field `data`", fields)
    if values_in(data, MOST_VALUES) > MOST_VALUES:  # no message has so many, and each would have to be made first
        problem = f"`data` has more than {MOST_VALUES:,} JSON values: no message has so many"
        return Arrival(entry_id, first, None, None, problem, fields)
    try:
        with collector_waits(data):
            message = InboundMessage.model_validate_json(data)
    except ValidationError as error:
        return Arrival(entry_id, first, _guess_session(data, shards), None, complaint(error), fields)
    session_id = message.session_id or f"s-{first}"
    if not (message.session_id and message.message_id):  # the gateway gives both
        message = message.model_copy(update={"session_id": session_id, "message_id": message.message_id or first})
    return Arrival(entry_id, first, _keys(message.tenant_id, session_id, shards), message, "", fields)


def too_large(entry_id: str, beginning: dict[bytes, bytes], size: int, digest: str) -> Arrival:
    """Return the arrival of an entry that is larger than any message, from the beginning of its fields and its size.

    ``digest``: the SHA-1 of the first MiB of its field ``data``; '' without one.
    """
    which = f"; the SHA-1 of the first {min(size, 1 << 20)} bytes of `data` is {digest}" if digest else ""
    problem = f"the entry has {size} bytes, and {MOST_ENTRY_BYTES} are read at most{which}"
    return Arrival(entry_id, _first_id(entry_id, beginning), None, None, problem, beginning, cut=True)


def _first_id(entry_id: str, fields: dict[bytes, bytes]) -> str:
    """Return the id that `inbound_renew.lua` has noted. A field of this name without an id is ignored."""
    noted = fields.get(_FIRST_ID)
    return noted.decode() if noted is not None and _ID.fullmatch(noted) else entry_id


def _keys(tenant: str, session: str, shards: int) -> SessionKeys:
    return SessionKeys(shard_of(tenant, session, shards), tenant, session)


def _guess_session(data: bytes, shards: int) -> SessionKeys | None:
    """Return the session of an unreadable message, if that much can be read."""
    try:
        with collector_waits(data):
            body = from_json(data)
    except ValueError:
        return None
    if not isinstance(body, dict):
        return None
    tenant, session = body.get("tenant_id", DEFAULT_TENANT), body.get("session_id")
    if isinstance(tenant, str) and isinstance(session, str) and is_identifier(tenant) and is_external_id(session):
        return _keys(tenant, session, shards)
    return None
