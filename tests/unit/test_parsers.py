"""No reader of what clients, models, tools and documents say holds a service for long, at the largest that it is given.

The readers are found by looking through all modules: a new function whose name says that it reads a text must be timed
here. Patterns are timed in test_patterns.py, what all of it does to a running service in acceptance/test_loop_delay.py.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from time import thread_time
from typing import Any

import pytest
from a2a.types.a2a_pb2 import SendMessageRequest, TaskPushNotificationConfig
from google.protobuf.json_format import ParseDict
from pydantic_core import to_json

import pentad
from pentad.contracts.commands import MAX_CONTENT
from pentad.contracts.dead_letters import named_in
from pentad.contracts.graphs import MAX_GRAPH
from pentad.contracts.http_tools import HttpTool
from pentad.contracts.ids import decoded_id, milliseconds
from pentad.contracts.instructions import placeholders_in, state_paths_in
from pentad.contracts.plain_json import MOST_VALUES, read_json, values_in
from pentad.contracts.quotes import quotes_in
from pentad.contracts.tool_servers import secrets_in
from pentad.services.gateway.domain.additions import read_edge, read_node
from pentad.services.gateway.domain.approval import read_decision
from pentad.services.gateway.domain.client_result import read_client_result
from pentad.services.gateway.domain.completion import read_completion
from pentad.services.gateway.domain.episode import read_episode
from pentad.services.gateway.domain.expansion import read_expansion
from pentad.services.gateway.domain.forget_request import read_forgetting, read_undo
from pentad.services.gateway.domain.fork import read_fork
from pentad.services.gateway.domain.frames import (
    UnreadableError,
    read_message,
    read_object,
    read_policy_question,
    read_run,
    read_token_request,
)
from pentad.services.gateway.domain.move import read_move
from pentad.services.gateway.domain.tool_call import read_call
from pentad.services.gateway.domain.webhooks import read_waiting, read_webhook
from pentad.services.gateway.edge.http import BODY_LIMIT
from pentad.services.gateway.edge.pages import parse_page
from pentad.services.gateway.edge.tokens import TokenReader
from pentad.services.gateway.memory.reindexing import read_reindexing
from pentad.services.gateway.operator.dead_letters import parse_name
from pentad.services.gateway.protocols.a2a.dispatch import check_body
from pentad.services.gateway.protocols.a2a.message_input import MAX_PARTS, read_message_of
from pentad.services.gateway.protocols.a2a.pushed_updates import read_push
from pentad.services.gateway.protocols.agui.run_input import read_interrupt, read_run_input
from pentad.services.gateway.protocols.mcp_server.inputs import read_state
from pentad.services.gateway.protocols.openai.chat_request import REQUEST_LIMIT, read_chat, without_data
from pentad.services.gateway.protocols.openai.client_tools import read_client_tools
from pentad.services.gateway.protocols.openai.plain_chat import read_plain
from pentad.services.gateway.protocols.openai.responses_request import read_response
from pentad.services.gateway.tasks.file_answers import tags_in
from pentad.services.gateway.tasks.step_list import parse_steps_cursor
from pentad.services.router.domain.control_words import control_of
from pentad.services.task_runner.domain.call_arguments import parse_arguments
from pentad.services.tool_worker.builtins.calculator import calculator
from pentad.services.tool_worker.domain import named_call
from pentad.shared.actors.headers import read_integer, read_session, read_text
from pentad.shared.actors.mail import read_session_mail
from pentad.shared.addresses import check_redis_url, read_http_url
from pentad.shared.attached_files import files_in
from pentad.shared.clipping import clip, plain
from pentad.shared.command_settings import read_env_file
from pentad.shared.data_urls import replaced_urls, without_bytes
from pentad.shared.digests.task_digest import read_utterance
from pentad.shared.events.subscription import parse_cursor
from pentad.shared.inbound.arrival import read_entry
from pentad.shared.json_schema import schema_weight
from pentad.shared.keys import actor_parts, sign_in
from pentad.shared.lenient_json import read_lenient
from pentad.shared.memory.quotes import tokens_in
from pentad.shared.models.loose_values import parse_object
from pentad.shared.models.model_list import read_model_file
from pentad.shared.models.offline.intents import Before, wishes
from pentad.shared.models.offline.memory import from_conversation
from pentad.shared.models.refusal import read_refusal
from pentad.shared.models.sse_decoder import SseDecoder
from pentad.shared.models.stated_delay import stated_delay
from pentad.shared.models.think_tags import ThinkTags
from pentad.shared.models.too_long import asked_in, limit_in, room_left, says_too_long
from pentad.shared.plugins.docstrings import parse_docstring
from pentad.shared.plugins.explicit_schema import arguments_alone
from pentad.shared.recall.cues import asks, asks_when, ends_asking, names_time
from pentad.shared.recall.proper_names import names_of
from pentad.shared.recall.questions import read_question
from pentad.shared.recall.terms import terms_of, words_digest
from pentad.shared.segments.anchors import anchor_of
from pentad.shared.segments.segment import MAX_SEGMENT_CHARS, spans_of
from pentad.shared.service.uvicorn_server import HEAD_LIMIT
from pentad.shared.settings import parse_api_keys, parse_key_hosts, parse_secret_keys
from pentad.shared.text_protocol.answer import MalformedAnswer, TextSplitter, read_answer
from pentad.shared.tool_servers.jsonc import read_jsonc
from pentad.shared.workspace.file_paths import read_path
from pentad.shared.workspace.file_store import place_in
from tests.support.slowness import slowness

BOUND_S = 0.1
"""Twice what is promised of a quiet machine; what is slower now has as much more time."""
HEAD = 1 << 16
"""Bytes of a request's head, and of what an operator writes."""
ANSWER = 1 << 20
"""Bytes of a model's text, and of a tool's result, as they are read at once."""
_TOOLS = {"calculator": {"required": ["expression"]}, "get_time": {}, "echo": {"required": ["text"]}}


def _fed(feed: Callable[[Any], object], text: str | bytes, size: int) -> None:
    for at in range(0, len(text), size):
        feed(text[at : at + size])


def _deep(text: str) -> Mapping[str, Any]:
    """A schema as wide as an instruction's may be, made of a text."""
    words = text[:200]
    return {"anyOf": [{"properties": {words[: n % 7]: {"$ref": "#/$defs/x"}}} for n in range(300)], "$defs": {"x": {}}}


def _refused(text: str) -> None:
    """All that is read of an error of a model server."""
    said = {"error": {"message": text, "loc": [text[:99]] * 1_000, "details": [{"a": text[:99]}] * 1_000}}
    refusal = read_refusal(400, said, text)
    stated_delay({"retry-after": text[:HEAD], "x-ratelimit-reset": text[:HEAD]}, said, refusal.words, 0.0)
    for look in (says_too_long, limit_in, lambda words: room_left(words, 1)):
        look(refusal.words)
    asked_in(refusal.words, 1)


_TOKENS = TokenReader([(f"key-{number}".encode(), "acme") for number in range(1000)])
"""A reader of access tokens with many keys, each of which is compared."""


def _text_answer(text: str) -> None:
    with suppress(MalformedAnswer):
        read_answer(text)


def _endpoint(text: str) -> None:
    """All that is read of an endpoint that an operator registers."""
    secrets_in(text[:32_768])
    schema = {"type": "object", "properties": {"a": {"description": text, "enum": [text]}}}
    fields = {"name": "t", "url": f"https://h/{text}"[:2_000], "headers": {"X": text[:32_768]}, "parameters": schema}
    for field in ("url", "headers", "parameters", "description"):
        given = {"name": "t", "url": "https://h/", "description": text} | {field: fields.get(field, text)}
        with suppress(ValueError):
            arguments_alone("t", HttpTool.model_validate(given).parameters)


def _with_files(text: str) -> bytes:
    """A message in chat form whose content and whose files are this text."""
    return to_json({"role": "user", "content": text, "files": [text[:1024]] * 16})


def _a2a_request(body: Mapping[str, Any]) -> None:
    """All that is read of a message of A2A, as the SDK and we read it."""
    small = {name: value[:4_096] if isinstance(value, str) else value for name, value in body.items()}
    parts = [{"text": str(value)[:4_096]} for value in body.values()][: MAX_PARTS - 1]
    named = {"messageId": "m", "role": "ROLE_USER", "metadata": {"pentad": small}}
    message = {**named, "parts": [*parts, {"data": small}]}
    check_body(to_json(message))
    request = SendMessageRequest()
    ParseDict({"message": message}, request, ignore_unknown_fields=True)
    read_message_of(request, "http://127.0.0.1:8080")


def _a2a_push(text: str) -> None:
    """A wish for push notifications, with the same text in each of its fields."""
    for name in ("id", "url", "token", "scheme", "credentials"):
        config = TaskPushNotificationConfig(
            url=f"https://example.com/{text}" if name == "url" else "https://example.com/"
        )
        config.id, config.token = (text if name == each else "" for each in ("id", "token"))
        config.authentication.scheme = text if name == "scheme" else "Bearer"
        config.authentication.credentials = text if name == "credentials" else "x"
        with suppress(UnreadableError):
            read_push(config, "http://127.0.0.1:8080")


READERS: Mapping[str, tuple[Callable[[str], object], int]] = {
    "a token in an address": (lambda text: _TOKENS.read(f"pt1.{text}".encode("utf-8", "replace"), 0), HEAD_LIMIT),
    "a body": (lambda text: read_object(text.encode()), BODY_LIMIT),
    "JSON": (read_json, BODY_LIMIT),
    "a body of A2A": (lambda text: check_body(text.encode("utf-8", "replace")), BODY_LIMIT),
    "push notifications of A2A": (_a2a_push, BODY_LIMIT),
    "an endpoint of HTTP": (_endpoint, BODY_LIMIT),
    "places of a graph's state": (lambda text: (state_paths_in(text), placeholders_in(text)), MAX_GRAPH),
    "an inbound entry": (lambda text: read_entry("1-1", {b"data": text.encode()}, 4), BODY_LIMIT),
    "the entry of a call": (lambda text: named_call(text.encode()), ANSWER),
    "a call's arguments": (parse_arguments, ANSWER),
    "an answer in text": (_text_answer, ANSWER),
    "an answer in text, in pieces": (lambda text: _fed(TextSplitter().feed, text, 64), ANSWER // 8),
    "JSON with mistakes": (read_lenient, ANSWER),
    "control in words": (control_of, MAX_CONTENT),
    "an utterance": (read_utterance, MAX_CONTENT),
    "what is asked of the offline model": (lambda text: wishes(text, _TOOLS, Before(None, "5")), MAX_CONTENT),
    "a follow-up": (lambda text: wishes(text, _TOOLS, Before(("echo", {"text": "a"}))), MAX_CONTENT),
    "a conversation": (lambda text: from_conversation(text, [text] * 8), MAX_CONTENT),
    "quotations": (quotes_in, ANSWER),
    "names": (names_of, ANSWER),
    "a question": (lambda text: read_question(text, [text[:60]] * 10), MAX_CONTENT),
    "cues": (lambda text: [look(text) for look in (asks, ends_asking, names_time, asks_when)], ANSWER),
    "terms": (terms_of, ANSWER),
    "the words of a memory": (words_digest, MAX_SEGMENT_CHARS),
    "pieces of a text": (lambda text: list(spans_of(text)), MAX_CONTENT),
    "events of a model": (lambda text: _fed(SseDecoder().feed, text.encode(), 4_096), ANSWER),
    "events in small pieces": (lambda text: _fed(SseDecoder().feed, text.encode(), 1), 1 << 15),
    "thoughts": (lambda text: _fed(ThinkTags(begun=False).split, text, 64), ANSWER),
    "thoughts in small pieces": (lambda text: _fed(ThinkTags(begun=True).split, text, 1), 1 << 13),
    "a schema": (lambda text: schema_weight(_deep(text)), MAX_CONTENT),
    "an expression": (calculator, MAX_CONTENT),
    "an event of a model by itself": (lambda text: parse_object(text.encode("utf-8", "replace")), ANSWER),
    "a text in an event of a model": (lambda text: parse_object(b'{"a":"' + text.encode("utf-8", "replace")), ANSWER),
    "an error of a model": (_refused, ANSWER // 4),
    "a result in a prompt": (without_bytes, ANSWER),
    "the mail of a session": (lambda text: read_session_mail(text.encode("utf-8", "replace")), BODY_LIMIT),
    "what an unreadable entry names": (named_in, BODY_LIMIT),
    "the values of a text": (lambda text: values_in(text, 0), BODY_LIMIT),
    "the tokens of a memory": (tokens_in, MAX_SEGMENT_CHARS),
    "words of an address": (
        lambda text: _each(
            (
                parse_page,
                parse_name,
                parse_cursor,
                parse_steps_cursor,
                anchor_of,
                decoded_id,
                read_interrupt,
                read_state,
                sign_in,
            ),
            text,
        ),
        HEAD,
    ),
    "times and actors": (lambda text: _each((milliseconds, actor_parts), text), HEAD),
    "the address of a server": (lambda text: _each((read_http_url, check_redis_url), f"http://h/{text}"), BODY_LIMIT),
    "the user of a server": (lambda text: _each((read_http_url, check_redis_url), f"redis://{text}@h"), HEAD),
    "keys of an operator": (lambda text: _each((parse_api_keys, parse_key_hosts, parse_secret_keys), text), HEAD),
    "a file of MCP servers": (lambda text: _each((read_jsonc,), text), HEAD),
    "the description of a tool": (parse_docstring, HEAD),
    "a file of variables": (lambda text: _filed(text, ".env", read_env_file), HEAD),
    "a file of models": (lambda text: _filed(text, ".json", read_model_file), HEAD),
    "a file of models in TOML": (lambda text: _filed(text, ".toml", read_model_file), HEAD),
    "fields of keys": (
        lambda text: _each((read_integer, read_text, read_session), text.encode(errors="replace")),
        HEAD,
    ),
    "the path of a file": (read_path, BODY_LIMIT),
    "an event that waits": (lambda text: _each((read_waiting,), f"1-0 2 {text}".encode(errors="replace")), BODY_LIMIT),
    "tags of a file": (lambda text: (tags_in(text), place_in(text.encode(errors="replace"))), HEAD),
    "the files of a message": (lambda text: files_in(_with_files(text)), ANSWER),
    "data URLs of a result": (lambda text: replaced_urls(text, lambda data, kind: f"{len(data)} {kind}"), ANSWER),
    "a request with long data": (
        lambda text: without_data(f'{{"a":"data:image/png;base64,{text}"}}'.encode(errors="replace")),
        REQUEST_LIMIT // 4,
    ),
    "a text for the log": (lambda text: (plain(text, 1_000), clip(text, 1_000)), ANSWER),
}
ASKED: tuple[Callable[[Mapping[str, Any]], object], ...] = (
    *(
        read_expansion,
        read_move,
        read_undo,
        read_forgetting,
        read_episode,
        read_node,
        read_edge,
        read_reindexing,
    ),
    read_token_request,
    read_policy_question,
    read_webhook,
    lambda body: read_fork(body, "m1"),
    lambda body: read_message(body, "t", "s", "m"),
    lambda body: read_run(body, "poet"),
    lambda body: read_call(body, "echo"),
    read_completion,
    read_decision,
    read_client_result,
    lambda body: read_client_tools({"tools": [{"type": "function", "function": body}]}, nested=True),
    read_run_input,
    _a2a_request,
    lambda body: read_chat({**body, "model": "pentad"}),
    lambda body: read_chat({"model": "pentad", "messages": _messages(body)}),
    lambda body: read_response({**body, "model": "pentad", "input": _messages(body)}),
    lambda body: read_plain({"messages": _messages(body), "tools": list(body.values())}),
)
_NAMES = (
    *("content", "input", "text", "user_id", "at", "anchor", "anchors", "window", "metadata", "budget", "deadline"),
    *("args", "call_id", "messages", "tools", "timeout", "wait", "temperature"),
    *("kind", "source", "target", "type", "message_id", "to", "task_id", "cursor", "true_from", "weight", "sessions"),
    *("threadId", "runId", "resume", "forwardedProps"),
    *("session_id", "may", "ttl_s", "approved", "reason", "args_digest"),
)
ELSEWHERE = {
    "pentad.services.tool_worker.builtins.web.page_text.read_page": "in a thread, timed by its own tests",
    "pentad.shared.actors.client_tools.read_client_tools": "task-runners write them down",
    "pentad.services.gateway.protocols.openai.background_events.read_after": "a number of 16 digits at most",
    "pentad.contracts.ids.shard_in": "it looks at the beginning of an id of ours",
    "pentad.shared.memory.memory_counts.damages_in": "archivers write it down",
    "pentad.shared.memory.rebuild_progress.progress_in": "archivers write it down",
    "pentad.shared.plugins.signature.read_arguments": "it reads a function, when a plugin is loaded",
    "pentad.shared.embedder.vectors.read_reply": "an embedding service of ours answers it, with bounded vectors",
}
"""Functions that read what nobody from outside says, and who does."""


def _messages(body: Mapping[str, Any]) -> list[Any]:
    """The values of a body as the messages of a conversation, and as the parts of its last message."""
    values = list(body.values())[:2_000]
    said = [{"role": "user", "content": value} for value in values]
    parts = [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{value}"}} for value in values[:8]]
    return [*said, {"role": "user", "content": parts}]


def _each(readers: Iterable[Callable[[Any], object]], given: Any) -> None:
    for read in readers:
        with suppress(Exception):
            read(given)


def _bodies(text: str) -> Iterator[Mapping[str, Any]]:
    """Objects that are made of a text, as large as a body may be."""
    few = MOST_VALUES // len(_NAMES)
    yield dict.fromkeys(_NAMES, text)
    yield dict.fromkeys(_NAMES, [text[:9]] * few)
    yield {name: {f"{n}{text[:9]}": text[:9] for n in range(few)} for name in _NAMES}
    yield {f"{n}{text[:9]}": 1 for n in range(MOST_VALUES)}


def _filed(text: str, ending: str, read: Callable[[Path], object]) -> None:
    with NamedTemporaryFile("w", suffix=ending, errors="replace") as file:
        file.write(text)
        file.flush()
        read(Path(file.name))


PIECES = (
    *("a", " ", "\n", "1", "(", "[", "{", '"', '{"a":', "[1,", "[],", "{}", "\\", "- ", "我", "A ", "ﷺ", "1+1 ", "!?"),
    *(
        "<think>",
        "</think>",
        "<recalled>\n",
        "</recalled>",
        "data: x\n\n",
        "data: ",
        "\r",
        "\r\n",
        ": ",
        ":\n",
        "a\n",
        "echo ",
        "…",
    ),
    *(
        '"tenant_id" : ',
        '{"session_id":"s1","content":"',
        "1e5,",
        "1" * 299 + ",",
        "\ud800",
        "\\ud800",
        "\\u0000",
        "é",
        "cancel that ",
        "no, ",
        '{"a":1,}',
        "True,",
        ", ",
        "```",
        "```json\n",
    ),
)


def _readers_in_the_code() -> Iterator[str]:
    """Functions whose names say that they read, and whose first argument is a text, bytes or an object of JSON."""
    for found in pkgutil.walk_packages(pentad.__path__, "pentad."):
        if found.name.endswith("__main__") or found.name.startswith("pentad.cli"):
            continue
        module = importlib.import_module(found.name)
        for name, value in vars(module).items():
            ours = inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_")
            if ours and (name.startswith(("read_", "parse_")) or name.endswith("_in")):
                first = next(iter(inspect.signature(value).parameters.values()), None)
                if first is not None and str(first.annotation).startswith(_READ):
                    yield f"{module.__name__}.{name}"


def _called_by(read: Callable[..., object]) -> tuple[str, ...]:
    """The names that stand in a function."""
    return read.__code__.co_names if inspect.isfunction(read) else ()


_READ = ("<class 'str'>", "<class 'bytes'>", "str", "bytes", "collections.abc.Mapping[str, ")


def test_every_function_that_reads_a_text_is_timed_here() -> None:
    """Promise: whoever writes a new reader times it, or says why nobody from outside is read by it."""
    timed: list[Callable[..., object]] = [*(read for read, _ in READERS.values()), *ASKED]
    named = {name for each in timed for name in (each.__name__, *_called_by(each))}
    there = set(_readers_in_the_code())
    assert "pentad.contracts.plain_json.read_json" in there
    assert "pentad.services.gateway.domain.move.read_move" in there
    assert {name for name in there - ELSEWHERE.keys() if name.rpartition(".")[2] not in named} == set()


def _texts(size: int) -> Iterator[tuple[str, str]]:
    for piece in PIECES:
        body = (piece * (size // len(piece) + 1))[: size - 2]
        yield repr(piece), body
        yield f"{piece!r} in brackets", f"[{body}]"


@pytest.mark.parametrize("name", READERS)
def test_no_reader_takes_long_on_hostile_text(name: str) -> None:
    read, size = READERS[name]
    for length in (size // 16, size):
        for about, text in _texts(length):
            took = _cost(read, text)
            if took >= BOUND_S:  # the machine may be slow, or have been
                took = min(_cost(read, text) for _ in range(6)) / slowness()
            assert took < BOUND_S, f"{took:.3f} s for {about} again and again, {length} characters"


@pytest.mark.parametrize("read", ASKED, ids=[str(n) for n in range(len(ASKED))])
def test_no_reader_of_a_clients_object_takes_long(read: Callable[[Mapping[str, Any]], object]) -> None:
    for text in ("a", "\n", "1", "我", "[", "a1."):
        for body in _bodies(text * (MAX_CONTENT // len(text))):
            took = min(_cost(read, body) for _ in range(2))
            if took >= BOUND_S:
                took = min(_cost(read, body) for _ in range(6)) / slowness()
            assert took < BOUND_S, f"{took:.3f} s for {text!r}"


def _cost(read: Callable[[Any], object], text: Any) -> float:
    begun = thread_time()
    with suppress(Exception):  # how each refuses: tests/fuzz/test_readers.py
        read(text)
    return thread_time() - begun
