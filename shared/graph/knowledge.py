"""The data of the graph: nodes, edges, and the statements that they rest on.

A node or edge that is written several times, in any order and by several writers, has one result: see `merging`.
"""

from enum import StrEnum

from pentad.shared.immutable import immutable
from pentad.shared.owners import Owner


class NodeKind(StrEnum):
    """The kind of a node."""

    CONCEPT = "concept"
    FACT = "fact"
    PROCEDURE = "procedure"
    QUESTION = "question"
    ANSWER = "answer"
    ENTITY = "entity"
    """A proper name."""
    TASK = "task"
    """Stands for what one owner said in a task. Its text is the task's id, without any words of it."""


NAMING_KINDS = (NodeKind.ENTITY.value, NodeKind.TASK.value)
"""Kinds of nodes that join what is known, and that nobody forgets by themselves."""


class EdgeType(StrEnum):
    """The relation between the two nodes of an edge."""

    RELATED_TO = "related_to"
    FOLLOWED_BY = "followed_by"
    CONTRADICTS = "contradicts"
    DERIVED_FROM = "derived_from"
    PART_OF = "part_of"


@immutable
class Support:
    """A statement that a node or an edge rests on."""

    anchor: str
    """Anchor that opens the statement; opaque here."""
    task: str
    user: str | None
    """Holder of the statement (`Owner.holder`): a user or a session; None: all users of the tenant share it."""
    at: int
    """Time of the statement, in milliseconds since the epoch."""


@immutable
class Metadata:
    """JSON that a client stores with a node or an edge. Pentad does not interpret it."""

    json: str
    """A JSON object in the form of `metadata.metadata_text`."""
    at: int
    """Time at which the client sent it, in milliseconds since the epoch: the latest counts."""


@immutable
class MemoryNode:
    """A piece of knowledge. Times are in milliseconds since the epoch."""

    id: str
    """Id made from the content and its owner by the writer: the same content has the same id in every run."""
    owner: Owner
    kind: NodeKind
    text: str
    importance: float
    """Importance, 0 to 1."""
    learned_at: int
    supports: tuple[Support, ...]
    """Statements that it rests on, at least one; in the order of `merging.sorted_supports` when it is read."""
    true_from: int | None = None
    """Time from which it is true; None: always, as far as is known."""
    true_until: int | None = None
    """First moment at which it is no longer true; None: it is still true."""
    merged_into: str | None = None
    """Id of the node that replaces this one."""
    metadata: Metadata | None = None


@immutable
class MemoryEdge:
    """A relation between two nodes. There is one of each type and owner between two nodes, in each direction."""

    owner: Owner
    source: str
    target: str
    type: EdgeType
    weight: float
    """Closeness of the relation, 0 to 1."""
    learned_at: int
    supports: tuple[Support, ...]
    true_from: int | None = None
    true_until: int | None = None
    metadata: Metadata | None = None


@immutable
class BareEdge:
    """An edge without its supports."""

    owner: Owner
    source: str
    target: str
    type: EdgeType
    weight: float
    metadata: Metadata | None = None


@immutable
class WalkedEdge:
    """An edge as a walk needs it; of edges that differ only in their owner, the heaviest."""

    source: str
    target: str
    type: EdgeType
    weight: float


@immutable
class Tally:
    """Numbers of a tenant's nodes and edges."""

    nodes: int
    edges: int
    names: int = 0
    """Number of the nodes that are names or tasks: they last as long as the words that mention them."""


@immutable
class GraphCondition:
    """The condition of a store of the graph, as it reports it; comparing two shows what is missing."""

    identity: str
    """Id made together with the store: another store has another one."""
    written: int | None
    """Number of nodes and edges ever written, without those that existed before; None: the store does not count."""
    removed: int
    """Number of nodes and edges that were removed."""
    found: int
    """Number of nodes and edges that exist."""
