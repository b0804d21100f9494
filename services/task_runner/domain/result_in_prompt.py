"""Shortens a tool's result for prompts: files to a line, a long text to its beginning and end. Pure.

The whole result is kept beside the task under the id of its call, where the tool `result_read` reads it in ranges.
"""

from collections.abc import Mapping

from pentad.contracts.tools import RESULT_READ
from pentad.shared.clipping import clip
from pentad.shared.data_urls import without_bytes
from pentad.shared.immutable import immutable

_END = 4
"""The end of a long result gets one part in so many of what is shown."""
_NOTE = 256
"""Bytes that are kept free for what is said of the rest."""


@immutable
class KeptResult:
    """A result, and what prompts hold of it: the same text where that is all of it."""

    whole: str
    shown: str
    changed: bool = False
    """Whether a hook has made it: it is kept in the place of what the tool returned."""
    problem: str = ""
    """Reason why a hook has not let it through; '' for all others."""


KeptResults = Mapping[str, KeptResult]
"""Results by the ids of their calls."""


def in_prompt(result: str, call: str, limit: int) -> str:
    """The result itself where it may stand in a prompt, at most ``limit`` bytes; else a part that says where the
    whole is.
    """
    described = without_bytes(result)
    if clip(described, limit) is described:
        kept = f"\n[The whole result is kept as {call}.]"
        return result if described == result else described + kept
    room = max(0, limit - _NOTE)
    begin = clip(described, room - room // _END)
    end = _last(described, room // _END)
    left_out = len(described) - len(begin) - len(end)
    note = f"[{left_out:,} of {len(described):,} characters are left out here. {RESULT_READ} reads them: ref {call}, "
    return f"{begin}\n{note}offset {len(begin)}.]\n{end}"


def _last(text: str, limit: int) -> str:
    return text[-limit:].encode("utf-8", errors="replace")[-limit:].decode("utf-8", errors="ignore") if limit else ""
