"""No route is served before it is known who asks, but those that are declared to be for everybody."""

from pentad.services.gateway.asgi import is_guarded
from pentad.services.gateway.composition import ROUTE_GROUPS
from pentad.services.gateway.edge.operations import operations_of


def test_every_route_that_is_not_for_everybody_is_guarded() -> None:
    declared = [each for group in ROUTE_GROUPS for each, _ in operations_of(group)]
    assert len(declared) > 80
    assert [
        each.path for each in declared if not is_guarded(each.path) and each.description.get("security") != []
    ] == []


def test_paths_are_guarded_by_their_whole_first_name() -> None:
    served = ("/v1/tasks", "/agui", "/agui/runs/r", "/mcp", "/a2a", "/a2a/rest/tasks", "/openai/v1/models")
    assert all(map(is_guarded, served))
    others = ("/", "/healthz", "/metrics", "/openapi.json", "/v10", "/aguil", "/a2a-x", "/mcp2", "//v1/tasks")
    assert not any(map(is_guarded, others))
