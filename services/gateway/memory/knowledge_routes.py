"""The routes of the knowledge graph, in the tenant of the request."""

from typing import TYPE_CHECKING

from pentad.contracts.ids import is_identifier
from pentad.services.gateway.domain.additions import KINDS, read_edge, read_node
from pentad.services.gateway.edge.http import answer, number_of, owner_of, read_asked, tenant_of, time_of
from pentad.services.gateway.edge.operations import operation
from pentad.services.gateway.edge.problems import invalid, missing
from pentad.services.gateway.edge.schemas import TEXT, Json, gives, json_body, path, query, ref
from pentad.services.gateway.memory.knowledge import Knowledge
from pentad.services.gateway.memory.memory_turns import MemoryTurns
from pentad.services.gateway.memory.statements import KnowledgeEdits
from pentad.shared.graph import metadata
from pentad.shared.graph.knowledge import EdgeType
from pentad.shared.graph.traversal import MOST_DEPTH, STRATEGIES, Walk
from pentad.shared.graph.traversal import MOST_NODES as MOST_WALKED

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

DEPTH_DEFAULT = 2
NODES_DEFAULT, MOST_NODES = 50, 200
MOST_STARTS = 16
"""Nodes at which one walk may begin."""

_USER: Json = {"type": "string", "description": "whose it is; shared by all of the tenant when missing"}
_TIME: Json = {"type": "string", "description": "RFC 3339"}
_METADATA: Json = {
    "type": "object",
    "description": (
        f"kept as it is: at most {metadata.MOST_BYTES} bytes of JSON, {metadata.MOST_KEYS} keys, "
        f"{metadata.MOST_DEPTH} deep. It replaces what was "
        "kept before, which stays when it is missing; `{}` takes it away"
    ),
}
_NODE: Json = {
    "type": "object",
    "properties": {
        "kind": {"enum": list(KINDS)},
        "text": {"type": "string", "description": "at most 2,000 characters"},
        "user_id": _USER,
        "importance": {"type": "number", "description": "0 to 1; 0.5 when missing"},
        "true_from": _TIME,
        "true_until": _TIME,
        "metadata": _METADATA,
    },
    "required": ["kind", "text"],
}
_EDGE: Json = {
    "type": "object",
    "properties": {
        "source": TEXT,
        "target": TEXT,
        "type": {"enum": list(EdgeType)},
        "weight": {"type": "number", "description": "0 to 1; 0.5 when missing"},
        "text": {"type": "string", "description": "why, at most 2,000 characters"},
        "user_id": _USER,
        "metadata": _METADATA,
    },
    "required": ["source", "target", "type"],
}
_SEES = (
    query("user_id", "string", "sees what is this user's too, beside what the tenant shares"),
    query("session_id", "string", "sees what is this session's too"),
)


class KnowledgeRoutes:
    """Routes of the tenant's knowledge graph."""

    def __init__(self, knowledge: Knowledge, edits: KnowledgeEdits, turns: MemoryTurns) -> None:
        self._knowledge, self._edits, self._turns = knowledge, edits, turns

    @operation(
        "POST",
        "/v1/memory/nodes",
        "Keep something that a person knows; it rests on a statement that is kept, and searches find it",
        body=json_body(_NODE),
        problems=(400, 413, 415, 422),
        _201=gives("kept, perhaps already", ref("KnownNode")),
    )
    async def add_node(self, request: "Request") -> "Response":
        """Add a node: something that a person knows."""
        tenant = tenant_of(request)
        asked = await read_asked(request, read_node)
        async with self._turns.turn(tenant):
            node = await self._edits.add_node(tenant, asked)
        return answer(node.model_dump(mode="json"), 201)

    @operation(
        "POST",
        "/v1/memory/edges",
        "Keep how two nodes belong together; what is contradicted is true no more from now on",
        body=json_body(_EDGE),
        problems=(400, 404, 413, 415, 422),
        _201=gives("kept, perhaps already", ref("KnownEdge")),
    )
    async def add_edge(self, request: "Request") -> "Response":
        """Add an edge between two nodes."""
        tenant = tenant_of(request)
        asked = await read_asked(request, read_edge)
        async with self._turns.turn(tenant):
            edge = await self._edits.add_edge(tenant, asked)
        return answer(edge.model_dump(mode="json"), 201)

    @operation(
        "GET",
        "/v1/memory/nodes/{node}",
        "Something known, with the statements that it rests on",
        path("node"),
        *_SEES,
        problems=(404, 422),
        _200=gives("", ref("KnownNode")),
    )
    async def get_node(self, request: "Request") -> "Response":
        """Return a node with its statements."""
        owner, name = owner_of(request), _node_of(request)
        async with self._turns.turn(owner.tenant):
            node = await self._knowledge.node(owner, name)
        return answer(node.model_dump(mode="json"))

    @operation(
        "DELETE",
        "/v1/memory/nodes/{node}",
        "Take a node away with its edges; the statements that it rested on stay",
        path("node"),
        *_SEES,
        problems=(404, 422),
        _204=gives("gone"),
    )
    async def delete_node(self, request: "Request") -> "Response":
        """Remove a node with its edges."""
        from starlette.responses import Response

        owner, name = owner_of(request), _node_of(request)
        async with self._turns.turn(owner.tenant):
            await self._edits.remove_node(owner, name)
        return Response(status_code=204)

    @operation(
        "GET",
        "/v1/memory/nodes/{node}/neighbours",
        "What lies around a node, or around several, in the order in which a walk comes to it",
        path("node"),
        query("start", "string", "a node to begin at as well; may be given 15 times"),
        query("depth", "integer", "edges from a start; 2 when missing", minimum=0, maximum=6),
        query("limit", "integer", "nodes of a page; 50 when missing", minimum=1, maximum=200),
        query("cursor", "string", "the `next` of the page before; all pages of a walk have 5,000 nodes at most"),
        query("strategy", "string", "`bfs` (when missing), `dfs`, `astar`: along the heaviest edges first"),
        query("type", "string", "only along edges of this type; may be given several times"),
        query("as_of", "string", "RFC 3339: only along what was true at that time"),
        *_SEES,
        problems=(404, 422),
        _200=gives("", ref("Neighbourhood")),
    )
    async def get_neighbours(self, request: "Request") -> "Response":
        """Return the surroundings of one or more nodes."""
        given = request.query_params
        strategy = given.get("strategy", "bfs")
        if strategy not in STRATEGIES:
            raise invalid(f"strategy must be one of {', '.join(STRATEGIES)}")
        walk = Walk(
            owner=owner_of(request),
            depth=number_of(request, "depth", DEPTH_DEFAULT, 0, MOST_DEPTH),
            nodes=number_of(request, "limit", NODES_DEFAULT, 1, MOST_NODES),
            types=_types(given.getlist("type")),
            as_of=time_of(request, "as_of"),
        )
        starts = _starts(request, walk.nodes)
        async with self._turns.turn(walk.owner.tenant):
            found = await self._knowledge.neighbours(starts, strategy, walk, _skipped(request))
        return answer(found.model_dump(mode="json"))


def _node_of(request: "Request") -> str:
    """Return the node's id in the path. Raises ``ProblemError`` (404) for an invalid id."""
    name: str = request.path_params["node"]
    if not is_identifier(name):
        raise missing("there is no such node")
    return name


def _starts(request: "Request", most: int) -> list[str]:
    """Return the nodes in the path and the query, each once. ``most``: number of nodes that the client wants."""
    starts = list(dict.fromkeys([_node_of(request), *request.query_params.getlist("start")]))
    if len(starts) > MOST_STARTS:
        raise invalid(f"start: a walk begins at {MOST_STARTS} nodes at most, the one of the path among them")
    if len(starts) > most:
        raise invalid(f"limit must be at least the number of nodes that the walk begins at, {len(starts)}")
    if not all(map(is_identifier, starts)):
        raise missing("there is no such node")
    return starts


def _skipped(request: "Request") -> int:
    """Return how many nodes the pages before have had."""
    cursor = request.query_params.get("cursor", "0")
    if not cursor.isascii() or not cursor.isdigit() or len(cursor) > 4 or int(cursor) >= MOST_WALKED:
        raise invalid("the cursor must be the `next` of an earlier page")
    return int(cursor)


def _types(given: list[str]) -> tuple[EdgeType, ...]:
    try:
        return tuple(EdgeType(name) for name in given[: len(EdgeType)])
    except ValueError:
        raise invalid(f"type must be one of {', '.join(EdgeType)}") from None
