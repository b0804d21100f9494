"""Anchors as the opaque strings that clients get, and ids of segments.

The string begins with its version; behind it stands the anchor's JSON as base64url. It holds nothing secret and grants
nothing: whoever opens it asks for the task in the tenant's own records.
"""

import base64
import binascii
import json
import re
from hashlib import sha256

from pydantic import ValidationError

from pentad.contracts.ids import is_identifier
from pentad.contracts.records import Anchor
from pentad.shared.errors import PentadError

MOST_CHARS = 512
"""Characters of an anchor as a string."""
_VERSION = "a1"
_FIELDS = tuple(Anchor.model_fields)
_SHORT_FORM = re.compile(r"([^:]{1,128}):([0-9]{1,10})\.([0-9]{1,10})\.([0-9]{1,10})")
"""Pattern of `Anchor.short`."""


class BadAnchorError(PentadError):
    """The text is not an anchor, or it points at nothing that exists. Retrying does not help; the message says what to
    do."""


def anchor_text(anchor: Anchor) -> str:
    """Return the anchor as clients get it, at most `MOST_CHARS` characters of ``A-Z a-z 0-9 _ - .``."""
    values = [getattr(anchor, name) for name in _FIELDS]
    packed = json.dumps(values, ensure_ascii=True, separators=(",", ":")).encode()
    return f"{_VERSION}.{base64.urlsafe_b64encode(packed).decode().rstrip('=')}"


def anchor_of(text: str) -> Anchor:
    """Return the anchor that a string stands for. Raises `BadAnchorError`."""
    version, dot, packed = text[: MOST_CHARS + 1].partition(".")
    if len(text) > MOST_CHARS or not dot:
        raise BadAnchorError("this is no anchor: copy the `anchor` of a memory hit as it is")
    if version != _VERSION:
        raise BadAnchorError(f"this anchor is not of version {_VERSION}, the one this Pentad reads: search again")
    try:
        anchor = _unpacked(packed)
    except (ValueError, ValidationError, binascii.Error, RecursionError):
        anchor = None
    if anchor is None or anchor.end <= anchor.start or anchor_text(anchor) != text:
        raise BadAnchorError("this anchor is damaged: copy the `anchor` of a memory hit as it is")
    return anchor


def short_place(text: str) -> tuple[str, tuple[int, int, int]] | None:
    """Return the task, and message, part and segment in it, of an anchor's short form; None for any other text."""
    found = _SHORT_FORM.fullmatch(text[: MOST_CHARS + 1])
    if found is None or not is_identifier(found[1]):
        return None
    position, part, segment = map(int, found.groups()[1:])
    return found[1], (position, part, segment)


def quote_digest(quote: str) -> str:
    """Return the digest of the quoted text that an anchor contains."""
    return sha256(quote.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def segment_id(tenant: str, anchor: Anchor) -> str:
    """Return a segment's UUID (version 8 of RFC 9562), made from its position: archiving again gives the same."""
    place = f"{tenant}/{anchor.task_id}/{anchor.position}/{anchor.part}/{anchor.segment}"
    return uuid_of(sha256(place.encode()).hexdigest())


def task_point_id(tenant: str, task_id: str, holder: str | None = None) -> str:
    """Return the id of the point that stands for what one holder said in a task; None: what all users share."""
    place = f"{tenant}/{task_id}" if holder is None else f"{tenant}/{task_id}/{holder}"
    return uuid_of(sha256(place.encode()).hexdigest())


def uuid_of(digest: str) -> str:
    """Return a UUID (version 8 of RFC 9562) made from the first digits of a hexadecimal digest."""
    return f"{digest[:8]}-{digest[8:12]}-8{digest[13:16]}-a{digest[17:20]}-{digest[20:32]}"


def _unpacked(packed: str) -> Anchor | None:
    values = json.loads(base64.b64decode(packed + "=" * (-len(packed) % 4), altchars=b"-_", validate=True))
    if not isinstance(values, list) or len(values) != len(_FIELDS):
        return None
    return Anchor.model_validate(dict(zip(_FIELDS, values, strict=True)))
