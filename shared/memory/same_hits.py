"""What one owner has said in several places is one hit, with all of its anchors. Pure.

It is so at a search and not when it is written: each place keeps its point, so one that is moved, forgotten or erased
takes nothing of the others along, and a redelivery finds what it left. Nothing merges across owners.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pentad.shared.memory.points import words_kept
from pentad.shared.recall.fusion import RankedSegment
from pentad.shared.vectors.points import Payload

MOST_ANCHORS = 16
"""Of a hit, the newest."""


def each_once(
    ranked: Sequence[RankedSegment], payloads: Mapping[str, Payload], limit: int
) -> list[tuple[RankedSegment, Payload]]:
    """The best ``limit``, the same words of the same owner where they rank best, with the anchors of the others."""
    places: dict[tuple[str | None, str], int] = {}
    chosen: list[RankedSegment] = []
    others: list[list[Payload]] = []
    for each in ranked:
        kept = payloads[each.id]
        said = kept.owner.holder, words_kept(kept) or each.id
        if (place := places.get(said)) is not None:
            others[place].append(kept)
        elif len(chosen) < limit:
            places[said] = len(chosen)
            chosen.append(each)
            others.append([])
    return [
        (replace(each, also=_anchors(more, payloads[each.id].anchor)) if more else each, payloads[each.id])
        for each, more in zip(chosen, others, strict=True)
    ]


def _anchors(others: Sequence[Payload], own: str) -> tuple[str, ...]:
    newest = sorted(others, key=lambda kept: (-kept.at, kept.anchor))
    return tuple(dict.fromkeys(kept.anchor for kept in newest if kept.anchor != own))[: MOST_ANCHORS - 1]
