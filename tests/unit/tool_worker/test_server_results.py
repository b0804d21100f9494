"""The answer of an MCP server as the one text that a model reads: joined, bounded, and what is no text is told."""

from base64 import b64encode
from typing import Any

import pytest
from mcp_types import (
    URL_ELICITATION_REQUIRED,
    AudioContent,
    BlobResourceContents,
    CallToolRequestParams,
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    EmbeddedResource,
    ImageContent,
    InputRequiredResult,
    ListRootsRequest,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from pentad.contracts.suspensions import Resumption
from pentad.services.tool_worker.domain import RESULT_LIMIT
from pentad.services.tool_worker.servers.inputs import CannotAskError, answered
from pentad.services.tool_worker.servers.results import outcome_of, wants_input
from pentad.services.tool_worker.tool_value import MAX_ARTIFACTS

DATA = b64encode(bytes(100)).decode()


def blob(uri: str, media_type: str | None = None, data: str = DATA) -> EmbeddedResource:
    return EmbeddedResource(resource=BlobResourceContents(uri=uri, blob=data, mime_type=media_type))


def text(*texts: str) -> list[TextContent]:
    return [TextContent(text=each) for each in texts]


def read(result: CallToolResult, call: str | None = "call-1") -> str:
    return outcome_of("t", result, call).text


def test_texts_are_joined() -> None:
    assert read(CallToolResult(content=[*text("one", "two")])) == "one\ntwo"


def test_structured_content_counts_where_no_part_is_text() -> None:
    image = ImageContent(data=DATA, mime_type="image/png")
    structured = {"a": [1, float("inf")]}
    only = CallToolResult(content=[image], structured_content=structured)
    assert read(only) == '{"a":[1,"Infinity"]}\n[file artifacts/call-1/result.png: image/png, 100 bytes]'
    both = CallToolResult(content=[*text("said")], structured_content=structured)
    assert read(both) == "said"


@pytest.mark.parametrize(
    ("block", "said", "name", "unkept"),
    [
        (ImageContent(data=DATA, mime_type="image/png"), "image/png", "result.png", "a file"),
        (AudioContent(data=DATA, mime_type="audio/wav"), "audio/wav", "result.wav", "a file"),
        (AudioContent(data=DATA, mime_type="no type\n]"), "application/octet-stream", "result.bin", "a file"),
        (blob("file:///tmp/a%20b.zip?x=1#y"), "application/zip", "a b.zip", "the file a b.zip"),
        (blob("weird:..", "text/csv"), "text/csv", "weird:..", "the file weird:.."),
        (blob("file:///../../etc/passwd\n", "text/csv"), "text/csv", "passwd.csv", "the file passwd"),
        (blob("http://["), "application/octet-stream", "[.bin", "the file ["),
    ],
)
def test_what_is_no_text_becomes_a_file_of_the_session(
    block: ImageContent | AudioContent | EmbeddedResource, said: str, name: str, unkept: str
) -> None:
    result = CallToolResult(content=[*text("see"), block])
    outcome = outcome_of("t", result, "call-1")
    assert outcome.text == f"see\n[file artifacts/call-1/{name}: {said}, 100 bytes]"
    assert [(made.name, made.media_type, made.data) for made in outcome.made] == [(name, said, bytes(100))]
    outcome = outcome_of("t", result)
    assert outcome.text == f"see\n[{unkept} of 100 bytes, {said}, which is not kept: set PENTAD_FILES]"
    assert outcome.made == ()


def test_links_and_texts_of_resources_are_told() -> None:
    link = ResourceLink(uri="file:///a", name="a", mime_type="text/plain")
    resource = EmbeddedResource(resource=TextResourceContents(uri="file:///a", text="its text"))
    assert read(CallToolResult(content=[link, resource])) == "[resource file:///a: a, text/plain]\nits text"


def test_too_many_files_and_what_is_not_base64_are_told_and_refuse_nothing() -> None:
    many = [ImageContent(data=DATA, mime_type="image/png") for _ in range(MAX_ARTIFACTS + 2)]
    outcome = outcome_of("t", CallToolResult(content=[*many, blob("file:///b", data="A")]), "call-1")
    assert len(outcome.made) == MAX_ARTIFACTS
    assert outcome.text.count("too many or too large") == 2
    assert outcome.text.endswith("[a file of type unknown that is not base64, and is not kept]")


def test_a_long_result_is_kept_whole_as_a_file() -> None:
    many = CallToolResult(content=[*text(*["x" * 10_000] * 900)])
    outcome = outcome_of("t", many, "call-1")
    assert len(outcome.text.encode()) <= RESULT_LIMIT
    assert [len(made.data) for made in outcome.made] == [900 * 10_001 - 1]
    assert RESULT_LIMIT < len(read(many, None)) < RESULT_LIMIT + 100
    parts = read(CallToolResult(content=[*text(*["y"] * 1_500)]))
    assert parts.endswith("[500 more parts are left out]")


def test_half_a_character_can_be_written_down() -> None:
    assert read(CallToolResult(content=[*text("a\ud800b")])) == "a?b"


def test_an_answer_that_is_an_error_is_the_calls_error() -> None:
    outcome = outcome_of("t", CallToolResult(content=[*text("no such file")], is_error=True))
    assert (outcome.kind, outcome.text) == ("error", "no such file")
    assert outcome_of("t", CallToolResult(content=[], is_error=True)).text == "t failed and does not say why"


def asks(**forms: dict[str, Any]) -> InputRequiredResult:
    requests = {
        key: ElicitRequest(params=ElicitRequestFormParams(message=f"Which\n{key}?", requested_schema=form))
        for key, form in forms.items()
    }
    return InputRequiredResult(input_requests=dict(requests), request_state="opaque")


COUNT = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
CALL = CallToolRequestParams(name="t", arguments={"a": 1})


def resumed_with(result: InputRequiredResult, content: dict[str, Any] | None) -> CallToolRequestParams:
    suspension = outcome_of("t", result).suspension
    assert suspension is not None
    given = Resumption(needs="input", accepted=content is not None, content=content, state=suspension.state)
    return answered(CALL, given)


def test_what_a_server_asks_of_a_person_suspends_the_call_with_its_form() -> None:
    outcome = outcome_of("t", asks(count=COUNT))
    assert outcome.kind == "suspended"
    assert outcome.suspension is not None
    assert (outcome.suspension.needs, outcome.suspension.message) == ("input", "Which count?")
    assert outcome.suspension.form == COUNT


def test_the_answer_goes_back_under_the_servers_key_with_its_state() -> None:
    made = resumed_with(asks(count=COUNT), {"n": 2})
    assert (made.name, made.arguments, made.request_state) == ("t", {"a": 1}, "opaque")
    assert made.input_responses == {"count": ElicitResult(action="accept", content={"n": 2})}
    declined = resumed_with(asks(count=COUNT), None)
    assert declined.input_responses == {"count": ElicitResult(action="decline")}


def test_several_questions_are_one_form_with_a_part_for_each() -> None:
    result = asks(first=COUNT, second=COUNT)
    suspension = outcome_of("t", result).suspension
    assert suspension is not None
    assert suspension.form is not None
    assert (suspension.message, suspension.form["required"]) == ("Which first?\nWhich second?", ["first", "second"])
    made = resumed_with(result, {"first": {"n": 1}, "second": {"n": 2}})
    assert made.input_responses == {
        "first": ElicitResult(action="accept", content={"n": 1}),
        "second": ElicitResult(action="accept", content={"n": 2}),
    }


def test_an_address_to_open_is_a_question_without_a_form() -> None:
    params = ElicitRequestURLParams(message="Sign in", url="https://id.example/go", elicitation_id="e")
    result = InputRequiredResult(input_requests={"login": ElicitRequest(params=params)}, request_state="s")
    suspension = outcome_of("t", result).suspension
    assert suspension is not None
    assert suspension.message == "Sign in (open https://id.example/go, then go on)"
    assert suspension.form == {"type": "object", "properties": {}, "additionalProperties": False}
    assert resumed_with(result, {}).input_responses == {"login": ElicitResult(action="accept")}


@pytest.mark.parametrize(
    ("result", "why"),
    [
        (asks(**{f"k{n}": COUNT for n in range(9)}), "asks 9 questions at once"),
        (asks(big={"type": "object", "properties": {"x": {"const": "y" * 40_000}}}), "more than 32,768 bytes"),
        (InputRequiredResult(input_requests={}, request_state="s" * 300_000), "more than 262,144 characters"),
        (InputRequiredResult(input_requests={"r": ListRootsRequest()}), "asks for roots/list"),
    ],
)
def test_what_a_person_cannot_be_asked_for_is_an_error_that_says_why(result: InputRequiredResult, why: str) -> None:
    outcome = outcome_of("t", result)
    assert outcome.kind == "error"
    assert why in outcome.text


@pytest.mark.parametrize("content", [{"n": {"deep": 1}}, {"n": [[1]]}])
def test_an_answer_that_the_protocol_does_not_carry_is_told(content: dict[str, Any]) -> None:
    with pytest.raises(CannotAskError, match="does not carry"):
        resumed_with(asks(count={"type": "object"}), content)


@pytest.mark.parametrize("state", ["", "null", "{}", '{"asked": 1}'])
def test_a_state_that_is_none_of_ours_is_told(state: str) -> None:
    with pytest.raises(CannotAskError):
        answered(CALL, Resumption(needs="input", content={}, state=state))


def test_an_error_that_wants_a_person_is_told_apart() -> None:
    assert wants_input(URL_ELICITATION_REQUIRED)
    assert not wants_input(-32600)
