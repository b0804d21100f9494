"""The graph of what is known in the OpenAPI document."""

from pentad.services.gateway.domain.additions import KINDS
from pentad.services.gateway.openapi_words import TEXT, Json, gives, operation, path, query, ref
from pentad.shared.graph.knowledge import EdgeType
from pentad.shared.graph.metadata import MOST_BYTES, MOST_DEPTH, MOST_KEYS

_USER: Json = {"type": "string", "description": "whose it is; shared by all of the tenant when missing"}
_TIME: Json = {"type": "string", "description": "RFC 3339"}
_METADATA: Json = {
    "type": "object",
    "description": (
        f"kept as it is: at most {MOST_BYTES} bytes of JSON, {MOST_KEYS} keys, {MOST_DEPTH} deep. It replaces what was "
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


def _body(schema: Json) -> Json:
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def knowledge_paths() -> dict[str, Json]:
    """The routes of nodes."""
    user = query("user_id", "string", "sees what is this user's too, beside what the tenant shares")
    session = query("session_id", "string", "sees what is this session's too")
    return {
        "/v1/memory/nodes": {
            "post": operation(
                "Keep something that a person knows; it rests on a statement that is kept, and searches find it",
                problems=(400, 413, 415, 422),
                _201=gives("kept, perhaps already", ref("KnownNode")),
            )
            | _body(_NODE)
        },
        "/v1/memory/edges": {
            "post": operation(
                "Keep how two nodes belong together; what is contradicted is true no more from now on",
                problems=(400, 404, 413, 415, 422),
                _201=gives("kept, perhaps already", ref("KnownEdge")),
            )
            | _body(_EDGE)
        },
        "/v1/memory/nodes/{node}": {
            "delete": operation(
                "Take a node away with its edges; the statements that it rested on stay",
                path("node"),
                user,
                session,
                problems=(404, 422),
                _204=gives("gone"),
            ),
            "get": operation(
                "Something known, with the statements that it rests on",
                path("node"),
                user,
                session,
                problems=(404, 422),
                _200=gives("", ref("KnownNode")),
            ),
        },
        "/v1/memory/nodes/{node}/neighbours": {
            "get": operation(
                "What lies around a node, or around several, in the order in which a walk comes to it",
                path("node"),
                query("start", "string", "a node to begin at as well; may be given 15 times"),
                query("depth", "integer", "edges from a start; 2 when missing", minimum=0, maximum=6),
                query("limit", "integer", "nodes; 50 when missing", minimum=1, maximum=200),
                query("strategy", "string", "`bfs` (when missing), `dfs`, `astar`: along the heaviest edges first"),
                query("type", "string", "only along edges of this type; may be given several times"),
                query("as_of", "string", "RFC 3339: only along what was true at that time"),
                user,
                session,
                problems=(404, 422),
                _200=gives("", ref("Neighbourhood")),
            )
        },
    }
