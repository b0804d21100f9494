"""Servers that look at the ids of tool calls: a task whose model calls tools is answered by each of them, and by one
that takes over from another."""

import re
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from pentad.shared.store.store import Store
from tests.integration.handlers.test_thinking_models import Servers, turn
from tests.support.models.model_server import Script
from tests.support.models.replies import Reply, call, fail, say


@pytest.fixture
async def servers() -> AsyncIterator[Servers]:
    async with AsyncExitStack() as stack:
        yield Servers(stack)


def _ids(request: dict[str, Any]) -> list[str]:
    calls = [each["id"] for message in request["messages"] for each in message.get("tool_calls") or ()]
    assert calls == [m["tool_call_id"] for m in request["messages"] if m["role"] == "tool"]
    return calls


def server(given: Callable[[int], str], wanted: str, refusal: Reply, rounds: int = 2) -> Script:
    """A server that gives ids of its own form, and refuses others. Two calls of tools, then it answers."""

    def script(request: dict[str, Any]) -> Reply:
        ids = _ids(request)
        if not all(re.fullmatch(wanted, each) for each in ids):
            return refusal
        if len(ids) == rounds:
            return say("It is 42.")
        return call(("calculator", {"expression": "6*7"}), ids=(given(len(ids)),))

    return script


MISTRAL = r"[a-zA-Z0-9]{9}"
KIMI = r"functions\.calculator:\d+"
REFUSALS = {
    "mistral 400": fail(400, message="Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9."),
    "vllm 500": fail(500, message="Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9."),
    "moonshot 400": fail(400, message="Invalid request: tool_call_id  is not found"),
    "a proxy's 404": fail(404, message="tool_call_id call_1 not found"),
    "no words": fail(500, message="Internal Server Error"),
    "a template's error": fail(500, message="list index out of range"),
}
WORDLESS = ("no words", "a template's error")


@pytest.mark.parametrize("refusal", REFUSALS)
@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (lambda n: f"a1B2c3D4{n}", MISTRAL),
        (lambda n: f"functions.calculator:{n}", KIMI),
        (lambda n: f"tool-{n}-own", r"tool-\d-own"),
    ],
    ids=["nine letters", "numbered", "its own"],
)
async def test_a_server_gets_the_ids_back_that_it_gave(
    store: Store, tmp_path: Path, servers: Servers, given: Callable[[int], str], wanted: str, refusal: str
) -> None:
    end = await turn(store, tmp_path, await servers.pool(server(given, wanted, REFUSALS[refusal])))
    assert (end["status"], end["reason"]) == ("completed", "answered")
    assert len(servers.running[0].chats) == 3, "no request was refused"
    assert _ids(servers.running[0].chats[-1]) == [given(0), given(1)]


@pytest.mark.parametrize("refusal", REFUSALS)
@pytest.mark.parametrize("wanted", [MISTRAL, KIMI], ids=["nine letters", "numbered"])
async def test_another_server_takes_the_calls_over(
    store: Store, tmp_path: Path, servers: Servers, wanted: str, refusal: str
) -> None:
    def once(request: dict[str, Any]) -> Reply:
        """Away after its first answer."""
        away = len(request["messages"]) > 2
        return fail(503, retry_after=30) if away else call(("calculator", {"expression": "6*7"}), ids=("tool-0-own",))

    other = server(
        lambda n: "a1B2c3D4e" if wanted == MISTRAL else f"functions.calculator:{n}", wanted, REFUSALS[refusal]
    )
    end = await turn(store, tmp_path, await servers.pool(once, other))
    assert (end["status"], end["reason"]) == ("completed", "answered")
    tries = 3 if refusal in WORDLESS else 1  # an outage is tried again at once, before it is taken for a refusal
    assert len(servers.running[1].chats) == 2 + (tries if wanted == KIMI else 0), "it was learned once what it takes"


async def test_a_server_that_fails_within_whatever_the_ids_is_asked_again_later(
    store: Store, tmp_path: Path, servers: Servers, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is learned of ids from an outage that has nothing to do with them."""

    def once(request: dict[str, Any]) -> Reply:
        away = len(request["messages"]) > 2
        return fail(503, retry_after=30) if away else call(("calculator", {"expression": "6*7"}), ids=("tool-0-own",))

    asked: list[str] = []

    def other(request: dict[str, Any]) -> Reply:
        asked.extend(_ids(request))
        return fail(500, message="Internal Server Error")

    pool = await servers.pool(once, other)
    end = await turn(store, tmp_path, pool)
    assert end["status"] == "active", "it waits for its retry"
    assert {bool(re.fullmatch(MISTRAL, each)) for each in asked} == {True, False}, "both forms were tried"
    assert "has refused a request" not in caplog.text
