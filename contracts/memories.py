"""The views of long-term memory that clients get: hits with their anchors, opened anchors, and the knowledge graph."""

from enum import StrEnum
from typing import Any, Literal

from pydantic import Field

from pentad.contracts.envelope import Contract
from pentad.contracts.records import Anchor, SegmentType, Task, TaskStep


class MemoryKind(StrEnum):
    """The kind of a memory."""

    WORKING = "working"
    """Messages of the current conversation: those of its tasks that are not archived yet."""
    EPISODIC = "episodic"
    """Words as they were said in finished tasks."""
    SEMANTIC = "semantic"
    """Nodes of the graph: facts, concepts and other knowledge taken from tasks."""


class QuotedSegment(Contract):
    """A segment of a task's transcript, quoted."""

    id: str
    type: SegmentType
    content: str
    speaker: str
    """Name of the user who said it, else the role."""
    anchor: str
    task_id: str
    at: str | None
    """Time at which the segment was said; None if unknown."""


class PathEdge(Contract):
    """An edge of the graph that a walk followed, from ``source`` to ``target``."""

    source: str
    target: str
    type: str
    """Type of the edge, as in `KnownEdge`."""
    weight: float


class FoundMemory(Contract):
    """A memory that a search found."""

    id: str
    kind: str
    """Kind of the memory, a `MemoryKind`. A ``semantic`` one has the id of its node."""
    type: str
    content: str
    score: float
    """Rank among the hits, 0 to 1; it does not say whether the memory answers the question."""
    parts: dict[str, float]
    """Parts of the score by name, each with its weight applied."""
    anchor: str
    """Opaque string that opens the place in the task where the memory comes from."""
    task_id: str
    at: str | None
    importance: float | None = None
    """Importance, 0 to 1; None if unknown."""
    anchors: list[str] | None = None
    """Anchors of all places where the same owner said the same words, if there are several; ``anchor`` is the first."""
    true_from: str | None = None
    """Time since which a ``semantic`` memory is true: since it was said, if no other time was given."""
    true_until: str | None = None
    """Time from which on it is no longer true; None if it still is."""
    metadata: dict[str, Any] | None = None
    """Data that a client keeps with a ``semantic`` memory."""
    path: list[PathEdge] | None = None
    """Edges from this node to the start of the walk through the graph, if a walk found it."""


class RecalledTask(Contract):
    """A task from which hits come, or which a walk from the hits reached."""

    task_id: str
    at: str | None
    """Time of the newest words of the task that were found; None if unknown."""
    hits: list[str]
    """Ids of the hits that come from the task, the best first."""
    task: Task | None = None
    """The task itself; None: it was not asked for, its data is gone, or it is another user's or session's."""


class RecalledMemories(Contract):
    """The result of a search: memories, and the tasks from which they come."""

    hits: list[FoundMemory]
    """Memories, the best first."""
    tasks: list[RecalledTask]
    """Tasks of the best hits first, then tasks that a walk reached; at most 20."""


class WholeTask(Contract):
    """A task from which a memory comes, with its steps."""

    task: Task
    steps: list[TaskStep]
    """Steps of the task, the first one first, as far as one page of them has room."""
    next: str | None = None
    """Cursor of the page of steps that follows; None: these are all."""


class OpenedAnchor(Contract):
    """The exact words that an anchor points at, with the segments before and after them in their task."""

    anchor: str
    focus: QuotedSegment
    before: list[QuotedSegment]
    """Segments before the words, the nearest last."""
    after: list[QuotedSegment]
    """Segments after the words, the nearest first."""
    place: Anchor | None = None
    """Fields of the anchor. Earlier gateways do not give them."""
    short: str | None = None
    """The anchor in its short form for people."""
    whole: WholeTask | None = None
    """The whole task; None: it was not asked for."""


class KeptEpisode(Contract):
    """The answer to a client that stored an episode without saying it in a task."""

    task_id: str
    """Id that stands for the task in which the episode would have been said."""
    anchor: str
    """Opaque string that opens the episode."""
    at: str


class ExtractionToday(Contract):
    """The tokens that a model has taken today (UTC) to say what is known from a tenant's tasks."""

    tokens: int
    most: int
    """Tokens that it may take today for this tenant."""
    refused: int
    """Tasks that it was not asked about, because too few tokens were left: their facts are found by rule."""


class MemoryStats(Contract):
    """The size of a tenant's memory."""

    segments: int
    tasks: int
    nodes: int | None = 0
    """Nodes of the knowledge graph; None: the graph does not answer."""
    edges: int | None = 0
    """Edges of the knowledge graph; None: the graph does not answer."""
    lag_s: float | None = None
    """Seconds that the longest waiting task has waited to be remembered, or to be learned from; 0: none waits; None:
    not asked for."""
    extraction: ExtractionToday | None = None
    """Extraction of knowledge by a model today; None when no model was asked."""


class SupportingStatement(Contract):
    """A statement that supports a node."""

    anchor: str
    """Opens it. An opaque string."""
    task_id: str
    at: str | None
    """Time at which the statement was made; None if unknown."""


class NodeSource(Contract):
    """The first source of a node."""

    task_id: str
    """Task in which it was said; for a node that was added by hand, the id that stands for one."""
    at: str | None
    """Time at which it was said or added; None if unknown."""
    by_hand: bool
    """Whether a person added the node, and no task led to it."""


class KnownNode(Contract):
    """A node of the knowledge graph, with the statements that support it."""

    id: str
    kind: str
    """Kind of the node: ``concept``, ``fact``, ``procedure``, ``question``, ``answer``; ``entity``: a name; ``task``:
    its text is the task's id."""
    text: str
    user_id: str | None
    """Id of the user who owns the node; None: a session owns it, or the whole tenant shares it."""
    session_id: str | None = None
    """Id of the session that owns the node, if no user was named; None: a user owns it, or the whole tenant shares
    it."""
    importance: float
    learned_at: str
    true_from: str | None
    """Time since which the node is true; None: no start is known."""
    true_until: str | None
    """Time from which on the node is no longer true; None if it still is."""
    supported_by: int
    """Number of statements that support the node."""
    supports: list[SupportingStatement]
    """Statements that support the node, the newest first, at most 50."""
    metadata: dict[str, Any] = Field(default_factory=dict)
    """Data that a client keeps with the node; empty if there is none."""
    source: NodeSource | None = None
    """First of the sources that the reader may see; None: there is none, or an earlier gateway answers."""


class ReachedNode(KnownNode):
    """A node that a walk through the graph reached."""

    depth: int
    """Number of edges between the start of the walk and this node."""
    cost: float
    """Cost of the path to this node: the lower, the closer."""
    came_from: str | None
    """Id of the node before this one on the path; None for a start."""


class KnownEdge(Contract):
    """An edge of the knowledge graph: how two nodes belong together."""

    source: str
    target: str
    type: str
    """Type of the edge: ``related_to``, ``followed_by``, ``contradicts``, ``derived_from``, ``part_of``."""
    weight: float
    """Strength of the edge, 0 to 1."""
    id: str | None = None
    """Id made from the edge's ends, type and owner: the same wherever the edge is shown. Earlier gateways do not give
    it."""
    user_id: str | None = None
    """Id of the user who owns the edge, as in `KnownNode`."""
    session_id: str | None = None
    """Id of the session that owns the edge, as in `KnownNode`."""
    metadata: dict[str, Any] = Field(default_factory=dict)
    """Data that a client keeps with the edge; empty if there is none."""


class Neighbourhood(Contract):
    """The surroundings of one or more nodes, in the order in which a walk reached them.

    The starts come first; in a depth-first walk from several, each start comes before the nodes reached from it.
    """

    nodes: list[ReachedNode]
    edges: list[KnownEdge]
    """Edges between these nodes, and from them to those of earlier pages, the heaviest first."""
    next: str | None = None
    """Cursor of the next page: the walk reaches more nodes. None at its end, and after 5,000."""


class MemoryDamage(Contract):
    """A fault of one of the memory's stores."""

    store: Literal["vectors", "graph"]
    what: str
    do: str
    """Advice on what to do about the fault."""


class MemoryRebuild(Contract):
    """The progress of a rebuild of the memory of all tenants from their records and from the tasks in Redis."""

    stage: str | None
    """Stage of the rebuild: ``forgotten``, ``live``, ``records``, ``links``, ``links again``, then ``ended``; None:
    there was no rebuild lately."""
    done: int = 0
    """Number of tasks and records that were processed, including those that failed."""
    total: int = 0
    """Number of tasks and records at the beginning of the rebuild."""
    failed: int = 0
    left_out: int = 0
    """Number of edges that were lost: a person added them under an earlier version, and no record contains them."""
    failures: list[str] = Field(default_factory=list)
    """Some of the tasks that failed, each with the reason."""
    waits_for: str | None = None
    """Name of the unavailable store or model for which the rebuild waits."""
    started_at: str | None = None
    ended_at: str | None = None
    damage: list[MemoryDamage] = Field(default_factory=list)
    """Faults of the stores that archivers found last."""

    @property
    def has_ended(self) -> bool:
        return self.ended_at is not None
