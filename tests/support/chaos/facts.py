"""Facts that users state in a chaos run, the search results for them at its end, and the faults in these. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pentad.shared.graph.knowledge import MemoryEdge, MemoryNode, Support
from pentad.shared.graph.merging import edge_key, normal_text

_CONSONANTS, _VOWELS, _SYLLABLES = "bcdfghjklmnprstv", "aeiou", 3
_SPREAD = 7919
"""Factor without a common divisor with the number of words: each number gets its own word, unlike its neighbours'."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A sentence that a user says once in the whole run."""

    sentence: str
    user: str | None = None
    """User who owns the fact; None: only its session owns it."""
    session: str | None = None
    """Session in which the fact was stated, if no user was named."""
    erased: bool = False
    """Whether the fact's task was erased."""


@dataclass(frozen=True, slots=True)
class Place:
    """A place at which a search found a sentence."""

    id: str
    anchor: str
    opened: str
    """Text that the anchor opens; '' if it opens nothing."""


@dataclass(frozen=True, slots=True)
class Traced:
    """The search results for a fact at the end of the run."""

    fact: Fact
    places: Sequence[Place] = ()
    """Episodic hits of its owner's search that are exactly the sentence."""
    known: Sequence[Place] = ()
    """Semantic hits with the same words."""
    to_others: Sequence[str] = ()
    """Ids of the hits of another user's search that contain the sentence."""


@dataclass(frozen=True, slots=True)
class FactCount:
    """The figures of the scorecard."""

    taught: int = 0
    lost: int = 0
    """Facts that were not found, or whose anchor opens other words."""
    doubled: int = 0
    """Facts that were found in more than one place."""
    of_others: int = 0
    """Facts that were shown to a user who does not own them."""
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
    """Return the figures with each fault in words. ``learned``: the graph must have every kept fact, too."""
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
    """Return the segments that are stored under more than one id. ``anchors``: anchors of all segments."""
    return [f"the segment at {anchor} is kept {n} times" for anchor, n in Counter(anchors).items() if n > 1]


def twice_in_graph(nodes: Sequence[MemoryNode], edges: Sequence[MemoryEdge]) -> list[str]:
    """Return the nodes and edges that duplicate another, and statements that count twice for a node."""
    same_nodes = Counter(f"{n.owner.holder} {n.kind} {normal_text(n.text)}" for n in nodes if n.merged_into is None)
    same_edges = Counter(edge_key(edge) for edge in edges)
    rests = Counter((i, s.anchor) for i, supports in enumerate(_supports(nodes, edges)) for s in supports)
    faults = [f"a node is there {n} times: {what}" for what, n in same_nodes.items() if n > 1]
    faults += [f"an edge is there {n} times: {what!r}" for what, n in same_edges.items() if n > 1]
    return faults + [f"a node or edge rests {n} times on {anchor}" for (_, anchor), n in rests.items() if n > 1]


def still_known(nodes: Sequence[MemoryNode], edges: Sequence[MemoryEdge], erased: set[str]) -> list[str]:
    """Return the nodes and edges that still have statements of erased tasks."""
    return [
        f"known from the erased {s.task}: {s}" for each in _supports(nodes, edges) for s in each if s.task in erased
    ]


def _supports(nodes: Sequence[MemoryNode], edges: Sequence[MemoryEdge]) -> list[Sequence[Support]]:
    return [*(node.supports for node in nodes), *(edge.supports for edge in edges)]


def sentence_of(number: int) -> str:
    """Return a sentence with two words that no other number has."""
    return f"My {_word(2 * number)} is {_word(2 * number + 1)}."


def _word(number: int) -> str:
    syllables = len(_CONSONANTS) * len(_VOWELS)
    left, word = (number + 1) * _SPREAD % syllables**_SYLLABLES, ""
    for _ in range(_SYLLABLES):
        left, one = divmod(left, syllables)
        word += _CONSONANTS[one // len(_VOWELS)] + _VOWELS[one % len(_VOWELS)]
    return word
