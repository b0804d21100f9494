"""The answer of an MCP server as the one text that a model reads: joined, bounded, and what is no text is told."""

from base64 import b64encode

import pytest
from mcp_types import (
    URL_ELICITATION_REQUIRED,
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    EmbeddedResource,
    ImageContent,
    InputRequiredResult,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from pentad.services.tool_worker.domain import RESULT_LIMIT
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


def test_a_server_that_wants_input_makes_an_error_that_says_what() -> None:
    form = ElicitRequestFormParams(message="Which\naccount?", requested_schema={"type": "object", "properties": {}})
    wish = InputRequiredResult(input_requests={"a": ElicitRequest(params=form)}, request_state="s")
    outcome = outcome_of("t", wish)
    assert outcome.kind == "error"
    assert outcome.text.endswith(
        "needs input from a person before it runs, and nobody can be asked here: Which account?"
    )
    assert "it does not say what" in outcome_of("t", InputRequiredResult(request_state="s")).text
    assert wants_input(URL_ELICITATION_REQUIRED)
    assert not wants_input(-32600)
