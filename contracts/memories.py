"""What clients are shown of long-term memory: hits with their anchors, what an anchor opens to, what is known."""

from enum import StrEnum
from typing import Any, Literal

from pydantic import Field

from pentad.contracts.envelope import Contract
from pentad.contracts.records import SegmentType


class MemoryKind(StrEnum):
    """Which memory it is."""

    WORKING = "working"
    """What is said in a conversation now: its tasks that have not been archived."""
    EPISODIC = "episodic"
    """What was said, as it was said."""
    SEMANTIC = "semantic"
    """What is known."""


class QuotedSegment(Contract):
    """A piece of what was said in a task."""

    id: str
    type: SegmentType
    content: str
    speaker: str
    """The user's name, else the role."""
    anchor: str
    task_id: str
    at: str | None
    """When it was said; None where that is not known."""


class PathEdge(Contract):
    """An edge along which a walk went, from one of its ends to the other."""

    source: str
    target: str
    type: str
    """As of `KnownEdge`."""
    weight: float


class FoundMemory(Contract):
    """A memory that a question found."""

    id: str
    kind: str
    """A `MemoryKind`. What is ``semantic`` has the id of its node."""
    type: str
    content: str
    score: float
    """0 to 1: how it compares with the others that were found, not whether it answers."""
    parts: dict[str, float]
    """What the score is made of, each part with its weight."""
    anchor: str
    """Opens the place in its task where it stands. An opaque string."""
    task_id: str
    at: str | None
    importance: float | None = None
    """0 to 1: how much it matters; None where that is not known."""
    anchors: list[str] | None = None
    """Where the same owner says the same words in several places: all of them, ``anchor`` the first."""
    true_from: str | None = None
    """Of what is known alone: since when it is true; where no time was told, since it was said."""
    true_until: str | None = None
    """The first moment at which it is true no more; None: it still is."""
    metadata: dict[str, Any] | None = None
    """Of what is known alone: what a client keeps with it."""
    path: list[PathEdge] | None = None
    """Of what a walk through the graph came to: the edges from this node to the one where the walk began."""


class RecalledTask(Contract):
    """A task that hits are from, or that a walk from them has come to."""

    task_id: str
    at: str | None
    """When the newest of it was said that was come to; None where that is not known."""
    hits: list[str]
    """Ids of the hits that are from it, the best first."""


class RecalledMemories(Contract):
    """What a question finds, and the tasks that it is from."""

    hits: list[FoundMemory]
    """The best first."""
    tasks: list[RecalledTask]
    """Those of the best hits first, then those that a walk has come to; at most 20."""


class OpenedAnchor(Contract):
    """The very words that an anchor points at, with what stands before and after them in their task."""

    anchor: str
    focus: QuotedSegment
    before: list[QuotedSegment]
    """The nearest last."""
    after: list[QuotedSegment]
    """The nearest first."""


class KeptEpisode(Contract):
    """What somebody had kept without saying it in a task."""

    task_id: str
    """Stands for the task that it would have been said in."""
    anchor: str
    """Opens it. An opaque string."""
    at: str


class MemoryStats(Contract):
    """What a tenant's memory holds now."""

    segments: int
    tasks: int
    nodes: int = 0
    """Of the graph of what is known."""
    edges: int = 0
    lag_s: float | None = None
    """How long the task that has waited longest waits to be remembered; 0: none waits, None: not asked."""


class SupportingStatement(Contract):
    """A statement that a node rests on."""

    anchor: str
    """Opens it. An opaque string."""
    task_id: str
    at: str | None
    """When it was made; None where that is not known."""


class KnownNode(Contract):
    """Something known, with what it rests on."""

    id: str
    kind: str
    """``concept``, ``fact``, ``procedure``, ``question``, ``answer``; ``entity``: a name; ``task``: its text is the
    task's id."""
    text: str
    user_id: str | None
    """The user whose it is; None: a session's, or shared by all of the tenant."""
    session_id: str | None = None
    """The session whose alone it is, where no user was named; None: a user's, or shared by all of the tenant."""
    importance: float
    learned_at: str
    true_from: str | None
    """None: always, as far as is known."""
    true_until: str | None
    """The first moment at which it is true no more; None: it still is."""
    supported_by: int
    """How many statements it rests on."""
    supports: list[SupportingStatement]
    """The newest of them first, at most 50."""
    metadata: dict[str, Any] = Field(default_factory=dict)
    """What a client keeps with it; empty where none does."""


class ReachedNode(KnownNode):
    """A node that a walk came to."""

    depth: int
    """Edges from its start."""
    cost: float
    """Of the way here: the less, the closer."""
    came_from: str | None
    """The node before it; None at a start."""


class KnownEdge(Contract):
    """How two nodes belong together."""

    source: str
    target: str
    type: str
    """``related_to``, ``followed_by``, ``contradicts``, ``derived_from``, ``part_of``."""
    weight: float
    """0 to 1: how closely."""
    id: str | None = None
    """Made from its ends, type and owner: the same wherever it is shown. None: an earlier gateway does not say it."""
    user_id: str | None = None
    """Whose it is, as of a `KnownNode`."""
    session_id: str | None = None
    """Likewise."""
    metadata: dict[str, Any] = Field(default_factory=dict)
    """What a client keeps with it; empty where none does."""


class Neighbourhood(Contract):
    """What lies around a node, in the order in which it was come to; the node itself is the first.

    Of several, depth first comes to one after the other; else all of them are the first.
    """

    nodes: list[ReachedNode]
    edges: list[KnownEdge]
    """Between these nodes, the heaviest first."""


class MemoryDamage(Contract):
    """Something is wrong with a store of the memory."""

    store: Literal["vectors", "graph"]
    what: str
    do: str
    """What to do about it."""


class MemoryRebuild(Contract):
    """How far a rebuild of the memory is: of all tenants, from their records and from the tasks in Redis."""

    stage: str | None
    """``forgotten``, ``live``, ``records``, ``links``, ``links again``, then ``ended``; None: there was none lately."""
    done: int = 0
    """Tasks and records that it has gone through, those that failed included."""
    total: int = 0
    """As many as there were when it began."""
    failed: int = 0
    left_out: int = 0
    """Edges that were added by hand under an earlier version: no record says what they were."""
    failures: list[str] = Field(default_factory=list)
    """Some tasks that failed, each with the reason."""
    waits_for: str | None = None
    """What is away, so that nothing happens now."""
    started_at: str | None = None
    ended_at: str | None = None
    damage: list[MemoryDamage] = Field(default_factory=list)
    """What is wrong with the stores, as archivers have seen it last."""

    @property
    def has_ended(self) -> bool:
        return self.ended_at is not None
