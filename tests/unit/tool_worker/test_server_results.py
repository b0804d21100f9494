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
from pentad.services.tool_worker.servers.results import outcome_of, result_text, wants_input

DATA = b64encode(bytes(100)).decode()


def text(*texts: str) -> list[TextContent]:
    return [TextContent(text=each) for each in texts]


def test_texts_are_joined() -> None:
    assert result_text(CallToolResult(content=[*text("one", "two")])) == "one\ntwo"


def test_structured_content_counts_where_no_part_is_text() -> None:
    image = ImageContent(data=DATA, mime_type="image/png")
    structured = {"a": [1, float("inf")]}
    only = CallToolResult(content=[image], structured_content=structured)
    assert result_text(only) == '{"a":[1,"Infinity"]}\n[image image/png, 100 bytes: not shown]'
    both = CallToolResult(content=[*text("said")], structured_content=structured)
    assert result_text(both) == "said"


@pytest.mark.parametrize(
    ("block", "said"),
    [
        (ImageContent(data=DATA, mime_type="image/png"), "[image image/png, 100 bytes: not shown]"),
        (AudioContent(data=DATA, mime_type="audio/wav\n]"), "[audio audio/wav ], 100 bytes: not shown]"),
        (ResourceLink(uri="file:///a", name="a", mime_type="text/plain"), "[resource file:///a: a, text/plain]"),
        (EmbeddedResource(resource=TextResourceContents(uri="file:///a", text="its text")), "its text"),
        (
            EmbeddedResource(resource=BlobResourceContents(uri="file:///b", blob=DATA)),
            "[resource file:///b, of unknown type, 100 bytes: not shown]",
        ),
    ],
)
def test_what_is_no_text_is_told_with_kind_type_and_size(
    block: ImageContent | AudioContent | ResourceLink | EmbeddedResource, said: str
) -> None:
    assert result_text(CallToolResult(content=[block])) == said


def test_a_result_is_read_no_further_than_is_kept() -> None:
    many = CallToolResult(content=[*text(*["x" * 10_000] * 900)])
    assert RESULT_LIMIT < len(result_text(many)) < RESULT_LIMIT + 20_000
    parts = result_text(CallToolResult(content=[*text(*["y"] * 1_500)]))
    assert parts.endswith("[500 more parts are left out]")


def test_half_a_character_can_be_written_down() -> None:
    assert result_text(CallToolResult(content=[*text("a\ud800b")])) == "a?b"


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
