"""Operations of the REST interface, each declared beside the handler that serves it.

A group of routes is a class. `operation` marks its handlers with a method, a path and their description in the OpenAPI
document; `routes_of` makes routes of such objects, and `paths_of` makes the document's paths of their classes.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from pentad.contracts.tokens import Right
from pentad.services.gateway.edge.access import Caller
from pentad.services.gateway.edge.schemas import PROBLEMS, Json, gives, ref
from pentad.shared.immutable import immutable

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.routing import Route

H = TypeVar("H", bound=Callable[..., Awaitable[Any]])
_MARK = "operation"
_COMMON_PROBLEMS = (401, 403, 503)
"""Statuses of problems that every operation with an API key may answer with."""


@immutable
class Operation:
    """One method of one path."""

    method: str
    path: str
    """Path in the router's form: ``/v1/tasks/{task}``; ``{path:path}`` is one that has slashes."""
    description: Json
    """OpenAPI operation object."""
    right: Right | None = None
    """Right that lets the holder of a token in, for the token's session; None: tokens are refused."""


def operation(
    method: str,
    path: str,
    summary: str,
    *parameters: Json,
    body: Json | None = None,
    problems: tuple[int, ...] = (),
    right: Right | None = None,
    refusal: tuple[Json, str] = (ref("Problem"), "application/problem+json"),
    **responses: Json,
) -> Callable[[H], H]:
    """Declare the operation that a handler serves for callers with a key.

    ``body``: the OpenAPI object of the request body, as `json_body` makes it. ``problems``: statuses of its refusals,
    beside those of every operation. ``right``: what a token must allow for its holder to be let in too, whom the
    handler keeps to the token's session; without it holders of tokens are refused before the handler is called.
    ``refusal``: schema and media type of a refusal, where a protocol has its own.
    ``responses``: its answers by status: ``_200=gives(...)``.
    """
    refusals = {str(code): gives(PROBLEMS[code], *refusal) for code in (*_COMMON_PROBLEMS, *problems)}
    described: Json = {
        "summary": summary,
        "parameters": list(parameters),
        "responses": _by_status(responses) | refusals,
    }
    if right is not None:
        described["security"] = [{"key": []}, {"token": [right]}]
    return _marked(Operation(method, path, described if body is None else described | {"requestBody": body}, right))


def open_operation(method: str, path: str, summary: str, *parameters: Json, **responses: Json) -> Callable[[H], H]:
    """Declare the operation that a handler serves for everybody, without a key."""
    return _marked(Operation(method, path, described_open(summary, *parameters, **responses)))


def described_open(summary: str, *parameters: Json, **responses: Json) -> Json:
    """Return the OpenAPI operation object of an operation without a key."""
    described: Json = {"summary": summary, "security": [], "responses": _by_status(responses)}
    return described | {"parameters": list(parameters)} if parameters else described


def operations_of(group: type) -> Iterator[tuple[Operation, str]]:
    """Return the operations of a group of routes, each with the name of its handler, in the order of the class."""
    for name, value in vars(group).items():
        declared = getattr(value, _MARK, None)
        if isinstance(declared, Operation):
            yield declared, name


def routes_of(*groups: object) -> "list[Route]":
    """Return the routes of these groups for Starlette's router."""
    from starlette.routing import Route

    return [
        Route(declared.path, _checked(declared.right, getattr(group, name)), methods=[declared.method])
        for group in groups
        for declared, name in operations_of(type(group))
    ]


def _checked(right: Right | None, handler: "Callable[[Request], Awaitable[Any]]") -> Any:
    """Return the handler behind a check of the caller's token, so that no route is open to tokens by an oversight."""

    async def checked(request: "Request") -> Any:
        caller: Caller | None = request.scope.get("pentad.caller")
        if caller is not None:
            caller.check(right)
        return await handler(request)

    return checked


def paths_of(*groups: type) -> dict[str, Json]:
    """Return the paths of the OpenAPI document that these groups serve."""
    paths: dict[str, Json] = {}
    for group in groups:
        for declared, _ in operations_of(group):
            paths.setdefault(declared.path.replace(":path}", "}"), {})[declared.method.lower()] = declared.description
    return paths


def _marked(declared: Operation) -> Callable[[H], H]:
    def mark(handler: H) -> H:
        setattr(handler, _MARK, declared)
        return handler

    return mark


def _by_status(responses: Mapping[str, Json]) -> Json:
    return {status.removeprefix("_"): response for status, response in responses.items()}
