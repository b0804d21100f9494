"""Whatever comes from outside is read, or refused with the error that its reader promises: never with another."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pentad.contracts.ids import milliseconds
from pentad.contracts.plain_json import read_json
from pentad.services.gateway.domain.frames import UnreadableError, command_of, read_message, read_object, read_run
from pentad.services.gateway.domain.move import read_move
from pentad.services.gateway.edge.pages import BadPageError, parse_page
from pentad.services.task_runner.domain.call_arguments import parse_arguments
from pentad.services.tool_worker.builtins.calculator import CalculatorError, calculator
from pentad.services.tool_worker.domain import named_call
from pentad.shared.addresses import check_redis_url, read_http_url
from pentad.shared.errors import SettingsError
from pentad.shared.events.subscription import BadCursorError, parse_cursor
from pentad.shared.inbound.arrival import read_entry
from pentad.shared.keys import actor_parts
from pentad.shared.models.ports import ModelFailed
from pentad.shared.models.sse_decoder import SseDecoder
from pentad.shared.plugins.definition import ToolDefinition
from pentad.shared.plugins.errors import InvalidArguments
from pentad.shared.plugins.registry import define
from pentad.shared.settings import Settings, load_settings
from tests.support.models.protocols import ScriptedProtocol
from tests.unit.models.test_answer_reader import ASSEMBLIES, protocols, read

WORDS = st.sampled_from(
    "type message content session_id message_id tenant_id task_id default s1 task-0-a choices delta tool_calls "
    "function arguments index id finish_reason usage input to".split()
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30) | WORDS
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS | st.text(max_size=8), inner, max_size=5)
)
OBJECTS = st.dictionaries(WORDS, JSON, max_size=6)
BYTES = st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode())


def refuses(expected: type[Exception] | tuple[type[Exception], ...], read_it: Callable[[], object]) -> None:
    """It is read, or refused as promised and in few words."""
    said = ""
    try:
        read_it()
    except expected as error:
        said = str(error)
    assert len(said) < 5_000


@given(BYTES)
def test_a_frame_of_a_client(data: bytes) -> None:
    refuses(UnreadableError, lambda: read_object(data))
    refuses(ValueError, lambda: read_json(data))


@given(OBJECTS)
def test_what_a_client_asks(body: dict[str, Any]) -> None:
    refuses(UnreadableError, lambda: command_of(body))
    refuses(UnreadableError, lambda: read_message(body, "default", "s1", "m1"))
    refuses(UnreadableError, lambda: read_run(body, "poet"))
    refuses(UnreadableError, lambda: read_move(body))


@given(st.text(max_size=60))
def test_the_words_of_an_address(text: str) -> None:
    refuses(BadCursorError, lambda: parse_cursor(text))
    refuses(BadPageError, lambda: parse_page(text))
    refuses(ValueError, lambda: actor_parts(text))
    refuses(ValueError, lambda: milliseconds(text))
    refuses(ValueError, lambda: check_redis_url(text))
    refuses(ValueError, lambda: check_redis_url(f"redis://{text}@h"))
    refuses(ValueError, lambda: read_http_url(text))
    refuses(ValueError, lambda: read_http_url(f"http://{text}@h/v1"))


@given(st.dictionaries(st.sampled_from([b"data", b"first_id", b"x"]), BYTES, max_size=3))
def test_an_inbound_entry(fields: dict[bytes, bytes]) -> None:
    arrival = read_entry("1-1", fields, 4)
    assert (arrival.message is None) == bool(arrival.problem)
    assert len(arrival.problem) < 3_000
    assert arrival.message_id
    assert arrival.at


@given(BYTES)
def test_the_entry_of_a_tool_call(data: bytes) -> None:
    named_call(data)


@given(st.text(max_size=100) | JSON.map(json.dumps))
def test_a_models_arguments(text: str) -> None:
    parsed = parse_arguments(text)
    assert (parsed.args is None) == bool(parsed.problem)


def _tool(city: str, days: list[int], deep: dict[str, float] | None = None) -> str:
    return city


TOOL: ToolDefinition = define(_tool, name="weather")


@given(OBJECTS | st.fixed_dictionaries({"city": JSON, "days": JSON}, optional={"deep": JSON}))
def test_the_arguments_of_a_tool(args: dict[str, Any]) -> None:
    refuses(InvalidArguments, lambda: TOOL.validate(args))


@given(st.text(alphabet="0123456789+-*/%()., eabs<>=!^&|~'\"[]{}:_piml√\x00é", max_size=60))
def test_an_expression(text: str) -> None:
    refuses(CalculatorError, lambda: calculator(text))


PIECES = st.sampled_from(
    (
        b"data: ",
        b"\n",
        b"\r\n\r\n",
        b"\n\n",
        b"[DONE]",
        b"event: x",
        b": c",
        b"{",
        b"}",
        b"data",
        b'{"choices":[',
        b'{"delta":{"content":"x"}}',
        b"]}",
        b'{"error":',
        b'"type":"message_start"',
        b'data: {"type":"error"}',
        b"\xff",
    )
)


@protocols
@given(st.lists(PIECES | BYTES | OBJECTS.map(lambda o: b"data: " + json.dumps(o).encode() + b"\n\n"), max_size=8))
def test_a_models_answer(protocol: ScriptedProtocol, parts: list[bytes]) -> None:
    for broken in (False, True):
        refuses(ModelFailed, lambda: read(protocol, *parts, broken=broken))  # noqa: B023 - called at once


@given(st.lists(st.binary(max_size=40) | PIECES, max_size=10))
def test_a_stream_of_events_wherever_it_is_cut(parts: list[bytes]) -> None:
    decoder, whole = SseDecoder(), SseDecoder()
    pieces = [event for part in parts for event in decoder.feed(part)] + decoder.flush()
    assert pieces == whole.feed(b"".join(parts)) + whole.flush()


@given(st.sampled_from(sorted(Settings.model_fields)), st.text(max_size=40))
def test_a_setting(name: str, value: str) -> None:
    refuses(SettingsError, lambda: load_settings({name.upper(): value}))


@pytest.mark.parametrize("protocol", ASSEMBLIES, ids=lambda protocol: protocol.path)
def test_nothing_at_all_is_no_answer(protocol: ScriptedProtocol) -> None:
    with pytest.raises(ModelFailed):
        read(protocol)
