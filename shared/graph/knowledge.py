"""What the graph keeps: nodes, edges, and the statements that they rest on. Data alone.

What is written several times, in any order and by several writers, ends as the same node or edge: see `merging`.
"""

from enum import StrEnum

from pentad.shared.immutable import immutable
from pentad.shared.owners import Owner


class NodeKind(StrEnum):
    """What a node is."""

    CONCEPT = "concept"
    FACT = "fact"
    PROCEDURE = "procedure"
    QUESTION = "question"
    ANSWER = "answer"
    ENTITY = "entity"
    """A name."""
    TASK = "task"
    """Stands for what one owner said in a task. Its text is the task's id, no words of it."""


class EdgeType(StrEnum):
    """What an edge says of the two nodes that it leads from and to."""

    RELATED_TO = "related_to"
    FOLLOWED_BY = "followed_by"
    CONTRADICTS = "contradicts"
    DERIVED_FROM = "derived_from"
    PART_OF = "part_of"


@immutable
class Support:
    """A statement that a node or an edge rests on."""

    anchor: str
    """Opens the statement. Opaque here."""
    task: str
    user: str | None
    """Who holds it (`Owner.holder`): a user or a session; None: all of the tenant share it."""
    at: int
    """When, in milliseconds since the epoch."""


@immutable
class Metadata:
    """What a client keeps with a node or an edge. Nothing reads it but clients."""

    json: str
    """An object, in the form of `metadata.metadata_text`."""
    at: int
    """When it was told, in milliseconds since the epoch: what was told last counts."""


@immutable
class MemoryNode:
    """Something known. Times are in milliseconds since the epoch."""

    id: str
    """Made from the content and its owner by whoever writes it: the same content has the same one in every run."""
    owner: Owner
    kind: NodeKind
    text: str
    importance: float
    """0 to 1."""
    learned_at: int
    supports: tuple[Support, ...]
    """At least one; in the order of `merging.in_order` when it is read."""
    true_from: int | None = None
    """None: always, as far as is known."""
    true_until: int | None = None
    """The first moment at which it is true no more; None: it still is."""
    merged_into: str | None = None
    """The node that stands for this one."""
    metadata: Metadata | None = None


@immutable
class MemoryEdge:
    """How two nodes belong together. There is one of each type and owner between two nodes, in each direction."""

    owner: Owner
    source: str
    target: str
    type: EdgeType
    weight: float
    """0 to 1: how closely."""
    learned_at: int
    supports: tuple[Support, ...]
    true_from: int | None = None
    true_until: int | None = None
    metadata: Metadata | None = None


@immutable
class BareEdge:
    """An edge without what it rests on."""

    owner: Owner
    source: str
    target: str
    type: EdgeType
    weight: float
    metadata: Metadata | None = None


@immutable
class WalkedEdge:
    """An edge as a walk through the graph needs it; of edges that differ in their owner alone, the heaviest."""

    source: str
    target: str
    type: EdgeType
    weight: float


@immutable
class Tally:
    """How much a tenant's graph holds."""

    nodes: int
    edges: int


@immutable
class GraphCondition:
    """How a store of the graph is, as it says itself: what is missing from it shows when that is compared."""

    identity: str
    """Made with the store: another one has another."""
    written: int | None
    """Nodes and edges that were ever written to it, those that were there aside; None: it does not count."""
    removed: int
    """Of them those that were removed."""
    found: int
    """Nodes and edges that it has."""
