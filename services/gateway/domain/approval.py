"""Reading of a person's decision about a tool call that waits for one. Pure."""

import re
from collections.abc import Mapping
from typing import Any

from pydantic_core import to_json

from pentad.contracts.approvals import MAX_EDITED, MAX_REASON, digest_of_args
from pentad.services.gateway.domain.frames import UnreadableError
from pentad.shared.immutable import immutable

_FIELDS = frozenset({"approved", "args", "reason", "args_digest"})
_DIGEST = re.compile(r"[0-9a-f]{64}")


@immutable
class AskedDecision:
    """A person's decision about a call, as it was sent."""

    approved: bool
    args: dict[str, Any] | None
    """Arguments with which the call is to be made instead; None: those that it was asked with."""
    reason: str
    args_digest: str
    """Digest of the arguments that the person has seen; '' if it was not sent."""

    def key(self, asked_digest: str) -> str:
        """Return what a repeated decision has in common with the first. ``asked_digest``: of the call's arguments."""
        if not self.approved:
            return "refused"
        return f"approved:{asked_digest if self.args is None else digest_of_args(self.args)}"


def read_decision(body: Mapping[str, Any]) -> AskedDecision:
    """Read a client's decision. Raises ``UnreadableError``."""
    if unknown := sorted(set(body) - _FIELDS):
        raise UnreadableError(f"{unknown[0][:100]}: not known here; there are: {', '.join(sorted(_FIELDS))}")
    approved, args = body.get("approved"), body.get("args")
    reason, digest = body.get("reason"), body.get("args_digest")
    if not isinstance(approved, bool):
        raise UnreadableError("approved: true or false is expected")
    if args is not None and not isinstance(args, dict):
        raise UnreadableError("args: an object is expected, the arguments with which the call is to be made")
    if args is not None and not approved:
        raise UnreadableError("args: a call that is refused is not made, so leave them out")
    if args is not None and len(to_json(args)) > MAX_EDITED:
        raise UnreadableError(f"args: at most {MAX_EDITED} bytes as JSON are expected")
    if reason is not None and (not isinstance(reason, str) or len(reason) > MAX_REASON):
        raise UnreadableError(f"reason: a text of at most {MAX_REASON} characters is expected")
    if digest is not None and (not isinstance(digest, str) or not _DIGEST.fullmatch(digest)):
        raise UnreadableError("args_digest: the digest of the arguments is expected, as `approval_request` names it")
    return AskedDecision(approved, args, reason or "", digest or "")
