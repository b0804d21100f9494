"""The routes of the graph of what is known, in the tenant of the request."""

from typing import TYPE_CHECKING

from pentad.contracts.ids import is_identifier
from pentad.services.gateway.domain.additions import read_edge, read_node
from pentad.services.gateway.edge.http import answer, number_of, owner_of, read_asked, tenant_of, time_of
from pentad.services.gateway.edge.problems import invalid, missing
from pentad.services.gateway.parts import Parts
from pentad.shared.graph.knowledge import EdgeType
from pentad.shared.graph.traversal import MOST_DEPTH, STRATEGIES, Walk

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

DEPTH_DEFAULT = 2
NODES_DEFAULT, MOST_NODES = 50, 200
MOST_STARTS = 16
"""Of one walk."""


async def get_node(parts: Parts, request: "Request") -> "Response":
    """One node, with what it rests on."""
    owner, name = owner_of(request), _node_of(request)
    async with parts.memory_turn(owner.tenant):
        node = await parts.knowledge.node(owner, name)
    return answer(node.model_dump(mode="json"))


async def get_neighbours(parts: Parts, request: "Request") -> "Response":
    """What lies around a node, or around several."""
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
    async with parts.memory_turn(walk.owner.tenant):
        found = await parts.knowledge.neighbours(starts, strategy, walk)
    return answer(found.model_dump(mode="json"))


async def add_node(parts: Parts, request: "Request") -> "Response":
    """Keep something that a person knows."""
    tenant = tenant_of(request)
    asked = await read_asked(request, read_node)
    async with parts.memory_turn(tenant):
        node = await parts.noting.add_node(tenant, asked)
    return answer(node.model_dump(mode="json"), 201)


async def add_edge(parts: Parts, request: "Request") -> "Response":
    """Keep how two nodes belong together."""
    tenant = tenant_of(request)
    asked = await read_asked(request, read_edge)
    async with parts.memory_turn(tenant):
        edge = await parts.noting.add_edge(tenant, asked)
    return answer(edge.model_dump(mode="json"), 201)


async def delete_node(parts: Parts, request: "Request") -> "Response":
    """Take a node away with its edges."""
    from starlette.responses import Response

    owner, name = owner_of(request), _node_of(request)
    async with parts.memory_turn(owner.tenant):
        await parts.noting.remove_node(owner, name)
    return Response(status_code=204)


def _node_of(request: "Request") -> str:
    """The node of the path; what cannot be one is unknown."""
    name: str = request.path_params["node"]
    if not is_identifier(name):
        raise missing("there is no such node")
    return name


def _starts(request: "Request", most: int) -> list[str]:
    """The node of the path and those that the query names, each once. ``most``: nodes that are asked for."""
    starts = list(dict.fromkeys([_node_of(request), *request.query_params.getlist("start")]))
    if len(starts) > MOST_STARTS:
        raise invalid(f"start: a walk begins at {MOST_STARTS} nodes at most, the one of the path among them")
    if len(starts) > most:
        raise invalid(f"limit must be at least the number of nodes that the walk begins at, {len(starts)}")
    if not all(map(is_identifier, starts)):
        raise missing("there is no such node")
    return starts


def _types(given: list[str]) -> tuple[EdgeType, ...]:
    try:
        return tuple(EdgeType(name) for name in given[: len(EdgeType)])
    except ValueError:
        raise invalid(f"type must be one of {', '.join(EdgeType)}") from None
