"""The routes of graphs: everybody with a key may look at them, the operator may change them."""

from typing import TYPE_CHECKING

from pentad.contracts.graphs import GraphSpec
from pentad.contracts.ids import is_identifier
from pentad.services.gateway.edge.http import admin_only, answer, read_body
from pentad.services.gateway.edge.operations import operation
from pentad.services.gateway.edge.problems import invalid, missing
from pentad.services.gateway.edge.schemas import ADMIN, TEXT, gives, json_body, object_of, page, path, query, ref
from pentad.services.gateway.operator.runnables import RunnableRegistry

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_GRAPH = {"allOf": [ref("GraphSpec"), object_of(source=TEXT, version=TEXT)]}
"""Schema of a graph with its source (``file registered plugin``) and its content's digest."""
_WARNED = {"allOf": [_GRAPH, object_of(warning={"type": ["string", "null"]})]}
"""Schema of a registered graph with a ``warning`` about tools that no worker has now."""
_DRAWN = {
    "description": "the graph; with `format=mermaid` a flowchart in the language of Mermaid",
    "content": {"application/json": {"schema": _GRAPH}, "text/plain": {"schema": TEXT}},
}


class GraphRoutes:
    """Routes of the graphs of all tenants."""

    def __init__(self, graphs: RunnableRegistry[GraphSpec]) -> None:
        self._graphs = graphs

    @operation(
        "GET",
        "/v1/graphs",
        "Every graph: of the file, registered, of plugins; of two with a name, the first of these",
        _200=gives("", page(_GRAPH)),
    )
    async def list_graphs(self, request: "Request") -> "Response":
        """Return all graphs in use, each with its source."""
        return answer({"items": await self._graphs.listing(), "next": None})

    @operation(
        "GET",
        "/v1/graphs/{graph}",
        "The graph of this name that is in use, as data or as a drawing",
        path("graph"),
        query("format", "string", "`mermaid`: a flowchart in the language of Mermaid, as text"),
        problems=(404, 422),
        _200=_DRAWN,
    )
    async def show_graph(self, request: "Request") -> "Response":
        """Return one graph, with its version and its source, or its drawing."""
        from starlette.responses import PlainTextResponse

        name, form = _name_of(request), request.query_params.get("format")
        if form not in (None, "mermaid"):
            raise invalid("format: there is only mermaid; without it the graph comes as JSON")
        if form is None:
            return answer(await self._graphs.one(name))
        return PlainTextResponse(await self._graphs.drawn(name), headers={"cache-control": "no-store"})

    @operation(
        "POST",
        "/v1/graphs",
        "Register a graph, or replace the registered one with its name; it goes before a plugin's and what is built "
        f"in. All services know it within two seconds; tasks keep the one that they were opened with; {ADMIN}",
        body=json_body(ref("GraphSpec")),
        problems=(400, 409, 413, 415, 422),
        _200=gives("replaced", _WARNED),
        _201=gives("registered", _WARNED),
    )
    async def register_graph(self, request: "Request") -> "Response":
        """Add a graph, or replace a registered one."""
        admin_only(request)
        shown, new = await self._graphs.register(await read_body(request))
        return answer(shown, 201 if new else 200)

    @operation(
        "DELETE",
        "/v1/graphs/{graph}",
        f"Remove a registered graph; what it stood before comes back; {ADMIN}",
        path("graph"),
        problems=(404, 409),
        _204=gives("removed"),
    )
    async def delete_graph(self, request: "Request") -> "Response":
        """Remove a registered graph."""
        from starlette.responses import Response

        admin_only(request)
        await self._graphs.delete(_name_of(request))
        return Response(status_code=204)


def _name_of(request: "Request") -> str:
    """Return the graph's name in the path. Raises ``ProblemError`` (404) for an invalid name."""
    name: str = request.path_params["graph"]
    if not is_identifier(name):
        raise missing("there is no such graph")
    return name
