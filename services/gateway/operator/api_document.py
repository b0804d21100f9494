"""An OpenAPI document as tools: one for each operation that can be one. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any
from urllib.parse import urljoin

from pydantic import ValidationError

from pentad.contracts.http_tools import MAX_DESCRIPTION_CHARS, OWN_HEADERS, HttpArgument, HttpTool
from pentad.contracts.tools import Effect
from pentad.services.gateway.operator.api_schemas import (
    MAX_PARTS_OF_ALL,
    DocumentReferences,
    OperationSchemas,
    UnusableOperationError,
)
from pentad.shared.clipping import plain
from pentad.shared.entry_file import complaints
from pentad.shared.immutable import immutable
from pentad.shared.plugins.errors import PluginError
from pentad.shared.plugins.explicit_schema import arguments_alone

MAX_OPERATIONS = 1_000
"""Operations of a document that are looked at."""
_MAX_PARAMETERS = 200
_MAX_NAME = 64
"""Characters of the name of a tool or of an argument: as many as model servers take."""
_DIGEST = 8
_SHOWN = 100
"""Characters of a name that is repeated."""
_METHODS = ("get", "post", "put", "patch", "delete")
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]+")
_NOT_IN_ARGUMENTS = re.compile(r"[^a-zA-Z0-9_.-]+")
_VARIABLE = re.compile(r"\{([^{}]{1,64})\}")
_COMBINING = frozenset({"allOf", "anyOf", "oneOf", "not", "$ref"})
_IGNORED_HEADERS = OWN_HEADERS | {"accept", "authorization"}
"""Headers that a document describes elsewhere, or that a request has anyway."""


class WrongDocumentError(ValueError):
    """A document cannot be used at all. The text says why and what to do."""


@immutable
class ApiOptions:
    """Options of an operator about the tools of a document."""

    base: str | None = None
    """Address of the API; None: the first server of the document."""
    document_url: str | None = None
    """Address that the document is from, which its own servers may be relative to."""
    operations: Sequence[str] | None = None
    """Operations that are wanted; None: all."""
    prefix: str = ""
    effects: Mapping[str, Effect] | None = None
    """Effects of operations that differ from those of their methods."""
    fields: Mapping[str, Any] | None = None
    """Fields that all tools have, such as headers and queue."""


@immutable
class LeftOutOperation:
    """An operation that is no tool."""

    operation: str
    why: str


@immutable
class DocumentTools:
    """The tools of a document."""

    tools: tuple[HttpTool, ...]
    left_out: tuple[LeftOutOperation, ...]
    wants_credentials: bool
    """Whether the document says that callers need credentials."""


def tools_of(document: Mapping[str, Any], options: ApiOptions) -> DocumentTools:
    """Return the tools of a document. Raises ``WrongDocumentError``."""
    _check_version(document)
    base = _base(document, options)
    found = list(_operations(document))
    if len(found) > MAX_OPERATIONS:
        raise WrongDocumentError(f"the document has more than {MAX_OPERATIONS} operations: make a smaller one")
    _check_names({each.name for each in found}, {*(options.operations or ()), *(options.effects or {})})
    references, room = DocumentReferences(document), MAX_PARTS_OF_ALL
    tools, left_out = dict[str, HttpTool](), list[LeftOutOperation]()
    for each in found:
        if options.operations is not None and each.name not in options.operations:
            continue
        schemas = OperationSchemas(references, room)
        try:
            tool = _OperationReader(each, references, schemas, options, base).tool()
            if tool.name in tools:
                raise UnusableOperationError(f"another operation has the name {tool.name}")
            tools[tool.name] = tool
        except UnusableOperationError as error:
            left_out.append(LeftOutOperation(plain(each.name, _SHOWN), str(error)))
        room -= schemas.parts
    return DocumentTools(tuple(tools.values()), tuple(left_out), bool(document.get("security")))


@immutable
class _Operation:
    """An operation as it stands in the document."""

    name: str
    method: str
    path: str
    fields: Mapping[str, Any]
    of_path: Mapping[str, Any]
    """Fields of the path, which its operations share."""


def _check_version(document: Mapping[str, Any]) -> None:
    version = document.get("openapi")
    if isinstance(version, str) and version.startswith("3."):
        return
    if "swagger" in document:
        raise WrongDocumentError("the document is of version 2 (Swagger): convert it to OpenAPI 3")
    raise WrongDocumentError('it is no OpenAPI document: it begins with {"openapi": "3.0.0", ...} or a later 3.x')


def _base(document: Mapping[str, Any], options: ApiOptions) -> str:
    """Return the address that paths are appended to."""
    if options.base is not None:
        return options.base.rstrip("/")
    servers = document.get("servers")
    first = servers[0] if isinstance(servers, list) and servers else {"url": "/"}
    given = first.get("url") if isinstance(first, Mapping) else None
    if not isinstance(given, str):
        raise WrongDocumentError("the first of its servers has no url: give the address of the API as url")
    variables = first.get("variables")
    values = variables if isinstance(variables, Mapping) else {}

    def default(found: "re.Match[str]") -> str:
        variable = values.get(found[1])
        return str(variable.get("default", "")) if isinstance(variable, Mapping) else ""

    filled = _VARIABLE.sub(default, given)
    whole = filled if options.document_url is None else urljoin(options.document_url, filled)
    if not whole.startswith(("http://", "https://")):
        raise WrongDocumentError("it does not say where the API is: give the address of the API as url")
    return whole.rstrip("/")


def _operations(document: Mapping[str, Any]) -> Iterator[_Operation]:
    paths = document.get("paths")
    if not isinstance(paths, Mapping) or not paths:
        raise WrongDocumentError("the document has no paths, and so no operations")
    references = DocumentReferences(document)
    for path, given in paths.items():
        try:
            item = references.followed(given)
        except UnusableOperationError:
            item = None
        for method in _METHODS if isinstance(item, Mapping) else ():
            if isinstance(fields := item.get(method), Mapping):
                named = fields.get("operationId")
                name = named if isinstance(named, str) and named.strip() else f"{method}_{path.strip('/')}"
                yield _Operation(name, method.upper(), path, fields, item)


def _check_names(known: set[str], named: set[str]) -> None:
    if strange := sorted(named - known):
        listed = ", ".join(sorted(known)[:20])
        raise WrongDocumentError(
            f"the document has no operation {plain(strange[0], _SHOWN)!r}; it has: {plain(listed, 1_000)}"
        )


class _OperationReader:
    """Makes the tool of one operation. Raises ``UnusableOperationError``."""

    def __init__(
        self,
        operation: _Operation,
        references: DocumentReferences,
        schemas: OperationSchemas,
        options: ApiOptions,
        base: str,
    ) -> None:
        self._operation, self._references, self._schemas, self._options = operation, references, schemas, options
        self._base = base
        self._properties: dict[str, Any] = {}
        self._required: list[str] = []
        self._arguments: dict[str, HttpArgument] = {}

    def tool(self) -> HttpTool:
        """Return the tool."""
        operation, options = self._operation, self._options
        if not operation.path.startswith("/"):  # it would become a part of the host
            raise UnusableOperationError("its path does not begin with /")
        if ("servers" in operation.fields or "servers" in operation.of_path) and options.base is None:
            raise UnusableOperationError("it has servers of its own: register it with their address as url")
        for parameter in self._parameters():
            self._add_parameter(parameter)
        self._add_body()
        fields: dict[str, Any] = {
            "name": _tool_name(options.prefix, operation.name),
            "description": self._description(),
            "url": self._base + operation.path,
            "method": operation.method,
            "parameters": self._schema(),
            "arguments": {name: each.model_dump() for name, each in self._arguments.items()},
            "effect": (options.effects or {}).get(operation.name),
        }
        try:
            tool = HttpTool.model_validate({**(options.fields or {}), **fields})
            arguments_alone(tool.name, tool.parameters)
        except ValidationError as error:
            raise UnusableOperationError("; ".join(list(complaints(error))[:3])) from None
        except PluginError as error:
            raise UnusableOperationError(str(error)) from None
        return tool

    def _schema(self) -> dict[str, Any]:
        made: dict[str, Any] = {"type": "object", "properties": self._properties}
        return made | ({"required": self._required} if self._required else {})

    def _description(self) -> str:
        given = (self._operation.fields.get(name) for name in ("summary", "description"))
        texts = [text.strip() for text in given if isinstance(text, str) and text.strip()]
        return "\n\n".join(dict.fromkeys(texts))[:MAX_DESCRIPTION_CHARS]

    # Parameters

    def _parameters(self) -> Sequence[Mapping[str, Any]]:
        """Return the parameters of the path and of the operation, which replaces those of the path."""
        found: dict[tuple[str, str], Mapping[str, Any]] = {}
        for fields in (self._operation.of_path, self._operation.fields):
            listed = fields.get("parameters")
            for given in listed if isinstance(listed, list) else ():
                parameter = self._references.followed(given)
                if not isinstance(parameter, Mapping) or not isinstance(parameter.get("name"), str):
                    raise UnusableOperationError("one of its parameters has no name")
                found[str(parameter.get("in")), parameter["name"]] = parameter
        if len(found) > _MAX_PARAMETERS:
            raise UnusableOperationError(f"it has {len(found)} parameters: at most {_MAX_PARAMETERS}")
        return list(found.values())

    def _add_parameter(self, parameter: Mapping[str, Any]) -> None:
        name, where, required = parameter["name"], parameter.get("in"), parameter.get("required") is True
        if where == "header" and name.lower() in _IGNORED_HEADERS | self._given_headers():
            return
        problem = None if where in ("path", "query", "header") else f"is a {plain(str(where), 20)} parameter"
        form = self._form(parameter)
        if problem is None and form is None:
            problem = f"has the style {plain(str(parameter.get('style')), 30)}"
        if problem is not None or form is None:
            if required:
                raise UnusableOperationError(
                    f"its parameter {plain(name, _SHOWN)!r} {problem}, which is not known here"
                )
            return
        schema = self._schemas.schema(_schema_of(parameter))
        if isinstance(text := parameter.get("description"), str):
            schema.setdefault("description", text)
        argument = self._argument_name(name, str(where))
        self._add(argument, schema, required or where == "path")
        self._arguments[argument] = _argument(str(where), name, form)

    def _given_headers(self) -> set[str]:
        headers = (self._options.fields or {}).get("headers") or {}
        return {str(name).lower() for name in headers}

    def _form(self, parameter: Mapping[str, Any]) -> str | None:
        """Return the form of a parameter's lists and objects; None for one that is not known here."""
        where = parameter.get("in")
        if "content" in parameter:
            return "json"
        style = parameter.get("style", "form" if where == "query" else "simple")
        if where != "query":
            return "plain" if style == "simple" else None
        if style == "deepObject":
            return "deep"
        explode = parameter.get("explode", True)
        return None if style != "form" else "plain" if explode is not False else "comma"

    def _argument_name(self, name: str, place: str) -> str:
        """Return the name that models give an argument by: none has it yet, and model servers take it."""
        plain_name = _shortened(_NOT_IN_ARGUMENTS.sub("_", name), name)
        return (
            plain_name if plain_name not in self._properties else _shortened(f"{place}_{plain_name}", f"{place} {name}")
        )

    def _add(self, name: str, schema: dict[str, Any], required: bool) -> None:
        if name in self._properties:
            raise UnusableOperationError(f"two of its arguments would have the name {name}")
        self._properties[name] = schema
        if required:
            self._required.append(name)

    # The body

    def _add_body(self) -> None:
        body = self._references.followed(self._operation.fields.get("requestBody"))
        if not isinstance(body, Mapping):
            return
        required = body.get("required") is True
        if self._operation.method in ("GET", "DELETE"):
            if required:
                raise UnusableOperationError(f"it needs a body, and {self._operation.method} is sent without one")
            return
        content = body.get("content")
        kinds = content if isinstance(content, Mapping) else {}
        kind = next((each for each in kinds if _is_json(each)), None)
        if kind is None:
            if required and kinds:
                listed = plain(", ".join(map(str, kinds)), _SHOWN)
                raise UnusableOperationError(f"its body is {listed}: only JSON can be sent")
            return
        given = kinds[kind].get("schema") if isinstance(kinds[kind], Mapping) else None
        schema = self._schemas.schema(given)
        members = schema.get("properties")
        if not isinstance(members, Mapping) or _COMBINING & schema.keys() or members.keys() & self._properties.keys():
            argument = self._argument_name("body", "request")
            self._add(argument, schema, required)
            self._arguments[argument] = HttpArgument(place="whole_body", name="body")
            return
        for name, each in members.items():
            argument = self._argument_name(name, "body")
            self._add(argument, each, required and name in schema.get("required", ()))
            self._arguments[argument] = _argument("body", name, "plain")


def _argument(place: str, name: str, form: str) -> HttpArgument:
    try:
        return HttpArgument.model_validate({"place": place, "name": name, "form": form})
    except ValidationError as error:
        raise UnusableOperationError(
            f"its parameter {plain(name, _SHOWN)!r}: {next(iter(complaints(error)))}"
        ) from None


def _schema_of(parameter: Mapping[str, Any]) -> Any:
    content = parameter.get("content")
    if isinstance(content, Mapping):
        first = next(iter(content.values()), None)
        return first.get("schema") if isinstance(first, Mapping) else {}
    return parameter.get("schema", {})


def _is_json(kind: Any) -> bool:
    name = str(kind).partition(";")[0].strip().lower()
    return name in ("application/json", "*/*", "application/*")


def _tool_name(prefix: str, operation: str) -> str:
    """Return the name of an operation's tool; one that had to be shortened ends with a digest."""
    made = _NOT_IN_NAMES.sub("_", f"{prefix}{operation}").strip("_")
    return _shortened(made or "operation", f"{prefix}{operation}")


def _shortened(made: str, whole: str) -> str:
    if len(made) <= _MAX_NAME:
        return made
    digest = sha256(whole.encode(errors="replace")).hexdigest()[:_DIGEST]
    return f"{made[: _MAX_NAME - _DIGEST - 1]}-{digest}"
