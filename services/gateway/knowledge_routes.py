"""The routes of the graph of what is known, in the tenant of the request."""

from typing import TYPE_CHECKING

from pentad.contracts.ids import is_identifier, milliseconds
from pentad.services.gateway.domain.additions import read_edge, read_node
from pentad.services.gateway.domain.frames import UnreadableError
from pentad.services.gateway.http import answer, read_body, tenant_of
from pentad.services.gateway.knowledge import STRATEGIES
from pentad.services.gateway.parts import Parts
from pentad.services.gateway.problems import invalid, missing
from pentad.shared.graph.knowledge import EdgeType
from pentad.shared.graph.traversal import MOST_DEPTH, Walk
from pentad.shared.owners import Owner

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

DEPTH_DEFAULT = 2
NODES_DEFAULT, MOST_NODES = 50, 200


async def get_node(parts: Parts, request: "Request") -> "Response":
    """One node, with what it rests on."""
    node = await parts.knowledge.node(_owner_of(request), _node_of(request))
    return answer(node.model_dump(mode="json"))


async def get_neighbours(parts: Parts, request: "Request") -> "Response":
    """What lies around a node."""
    given = request.query_params
    strategy = given.get("strategy", "bfs")
    if strategy not in STRATEGIES:
        raise invalid(f"strategy must be one of {', '.join(STRATEGIES)}")
    walk = Walk(
        owner=_owner_of(request),
        depth=_number(request, "depth", DEPTH_DEFAULT, 0, MOST_DEPTH),
        nodes=_number(request, "limit", NODES_DEFAULT, 1, MOST_NODES),
        types=_types(given.getlist("type")),
        as_of=_time(given.get("as_of")),
    )
    found = await parts.knowledge.neighbours(_node_of(request), strategy, walk)
    return answer(found.model_dump(mode="json"))


async def add_node(parts: Parts, request: "Request") -> "Response":
    """Keep something that a person knows."""
    tenant = tenant_of(request)
    try:
        asked = read_node(await read_body(request))
    except UnreadableError as error:
        raise invalid(str(error)) from None
    return answer((await parts.noting.add_node(tenant, asked)).model_dump(mode="json"), 201)


async def add_edge(parts: Parts, request: "Request") -> "Response":
    """Keep how two nodes belong together."""
    tenant = tenant_of(request)
    try:
        asked = read_edge(await read_body(request))
    except UnreadableError as error:
        raise invalid(str(error)) from None
    return answer((await parts.noting.add_edge(tenant, asked)).model_dump(mode="json"), 201)


async def delete_node(parts: Parts, request: "Request") -> "Response":
    """Take a node away with its edges."""
    from starlette.responses import Response

    await parts.noting.remove_node(_owner_of(request), _node_of(request))
    return Response(status_code=204)


def _node_of(request: "Request") -> str:
    """The node of the path; what cannot be one is unknown."""
    name: str = request.path_params["node"]
    if not is_identifier(name):
        raise missing("there is no such node")
    return name


def _owner_of(request: "Request") -> Owner:
    """Who asks: the tenant, or the user that the query names."""
    user = request.query_params.get("user_id")
    if user is not None and not is_identifier(user):
        raise invalid("user_id must be an id: 1 to 128 characters of A-Z a-z 0-9 . _ ~ @ -")
    return Owner(tenant_of(request), user)


def _number(request: "Request", name: str, default: int, least: int, most: int) -> int:
    text = request.query_params.get(name, str(default))
    if not text.isascii() or not text.isdigit() or len(text) > 6 or not least <= int(text) <= most:
        raise invalid(f"{name} must be a number from {least} to {most}")
    return int(text)


def _types(given: list[str]) -> tuple[EdgeType, ...]:
    try:
        return tuple(EdgeType(name) for name in given[: len(EdgeType)])
    except ValueError:
        raise invalid(f"type must be one of {', '.join(EdgeType)}") from None


def _time(text: str | None) -> int | None:
    try:
        return None if text is None else max(0, milliseconds(text))
    except ValueError as error:
        raise invalid(f"as_of: {error}") from None
