"""What is taught in a chaos run, what a search shows of it in the end, and what is wrong with that. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pentad.shared.graph.knowledge import MemoryEdge, MemoryNode, Support
from pentad.shared.graph.merging import edge_key, normal_text

_CONSONANTS, _VOWELS, _SYLLABLES = "bcdfghjklmnprstv", "aeiou", 3
_SPREAD = 7919
"""Has no factor in common with the number of words: each number has a word of its own, neighbours are unlike."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A sentence that a user says once in the whole run."""

    sentence: str
    user: str | None = None
    """Whose it is; None: its session's alone."""
    session: str | None = None
    """In which it was said, where no user was named."""
    erased: bool = False
    """Its task was erased."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a search found a sentence."""

    id: str
    anchor: str
    opened: str
    """What the anchor opens to; '' for nothing."""


@dataclass(frozen=True, slots=True)
class Traced:
    """What searches show of a fact in the end."""

    fact: Fact
    places: Sequence[Place] = ()
    """What was said, among the hits of its owner's search, that is exactly this."""
    known: Sequence[Place] = ()
    """What is known from it, in the same words."""
    to_others: Sequence[str] = ()
    """Ids of what another user's search shows with this sentence in it."""


@dataclass(frozen=True, slots=True)
class FactCount:
    """The figures of the scorecard."""

    taught: int = 0
    lost: int = 0
    """Not found as it was said, or not known where it was learned; or its anchor opens to something else."""
    doubled: int = 0
    """Found in more than one place."""
    of_others: int = 0
    """Shown to a user whose they are not."""
    erased: int = 0
    erased_but_found: int = 0
    faults: tuple[str, ...] = ()

    def line(self) -> str:
        """The figures in one line."""
        return (
            f"facts taught {self.taught}, lost {self.lost}, doubled {self.doubled}, of others {self.of_others}; "
            f"erased {self.erased}, erased but found {self.erased_but_found}"
        )


def counted(traced: Sequence[Traced], *, learned: bool = False) -> FactCount:
    """The figures, with each fault in words. ``learned``: each fact that is kept must be known, too."""
    kept, erased = [t for t in traced if not t.fact.erased], [t for t in traced if t.fact.erased]
    lost = [t for t in kept if not _opens(t, t.places) or (learned and not _opens(t, t.known))]
    doubled = [t for t in kept if len(t.places) > 1 or len(t.known) > 1]
    foreign = [t for t in kept if t.to_others]
    found = [t for t in erased if t.places or t.known or t.to_others]
    named = {"lost": lost, "doubled": doubled, "shown to others": foreign, "erased but found": found}
    faults = tuple(f"a fact is {what}: {t}" for what, which in named.items() for t in which)
    return FactCount(len(kept), len(lost), len(doubled), len(foreign), len(erased), len(found), faults)


def _opens(traced: Traced, places: Sequence[Place]) -> bool:
    return any(place.opened == traced.fact.sentence for place in places)


def twice_in_memory(anchors: Iterable[str]) -> list[str]:
    """Segments that are kept under more than one id. ``anchors``: of all segments."""
    return [f"the segment at {anchor} is kept {n} times" for anchor, n in Counter(anchors).items() if n > 1]


def twice_in_graph(nodes: Sequence[MemoryNode], edges: Sequence[MemoryEdge]) -> list[str]:
    """Nodes and edges that say the same as another, and statements that count twice for one."""
    same_nodes = Counter(f"{n.owner.holder} {n.kind} {normal_text(n.text)}" for n in nodes if n.merged_into is None)
    same_edges = Counter(edge_key(edge) for edge in edges)
    rests = Counter((i, s.anchor) for i, supports in enumerate(_supports(nodes, edges)) for s in supports)
    faults = [f"a node is there {n} times: {what}" for what, n in same_nodes.items() if n > 1]
    faults += [f"an edge is there {n} times: {what!r}" for what, n in same_edges.items() if n > 1]
    return faults + [f"a node or edge rests {n} times on {anchor}" for (_, anchor), n in rests.items() if n > 1]


def still_known(nodes: Sequence[MemoryNode], edges: Sequence[MemoryEdge], erased: set[str]) -> list[str]:
    """What of the graph still rests on tasks that were erased."""
    return [
        f"known from the erased {s.task}: {s}" for each in _supports(nodes, edges) for s in each if s.task in erased
    ]


def _supports(nodes: Sequence[MemoryNode], edges: Sequence[MemoryEdge]) -> list[Sequence[Support]]:
    return [*(node.supports for node in nodes), *(edge.supports for edge in edges)]


def sentence_of(number: int) -> str:
    """A sentence of two words that no other number has."""
    return f"My {_word(2 * number)} is {_word(2 * number + 1)}."


def _word(number: int) -> str:
    syllables = len(_CONSONANTS) * len(_VOWELS)
    left, word = (number + 1) * _SPREAD % syllables**_SYLLABLES, ""
    for _ in range(_SYLLABLES):
        left, one = divmod(left, syllables)
        word += _CONSONANTS[one // len(_VOWELS)] + _VOWELS[one % len(_VOWELS)]
    return word
