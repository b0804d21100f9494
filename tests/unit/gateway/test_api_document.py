"""Documents of OpenAPI become tools: what each says counts, and no document takes long or leads elsewhere."""

import time
from typing import Any

import pytest

from pentad.contracts.http_tools import HttpTool
from pentad.contracts.tools import Effect
from pentad.services.gateway.operator.api_document import (
    MAX_OPERATIONS,
    ApiOptions,
    DocumentTools,
    WrongDocumentError,
    tools_of,
)

Json = dict[str, Any]
TEXT: Json = {"type": "string"}


def document(paths: Json, **more: Json | str | list[Any]) -> Json:
    return {"openapi": "3.1.0", "info": {}, "servers": [{"url": "https://api.example/v1"}], "paths": paths, **more}


def one(operation: Json, path: str = "/x", method: str = "post", **more: Any) -> DocumentTools:
    return tools_of(document({path: {method: {"operationId": "op", **operation}}}, **more), ApiOptions())


def only(found: DocumentTools) -> HttpTool:
    assert found.left_out == ()
    (tool,) = found.tools
    return tool


def why(found: DocumentTools) -> str:
    assert found.tools == ()
    (left,) = found.left_out
    return left.why


def body(schema: Json, **more: Any) -> Json:
    return {"requestBody": {"content": {"application/json": {"schema": schema}}, **more}}


PETS = document(
    {
        "/pets/{petId}": {
            "parameters": [{"$ref": "#/components/parameters/Pet"}],
            "get": {
                "operationId": "getPet",
                "summary": "Show a pet.",
                "parameters": [
                    {"name": "fields", "in": "query", "schema": {"type": "array", "items": TEXT}, "explode": False},
                    {"name": "X-Trace", "in": "header", "schema": TEXT},
                    {"name": "Authorization", "in": "header", "required": True, "schema": TEXT},
                    {"name": "sid", "in": "cookie", "schema": TEXT},
                ],
            },
            "put": {"operationId": "putPet", **body({"$ref": "#/components/schemas/Pet"}, required=True)},
            "delete": {},
        },
        "/pets": {"post": {"operationId": "addPet", **body({"$ref": "#/components/schemas/Pet"}, required=True)}},
    },
    components={
        "parameters": {"Pet": {"name": "petId", "in": "path", "required": True, "schema": {"type": "integer"}}},
        "schemas": {
            "Pet": {
                "type": "object",
                "required": ["name", "id"],
                "properties": {
                    "name": {"type": "string", "nullable": True, "example": "Rex", "x-internal": 1},
                    "id": {"type": "integer", "readOnly": True},
                    "age": {"type": "integer", "minimum": 0, "exclusiveMinimum": True},
                    "mother": {"$ref": "#/components/schemas/Pet"},
                },
            }
        },
    },
)


def test_each_operation_is_a_tool_with_its_arguments_and_effect() -> None:
    found = tools_of(PETS, ApiOptions(prefix="crm_", fields={"queue": "slow"}))
    tools = {tool.name: tool for tool in found.tools}
    assert found.left_out == ()
    assert {name: tool.actual_effect for name, tool in tools.items()} == {
        "crm_getPet": Effect.PURE,
        "crm_putPet": Effect.IDEMPOTENT,
        "crm_delete_pets_petId": Effect.IDEMPOTENT,
        "crm_addPet": Effect.UNSAFE,
    }
    get, put, post = tools["crm_getPet"], tools["crm_putPet"], tools["crm_addPet"]
    assert (get.description, get.url, get.queue) == ("Show a pet.", "https://api.example/v1/pets/{petId}", "slow")
    assert list(get.parameters["properties"]) == ["petId", "fields", "X-Trace"]
    assert get.parameters["required"] == ["petId"]
    assert (get.arguments["fields"].form, get.arguments["X-Trace"].place) == ("comma", "header")
    assert post.parameters["required"] == ["name"]
    assert post.parameters["properties"]["name"] == {"type": ["string", "null"]}
    assert post.parameters["properties"]["age"] == {"type": "integer", "exclusiveMinimum": 0}
    assert set(post.parameters["properties"]) == {"name", "age", "mother"}
    assert put.argument("petId").place == "path"
    assert put.argument("name").place == "body"


def test_what_the_operator_says_counts() -> None:
    options = ApiOptions(base="https://other.example/", operations=["addPet"], effects={"addPet": Effect.IDEMPOTENT})
    tool = only(tools_of(PETS, options))
    assert (tool.url, tool.actual_effect) == ("https://other.example/pets", Effect.IDEMPOTENT)
    with pytest.raises(WrongDocumentError, match=r"no operation 'nope'; it has: addPet, "):
        tools_of(PETS, ApiOptions(operations=["nope"]))


def test_a_body_that_is_no_plain_object_is_one_argument() -> None:
    for schema in ({"type": "array", "items": TEXT}, {"oneOf": [TEXT, {"type": "integer"}]}, {}):
        tool = only(one(body(schema, required=True)))
        assert (tool.argument("body").place, tool.parameters["required"]) == ("whole_body", ["body"])


def test_arguments_of_one_name_are_told_apart() -> None:
    parameters = [
        {"name": "id", "in": where, "required": where == "path", "schema": TEXT} for where in ("path", "query")
    ]
    tool = only(one({"parameters": parameters}, "/{id}", "get"))
    assert {name: each.place for name, each in tool.arguments.items()} == {"id": "path", "query_id": "query"}


@pytest.mark.parametrize(
    ("servers", "address", "url"),
    [
        ([{"url": "/v2"}], "https://api.example/docs/openapi.json", "https://api.example/v2/x"),
        (None, "https://api.example/openapi.json", "https://api.example/x"),
        ([{"url": "https://{r}.example", "variables": {"r": {"default": "eu"}}}], None, "https://eu.example/x"),
    ],
)
def test_the_address_of_an_api_is_found(servers: Any, address: str | None, url: str) -> None:
    given = document({"/x": {"get": {}}}) | {"servers": servers}
    assert only(tools_of(given, ApiOptions(document_url=address))).url == url


# Hostile documents


def _chain(length: int) -> Json:
    """Schemas of which each names the next twice."""
    last: Json = {"type": "string"}
    schemas = {f"S{n}": {"properties": {k: {"$ref": f"#/c/S{n + 1}"} for k in "ab"}} for n in range(length)}
    return {**schemas, f"S{length}": last}


def _deep(levels: int) -> Json:
    made: Json = TEXT
    for _ in range(levels):
        made = {"type": "object", "properties": {"a": made}}
    return made


LEFT_OUT: list[tuple[str, Json, str]] = [
    ("a reference to itself", {"parameters": [{"$ref": "#/c/P"}]}, "references of which each names the next"),
    ("a reference elsewhere", body({"$ref": "https://evil.example/s.json"}), "not in the document"),
    ("a reference to a file", body({"$ref": "/etc/passwd"}), "not in the document"),
    ("a reference to nothing", body({"$ref": "#/c/None"}), "not in the document"),
    ("schemas that double at each level", body({"$ref": "#/c/S0"}), "more than 2000 parts"),
    ("a thousand levels", body(_deep(300)), "levels"),
    ("a schema that is a list", body({"properties": {"a": [1]}}), "no object"),
    ("five thousand properties", body({"properties": {f"p{n}": TEXT for n in range(5_000)}}), "parts"),
    ("large descriptions", body({"properties": {"a": {"description": "x" * 40_000}}}), "at most 32768"),
    ("a parameter without a name", {"parameters": [{"in": "query"}]}, "no name"),
    ("a parameter that is a number", {"parameters": [7]}, "no name"),
    ("three hundred parameters", {"parameters": [{"name": f"p{n}", "in": "query"} for n in range(300)]}, "at most 200"),
    ("a wire name of 300 characters", {"parameters": [{"name": "n" * 300, "in": "query"}]}, "128"),
    ("a header with a line end", {"parameters": [{"name": "a\r\nb", "in": "header"}]}, "name of a header"),
    ("a cookie that is needed", {"parameters": [{"name": "s", "in": "cookie", "required": True}]}, "cookie"),
    (
        "a style that is not known",
        {"parameters": [{"name": "s", "in": "query", "required": True, "style": "z"}]},
        "style",
    ),
    ("a body that is a form", {"requestBody": {"required": True, "content": {"text/csv": {}}}}, "only JSON"),
    ("a type that is none", body({"properties": {"a": {"type": "strange"}}}), "no JSON schema"),
    ("servers of its own", {"servers": [{"url": "https://evil.example"}]}, "servers of its own"),
]


@pytest.mark.parametrize(("operation", "said"), [pytest.param(o, s, id=name) for name, o, s in LEFT_OUT])
def test_an_operation_that_can_be_no_tool_is_left_out_with_its_reason(operation: Json, said: str) -> None:
    begun = time.monotonic()
    assert said in why(one(operation, c={"P": {"$ref": "#/c/P"}, **_chain(10)}))
    assert time.monotonic() - begun < 5


def test_a_request_without_a_body_needs_none() -> None:
    assert "sent without one" in why(one(body(TEXT, required=True), method="delete"))
    assert only(one(body(TEXT), method="delete")).parameters["properties"] == {}


@pytest.mark.parametrize(
    "path", ["@evil.example/x", ".evil.example/x", ":81/x", "evil", "", "/{gone}", "/a b", "/" + "x" * 3_000]
)
def test_no_path_leads_to_another_host(path: str) -> None:
    assert why(one({}, path, "get"))


WRONG: list[tuple[str, Any, str]] = [
    ("nothing", {}, "no OpenAPI document"),
    ("version 2", {"swagger": "2.0", "paths": {}}, "convert it"),
    ("version 4", {"openapi": "4.0"}, "no OpenAPI document"),
    ("a version that is a number", {"openapi": 3}, "no OpenAPI document"),
    ("no paths", document({}), "no paths"),
    ("paths that are a list", document({}) | {"paths": []}, "no paths"),
    ("no server", document({"/x": {"get": {}}}) | {"servers": []}, "give the address"),
    (
        "a server that is a file",
        document({"/x": {"get": {}}}) | {"servers": [{"url": "file:///etc"}]},
        "give the address",
    ),
    ("a server that is a number", document({"/x": {"get": {}}}) | {"servers": [{"url": 7}]}, "has no url"),
    (
        "many operations",
        document({f"/{n}": {"get": {}} for n in range(MAX_OPERATIONS + 1)}),
        "more than 1000 operations",
    ),
]


@pytest.mark.parametrize(("given", "said"), [pytest.param(g, s, id=name) for name, g, s in WRONG])
def test_a_document_that_cannot_be_used_is_refused_with_its_reason(given: Any, said: str) -> None:
    with pytest.raises(WrongDocumentError, match=said):
        tools_of(given, ApiOptions())


def test_a_tree_ends_where_it_begins_again() -> None:
    tree = {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#/c/T"}}}}
    tool = only(one(body({"$ref": "#/c/T"}), c={"T": tree}))
    assert tool.parameters["properties"]["children"] == {"type": "array", "items": {}}


def test_a_name_of_300_characters_is_shortened_and_stays_its_own() -> None:
    operations = {f"/{n}": {"get": {"operationId": "o" * 300 + str(n)}} for n in range(2)}
    names = [tool.name for tool in tools_of(document(operations), ApiOptions()).tools]
    assert [len(name) for name in names] == [64, 64]
    assert len(set(names)) == 2


def test_two_operations_do_not_share_a_name() -> None:
    found = tools_of(
        document({"/a": {"get": {"operationId": "x.y"}}, "/b": {"get": {"operationId": "x/y"}}}), ApiOptions()
    )
    assert [tool.name for tool in found.tools] == ["x_y"]
    assert "another operation has the name x_y" in found.left_out[0].why


def test_a_schema_of_a_thousand_properties_is_one_of_a_tool() -> None:
    tool = only(one(body({"type": "object", "properties": {f"p{n}": {} for n in range(1_000)}})))
    assert len(tool.parameters["properties"]) == 1_000


def test_a_pattern_that_cannot_be_checked_is_left_to_the_server() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string", "pattern": "^(?=x)(a+)+$"}, "b": {"pattern": "^x"}},
    }
    assert only(one(body(schema))).parameters["properties"] == {"a": {"type": "string"}, "b": {"pattern": "^x"}}


def test_a_large_document_is_read_in_bounded_time_and_says_what_to_do() -> None:
    operations = {f"/{n}": {"post": {"operationId": f"o{n}", **body({"$ref": "#/c/S0"})}} for n in range(900)}
    begun = time.monotonic()
    found = tools_of(document(operations, c=_chain(10)), ApiOptions())
    assert time.monotonic() - begun < 10
    assert "name the operations that are wanted" in found.left_out[-1].why
