"""Each argument of a call stays in its place of the request, whatever a model writes into it."""

import json
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from pentad.contracts.http_tools import HttpTool
from pentad.services.tool_worker.endpoints.requests import MAX_BODY_BYTES, request_of
from pentad.shared.outbound.outside_client import OutsideRequest
from pentad.shared.plugins.errors import InvalidArguments

ANY: dict[str, Any] = {}


def tool(url: str = "https://h.example/things/{id}", method: str = "GET", **fields: Any) -> HttpTool:
    properties = fields.pop("properties", {"id": ANY, "q": ANY})
    parameters = {"type": "object", "properties": properties, "required": ["id"] if "{id}" in url else []}
    return HttpTool.model_validate({"name": "t", "url": url, "method": method, "parameters": parameters, **fields})


def made(given: HttpTool, **args: Any) -> OutsideRequest:
    return request_of(given, args, "call-1", {"TOKEN": "hunter2"})


HOSTILE = [
    "../admin",
    "..\\admin",
    "a/../../admin",
    "x?admin=1",
    "x#f",
    "x\r\nX-Evil: 1",
    "%2e%2e%2fadmin",
    "//evil.example/",
    "@evil.example",
    "\0",
    "é",
    "{id}",
    ";admin",
    "\ud800",
]


@pytest.mark.parametrize("value", HOSTILE)
def test_an_argument_in_the_path_stays_one_part_of_it(value: str) -> None:
    url = made(tool(), id=value).url
    parts = urlsplit(url)
    assert (parts.netloc, parts.query, parts.fragment) == ("h.example", "", "")
    assert parts.path.count("/") == 2
    assert parts.path.startswith("/things/")
    assert url.isascii()
    assert url.isprintable()


@pytest.mark.parametrize("value", [".", "..", "", []])
def test_an_argument_that_would_be_another_folder_is_refused(value: Any) -> None:
    with pytest.raises(InvalidArguments, match=r"leads elsewhere|is empty"):
        made(tool(), id=value)


def test_two_arguments_do_not_make_another_folder_together() -> None:
    both = tool("https://h.example/{id}{q}/admin", parameters={
        "type": "object", "properties": {"id": ANY, "q": ANY}, "required": ["id", "q"]
    })  # fmt: skip
    with pytest.raises(InvalidArguments, match="leads elsewhere"):
        made(both, id=".", q=".")


@pytest.mark.parametrize("value", [*HOSTILE, "a&admin=1", "a=b", "a+b c"])
def test_an_argument_in_the_query_stays_one_parameter(value: str) -> None:
    url = made(tool(), id="7", q=value).url
    kept = value.encode(errors="replace").decode()
    assert parse_qsl(urlsplit(url).query, keep_blank_values=True) == [("q", kept)]


@pytest.mark.parametrize("value", ["x\r\nX-Evil: 1", "x\ny", "\0", "é", "x" * 9_000])
def test_an_argument_in_a_header_is_one_line_or_refused(value: str) -> None:
    given = tool(arguments={"q": {"place": "header", "name": "X-Q"}})
    assert made(given, id="7", q="plain").own_headers["X-Q"] == "plain"
    with pytest.raises(InvalidArguments, match="goes into a header"):
        made(given, id="7", q=value)


def test_values_are_written_as_apis_read_them() -> None:
    properties = dict.fromkeys(("id", "many", "commas", "deep", "text", "yes", "none"), ANY)
    forms = {
        "commas": {"place": "query", "name": "c", "form": "comma"},
        "deep": {"place": "query", "name": "f", "form": "deep"},
        "text": {"place": "query", "name": "j", "form": "json"},
    }
    given = tool(properties=properties, arguments=forms)
    args = {"many": [1, 2], "commas": ["a", "b"], "deep": {"k": 1, "n": None}, "text": {"a": [1]}, "yes": True}
    query = parse_qsl(urlsplit(made(given, id=["x", "y"], none=None, **args).url).query)
    assert query == [("many", "1"), ("many", "2"), ("c", "a,b"), ("f[k]", "1"), ("j", '{"a":[1]}'), ("yes", "true")]


def test_the_query_of_the_address_stays() -> None:
    assert made(tool("https://h.example/s?v=2&q={id}"), id="a&b", q="c").url == "https://h.example/s?v=2&q=a%26b&q=c"


def test_other_methods_carry_json_and_each_carries_the_key_and_its_secrets() -> None:
    given = tool(method="POST", headers={"Authorization": "Bearer {{secret:TOKEN}}"})
    request = made(given, id="7", q={"deep": ["é"]})
    assert json.loads(request.content) == {"q": {"deep": ["é"]}}
    assert dict(request.own_headers) == {
        "Authorization": "Bearer hunter2",
        "Content-Type": "application/json",
        "Accept": "application/json, text/*;q=0.9, */*;q=0.5",
        "Idempotency-Key": "call-1",
    }
    assert "hunter2" not in repr(request)
    assert made(given, id="7").content == b"{}"
    assert made(tool(method="DELETE"), id="7").content == b""


def test_a_whole_body_is_the_value_itself() -> None:
    given = tool(method="PUT", arguments={"q": {"place": "whole_body", "name": "body"}})
    assert made(given, id="7", q=[1, 2]).content == b"[1,2]"


def test_a_body_has_a_bound() -> None:
    with pytest.raises(InvalidArguments, match="at most"):
        made(tool(method="POST"), id="7", q="x" * MAX_BODY_BYTES)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"url": "ftp://h/"}, "must be an address"),
        ({"url": "https://u:p@h/"}, "user name or a password"),
        ({"url": "https://{id}.h.example/"}, "in its host"),
        ({"url": "https://h.example:{id}/"}, "in its host|must be an address"),
        ({"url": "https://h/{id"}, "as {NAME}"),
        ({"url": "https://h/{other}"}, "needs an argument"),
        ({"url": "https://h/?k={{secret:K}}"}, "a secret would be seen there"),
        ({"url": "https://h/ x"}, "must be an address"),
        ({"url": "https://h/" + "x" * 3000}, "2000"),
        ({"headers": {"Host": "x"}}, "protocol's own"),
        ({"headers": {"Idempotency-Key": "x"}}, "protocol's own"),
        ({"headers": {"X": "a\r\nb"}}, "line of ASCII"),
        ({"headers": {"X": "{{secret:no such}}"}}, "write a secret as"),
        ({"headers": {"X y": "a"}}, "not the name of a header"),
        ({"name": "x" * 300}, "pattern"),
        ({"name": "ask_user"}, "Pentad's own"),
        ({"method": "TRACE"}, "GET"),
        ({"timeout_s": 0}, "greater than 0"),
        ({"queue": "A b"}, "pattern"),
        ({"description": "x" * 5_000}, "4096"),
        ({"parameters": {"type": "string"}}, '"type": "object"'),
        ({"arguments": {"id": {"place": "header", "name": "Host"}}}, "protocol's own"),
        ({"arguments": {"zz": {"place": "query", "name": "z"}}}, "not among the properties"),
        ({"arguments": {"q": {"place": "header", "name": "x"}}, "headers": {"X": "a"}}, "would replace the header"),
        ({"colour": "red"}, "Extra inputs"),
    ],
)
def test_what_cannot_be_a_tool_is_refused_with_its_reason(fields: dict[str, Any], said: str) -> None:
    given = {"name": "t", "url": "https://h.example/{id}", "parameters": {
        "type": "object", "properties": {"id": ANY, "q": ANY}, "required": ["id"]
    }}  # fmt: skip
    with pytest.raises(ValueError, match=said):
        HttpTool.model_validate(given | fields)
