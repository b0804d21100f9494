"""The times at which a node is true: each statement of it begins a time, each contradiction ends one. Pure.

A time in the world that a statement names counts; without one, it is true from when it was said. What is said again
after a contradiction is true again.
"""

from collections.abc import Iterable, Mapping, Sequence

from pentad.shared.graph.knowledge import MemoryNode
from pentad.shared.immutable import immutable
from pentad.shared.memory.points import NODE_KIND
from pentad.shared.segments.anchors import anchor_of, segment_id
from pentad.shared.vectors.points import Detail, Payload

_TRUE, _CONTRADICTED, _RESTS = "true", "contradicted", "rests"
"""Names of the details of a node's point."""
_MOST_SPANS, _MOST_RESTS = 16, 16
"""Numbers of times and of statements that are stored with a point, the newest."""
Span = tuple[int, int | None]
"""First moment, and the first at which it is no longer true; None: it still is. In ms since the epoch."""


@immutable
class TrueTimes:
    """Times at which something is true, in order."""

    spans: tuple[Span, ...]
    contradicted: int | None = None
    """Time of the first contradiction, if any."""

    def at(self, moment: int) -> bool:
        """Whether it was true at this moment."""
        return any(begin <= moment and (end is None or moment < end) for begin, end in self.spans)

    def over(self, moment: int) -> bool:
        """Whether it is no longer true at this moment."""
        return all(end is not None and end <= moment for _, end in self.spans)

    def nearest(self, moment: int) -> Span | None:
        """Return the last time that had begun at this moment, else the first."""
        begun = [span for span in self.spans if span[0] <= moment]
        return begun[-1] if begun else next(iter(self.spans), None)


def times_of(node: MemoryNode, contradicted: Iterable[int]) -> TrueTimes:
    """Return when a node is true. ``contradicted``: times of the statements that contradict it."""
    ends = sorted(contradicted)
    begin = node.learned_at if node.true_from is None else node.true_from
    if not ends:
        return TrueTimes(((begin, node.true_until),))
    spans = _spans([each.at for each in node.supports], ends)
    if node.true_from is not None and spans:
        spans[0] = (begin, spans[0][1])
    if node.true_until is not None and node.true_until < ends[0]:
        spans = [(first, node.true_until) for first, _ in spans[:1]]
    kept = [(first, last) for first, last in spans if last is None or first < last]
    return TrueTimes(tuple(kept[-_MOST_SPANS:]), ends[0])


def _spans(said: Sequence[int], ends: Sequence[int]) -> list[Span]:
    """Return spans: statements begin them, contradictions end them; in the same moment the end counts."""
    spans: list[Span] = []
    begun: int | None = None
    for at, is_end in sorted([(at, False) for at in said] + [(at, True) for at in ends]):
        if is_end and begun is not None:
            spans.append((begun, at))
            begun = None
        elif not is_end and begun is None:
            begun = at
    return spans if begun is None else [*spans, (begun, None)]


def details_of(node: MemoryNode, times: TrueTimes) -> dict[str, Detail]:
    """Return the details of a node's point for `times_kept` and `untrue_among`. Raises ``BadAnchorError``."""
    newest = sorted(node.supports, key=lambda each: (each.at, each.anchor))[-_MOST_RESTS:]
    rests = dict.fromkeys(segment_id(node.owner.tenant, anchor_of(each.anchor)) for each in newest)
    told: dict[str, Detail] = {_RESTS: " ".join(rests)}
    return told | times_told(node, times) | ({} if times.contradicted is None else {_CONTRADICTED: times.contradicted})


def times_told(node: MemoryNode, times: TrueTimes) -> dict[str, Detail]:
    """Return the detail of the times; none where it is true since it was learned."""
    if times.spans == ((node.learned_at, None),):
        return {}
    return {_TRUE: " ".join(f"{begin}-{'' if end is None else end}" for begin, end in times.spans)}


def times_kept(kept: Payload) -> TrueTimes:
    """Return the times in the point of a node; a point without any is true since it was learned."""
    told, contradicted = kept.details.get(_TRUE), kept.details.get(_CONTRADICTED)
    spans = ((kept.at, None),) if told is None else tuple(_span(each) for each in str(told).split())
    return TrueTimes(spans, contradicted if isinstance(contradicted, int) else None)


def untrue_among(found: Mapping[str, Payload], now_ms: int, as_of: int | None) -> frozenset[str]:
    """Return the found points that do not count: nodes that are no longer true, or were not at the time ``as_of``.

    A statement does not count either when all nodes that rest on it are untrue because of a later contradiction.
    """
    known = {name: kept for name, kept in found.items() if kept.kind == NODE_KIND}
    moment = now_ms if as_of is None else as_of
    gone, stays, corrected = set[str](), set[str](), set[str]()
    for name, kept in known.items():
        times, rests = times_kept(kept), str(kept.details.get(_RESTS, "")).split()
        if times.over(moment) if as_of is None else not times.at(moment):
            gone.add(name)
            if times.contradicted is not None and times.contradicted <= moment:
                corrected.update(rests)
        else:
            stays.update(rests)
    return frozenset(gone | (corrected - stays))


def _span(told: str) -> Span:
    begin, _, end = told.partition("-")
    return int(begin), int(end) if end else None
