"""Names as terms of a segment's sparse vector, so that one search for words looks up many names.

The words of a question are never such terms, so names change no score of a search for words.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from zlib import crc32

from pentad.shared.recall.name_paths import MOST_MENTIONS
from pentad.shared.recall.proper_names import NamesInText
from pentad.shared.recall.terms import SparseTerms
from pentad.shared.vectors.limits import MOST_HITS
from pentad.shared.vectors.points import Detail, Hit

_SEPARATOR = "\n"
"""Separator of names; no name contains it."""


def name_terms(names: Iterable[str]) -> SparseTerms:
    """Return names as terms, each of the same weight: the rarer one comes first."""
    return {crc32(f"name\x1f{name}".encode("utf-8", "replace")): 1.0 for name in names}


def names_told(names: NamesInText) -> dict[str, Detail]:
    """Return the details that store a segment's names."""
    told = {"names": _SEPARATOR.join(names.sure), "perhaps": _SEPARATOR.join(names.perhaps)}
    return {key: text.encode("utf-8", "replace").decode() for key, text in told.items() if text}


def names_kept(details: Mapping[str, Detail]) -> NamesInText:
    """Return the names that `names_told` stored."""
    sure, perhaps = (str(details.get(key, "")) for key in ("names", "perhaps"))
    return NamesInText(
        tuple(sure.split(_SEPARATOR)) if sure else (), tuple(perhaps.split(_SEPARATOR)) if perhaps else ()
    )


def most_asked(names: Collection[str]) -> int:
    """Return how many hits a look-up of these names needs: for each name one more than makes it common."""
    return min(MOST_HITS, len(names) * (MOST_MENTIONS + 1))


def mentions_in(hits: Sequence[Hit], names: Collection[str]) -> dict[str, list[str]]:
    """Return for each name the ids of the segments that mention it, for `connected`.

    ``hits`` are those of the look-up, best first. When there are as many as were asked for, names may be cut off: only
    those names are returned whose segments are certainly all here, because the name alone scores better than the last
    hit.
    """
    found: dict[str, list[str]] = {}
    whole = set(names) if len(hits) < most_asked(names) else set()
    for hit in hits:
        kept = names_kept(hit.payload.details)
        mentioned = {*kept.sure, *kept.perhaps}.intersection(names)
        for name in mentioned:
            found.setdefault(name, []).append(hit.id)
        if len(mentioned) == 1 and hit.score > hits[-1].score:
            whole |= mentioned
    return {name: ids for name, ids in found.items() if name in whole}
