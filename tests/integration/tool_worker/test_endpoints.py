"""Endpoints of HTTP as tools: taken up while a worker runs, called once where they must be, bounded, without leaks."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from email.utils import formatdate
from pathlib import Path
from time import monotonic, time
from typing import Any

import pytest

from pentad.contracts.http_tools import HttpTool
from pentad.contracts.tools import Effect, ToolOutcome
from pentad.services.tool_worker.endpoints import endpoint
from pentad.services.tool_worker.endpoints.endpoint_tools import EndpointTools
from pentad.services.tool_worker.sources import ToolInvocation
from pentad.shared.outbound.outside_client import MAX_BODY_BYTES
from pentad.shared.plugins.context import ToolContext
from pentad.shared.registries.registrations import REGISTERED_HTTP_TOOLS
from pentad.shared.secrets.secret_store import SecretOwner, SecretStore
from pentad.shared.settings import Settings
from pentad.shared.store.store import Store
from tests.support.outside.web_server import WebServer, redirect, reply, web_server
from tests.support.waiting import in_time, wait_until

JSON = "application/json"
ANY: dict[str, Any] = {}


@pytest.fixture
async def web() -> AsyncIterator[WebServer]:
    async with web_server() as server:
        yield server


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask again at once."""
    monkeypatch.setattr(endpoint, "_PAUSE_S", 0.01)


class Offering:
    """A running source beside the registry that it follows."""

    def __init__(self, source: EndpointTools, store: Store) -> None:
        self.source, self._store = source, store
        self.changes = 0

    def changed(self) -> None:
        self.changes += 1

    async def have(self, *tools: HttpTool) -> None:
        """Register these tools, and no others, and wait until the source has them."""
        read = await REGISTERED_HTTP_TOOLS.read(self._store)
        gone = {each.name: None for each in read.entries}
        assert await REGISTERED_HTTP_TOOLS.write_all(self._store, read, gone | {tool.name: tool for tool in tools})
        wanted = {tool.name: tool.spec() for tool in tools}
        await wait_until("the source has the tools", lambda: dict(self.source.tools) == wanted)

    async def call(self, tool: str = "t", timeout_s: float = 20, user: str | None = None, **args: Any) -> ToolOutcome:
        context = ToolContext(tenant_id="default", user_id=user, tool_call_id="c1", idempotency_key="key-1")
        async with in_time():
            return await self.source.run(ToolInvocation(tool, args, timeout_s, context), lambda *_: None)


@asynccontextmanager
async def offering(store: Store, **settings: Any) -> AsyncIterator[Offering]:
    made = Offering(EndpointTools(Settings(**settings), store), store)
    await made.source.start(made.changed)
    following = asyncio.create_task(made.source.follow())
    try:
        yield made
    finally:
        following.cancel()
        await asyncio.wait({following})
        await made.source.stop(0)


@pytest.fixture
async def offered(store: Store, web: WebServer) -> AsyncIterator[Offering]:
    async with offering(store, pentad_web_allow=(web.place,)) as made:
        yield made


def tool(url: str, method: str = "GET", name: str = "t", **fields: Any) -> HttpTool:
    parameters = {"type": "object", "properties": {"id": {"type": "integer"}, "q": ANY}}
    if "{id}" in url:
        parameters["required"] = ["id"]
    return HttpTool.model_validate({"parameters": parameters, "name": name, "url": url, "method": method, **fields})


async def test_endpoints_come_and_go_while_the_source_runs(offered: Offering, web: WebServer) -> None:
    web.answers["/a/7"] = reply(b'{"a":1}', JSON)
    await offered.have(tool(f"{web.url}/a/{{id}}"), tool(f"{web.url}/b", "POST", "u", queue="slow"))
    assert {name: spec.effect for name, spec in offered.source.tools.items()} == {"t": Effect.PURE, "u": Effect.UNSAFE}
    outcome = await offered.call(id=7, q="x y")
    assert (outcome.kind, outcome.text) == ("ok", '{"a":1}')
    (request,) = web.received
    assert (request.method, request.target) == ("GET", "/a/7?q=x%20y")
    assert request.headers["idempotency-key"] == "key-1"
    changes = offered.changes
    await offered.have()
    assert offered.changes == changes + 1
    assert (await offered.call(id=7)).text == "t is registered no more"


async def test_arguments_are_checked_before_anything_is_sent(offered: Offering, web: WebServer) -> None:
    await offered.have(tool(f"{web.url}/a/{{id}}"))
    for args, said in (
        ({}, "'id' is missing"),
        ({"id": "x"}, "'id'"),
        ({"id": 1, "admin": True}, "'admin' is unknown"),
    ):
        outcome = await offered.call(**args)
        assert outcome.kind == "error"
        assert said in outcome.text
    assert web.received == []


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "[::1]", "localhost", "169.254.169.254", "2130706433", "[::ffff:10.0.0.1]"]
)
async def test_no_endpoint_is_inside_unless_it_is_allowed(host: str, offered: Offering) -> None:
    await offered.have(tool(f"http://{host}:9/x"))
    outcome = await offered.call()
    assert outcome.kind == "error"
    assert outcome.text.startswith("t was not called: ")


async def test_a_redirect_goes_nowhere_inside_and_an_unsafe_call_follows_none(
    offered: Offering, web: WebServer
) -> None:
    async with web_server(x=reply(b"secret")) as inside:
        web.answers["/away"] = redirect(f"{inside.url}/x")
        web.answers["/here"] = redirect("/there")
        web.answers["/there"] = reply(b"arrived", "text/plain")
        await offered.have(*(tool(f"{web.url}/{p}", m, f"{p}{m}") for p in ("away", "here") for m in ("GET", "POST")))
        assert "loopback" in (await offered.call("awayGET")).text
        assert (await offered.call("hereGET")).text == "arrived"
        for name in ("awayPOST", "herePOST"):
            outcome = await offered.call(name)
            assert (outcome.kind, "answered 302 (Found), which leads elsewhere" in outcome.text) == ("error", True)
        assert inside.received == []


async def test_a_secret_goes_to_its_own_host_alone_and_is_never_shown(
    store: Store, web: WebServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    folder = str(tmp_path / "secrets")
    for user in ("alice", "bob"):
        await SecretStore(folder).write(SecretOwner("default", user), "TOKEN", f"{user}s-token")
    web.answers["/here"] = redirect("/there")
    web.answers["/there"] = reply(b"you are alices-token", "text/plain")
    async with web_server(x=reply(b"stolen?")) as other:
        web.answers["/away"] = redirect(f"{other.url}/x")
        settings = {"pentad_web_allow": (web.place, other.place), "pentad_secrets": folder}
        async with offering(store, **settings) as offered:
            headers = {"Authorization": "Bearer {{secret:TOKEN}}", "X-Fixed": "fixed"}
            await offered.have(*(tool(f"{web.url}/{name}", name=name, headers=headers) for name in ("here", "away")))
            assert offered.source.tools["here"].secrets == ["TOKEN"]
            outcome = await offered.call("here", user="alice")
            assert outcome.text == "you are [secret TOKEN]"
            assert [each.headers["authorization"] for each in web.received] == ["Bearer alices-token"] * 2
            assert (await offered.call("away", user="bob")).text == "stolen?"
            assert web.received[-1].headers["authorization"] == "Bearer bobs-token"
            (stranger,) = other.received
            assert {"authorization", "x-fixed", "idempotency-key"}.isdisjoint(stranger.headers)
            refused = await offered.call("here", user="carol")
            assert "it needs the secret TOKEN, and user carol has none" in refused.text
            assert len(web.received) == 3
    assert "s-token" not in caplog.text


async def test_a_secret_that_is_no_header_is_not_sent(store: Store, web: WebServer, tmp_path: Path) -> None:
    folder = str(tmp_path / "secrets")
    await SecretStore(folder).write(SecretOwner("default"), "TOKEN", "a\r\nX-Evil: 1")
    async with offering(store, pentad_web_allow=(web.place,), pentad_secrets=folder) as offered:
        await offered.have(tool(f"{web.url}/x", headers={"X": "{{secret:TOKEN}}"}))
        assert "cannot stand in a header" in (await offered.call()).text
    assert web.received == []


@pytest.mark.parametrize(
    "status", ["400 Bad Request", "404 Not Found", "500 Internal Server Error", "429 Too Many Requests"]
)
async def test_a_failure_is_told_with_the_beginning_of_its_body(status: str, offered: Offering, web: WebServer) -> None:
    web.answers["/x"] = reply(b'{"error":"no ' + b"x" * 100_000 + b'"}', JSON, status)
    await offered.have(tool(f"{web.url}/x", "POST"))
    outcome = await offered.call()
    code, _, phrase = status.partition(" ")
    assert outcome.kind == "error"
    assert outcome.text.startswith(f't answered {code} ({phrase}): {{"error":"no xxx')
    assert len(outcome.text) < 5_000
    assert len(web.received) == 1


def later(answers: list[bytes]) -> Callable[[asyncio.StreamWriter], Awaitable[None]]:
    """Return an answer that is another each time."""

    async def write(writer: asyncio.StreamWriter) -> None:
        writer.write(answers.pop(0))
        await writer.drain()

    return write


@pytest.mark.parametrize("said", ["0", "date", "1"])
async def test_who_asks_to_wait_is_asked_again_after_that(said: str, offered: Offering, web: WebServer) -> None:
    after = formatdate(time() + 1, usegmt=True) if said == "date" else said
    busy = reply(b"busy", "text/plain", "503 Service Unavailable", Retry_After=after)
    web.answers["/x"] = later([busy, reply(b"done", "text/plain")])
    await offered.have(tool(f"{web.url}/x", "PUT"))
    begun = monotonic()
    outcome = await offered.call()
    assert (outcome.kind, outcome.text, len(web.received)) == ("ok", "done", 2)
    assert said != "1" or monotonic() - begun >= 1


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_an_unsafe_call_is_never_asked_again(method: str, offered: Offering, web: WebServer) -> None:
    busy = reply(b"busy", "text/plain", "429 Too Many Requests", Retry_After="0")
    web.answers["/x"] = later([busy, busy, busy, busy])
    await offered.have(tool(f"{web.url}/x", method, effect="unsafe"))
    outcome = await offered.call()
    assert (outcome.kind, len(web.received)) == ("error", 1)
    assert "try again after 0: busy" in outcome.text


async def test_a_wait_that_is_too_long_is_told(offered: Offering, web: WebServer) -> None:
    web.answers["/x"] = reply(b"busy", "text/plain", "503 Service Unavailable", Retry_After="999999999999")
    await offered.have(tool(f"{web.url}/x"))
    assert "try again after 999999999999" in (await offered.call()).text
    assert len(web.received) == 1


async def _hang(writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def _cut_off(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
    await writer.drain()


async def _drop(writer: asyncio.StreamWriter) -> None:
    """Close without an answer."""


async def _rubbish(writer: asyncio.StreamWriter) -> None:
    writer.write(b"\x00\xff" * 100)
    await writer.drain()


LOST = {"hang": _hang, "half": _cut_off, "drop": _drop, "rubbish": _rubbish}


@pytest.mark.parametrize("way", sorted(LOST))
async def test_an_unsafe_call_whose_answer_is_lost_is_unknown_and_made_once(
    way: str, offered: Offering, web: WebServer
) -> None:
    web.answers["/x"] = LOST[way]
    await offered.have(tool(f"{web.url}/x", "POST"))
    outcome = await offered.call(timeout_s=0.5)
    assert (outcome.kind, len(web.received)) == ("unknown", 1)
    assert outcome.text.startswith("outcome unknown: t was called, and its answer is lost: ")


@pytest.mark.parametrize("way", ["half", "drop", "rubbish"])
async def test_a_pure_call_whose_answer_is_lost_is_made_again_a_few_times(
    way: str, offered: Offering, web: WebServer
) -> None:
    web.answers["/x"] = LOST[way]
    await offered.have(tool(f"{web.url}/x"))
    outcome = await offered.call()
    assert (outcome.kind, len(web.received)) == ("error", endpoint.MAX_ATTEMPTS)
    assert "no answer in 3 attempts" in outcome.text


async def test_an_endpoint_that_hangs_ends_with_the_calls_time(offered: Offering, web: WebServer) -> None:
    web.answers["/x"] = _hang
    await offered.have(tool(f"{web.url}/x", timeout_s=0.3))
    assert offered.source.tools["t"].timeout == 0.3
    outcome = await offered.call(timeout_s=0.3)
    assert (outcome.kind, outcome.text.startswith("t: no result within 0.3 s")) == ("timeout", True)


async def test_a_proxy_that_lost_the_answer_leaves_an_unsafe_call_unknown(offered: Offering, web: WebServer) -> None:
    web.answers["/x"] = reply(b"late", "text/plain", "504 Gateway Timeout")
    await offered.have(tool(f"{web.url}/x", "POST"), tool(f"{web.url}/x", "GET", "u"))
    assert (await offered.call()).kind == "unknown"
    assert (await offered.call("u")).kind == "error"


async def test_a_server_that_is_not_there_was_not_called(offered: Offering, web: WebServer, store: Store) -> None:
    async with web_server() as gone:
        place, url = gone.place, gone.url
    async with offering(store, pentad_web_allow=(place,)) as made:
        await made.have(tool(f"{url}/x", "POST"))
        outcome = await made.call()
    assert (outcome.kind, outcome.text.startswith("t was not called: no connection")) == ("error", True)


async def _flood(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
    while True:
        writer.write(b"x" * 65_536)
        await writer.drain()


async def _flood_of_headers(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        writer.write(b"X-A: " + b"x" * 65_536 + b"\r\n")
        await writer.drain()


async def test_a_flood_is_cut(offered: Offering, web: WebServer) -> None:
    web.answers["/x"] = _flood
    web.answers["/h"] = _flood_of_headers
    await offered.have(tool(f"{web.url}/x"), tool(f"{web.url}/h", "POST", "h"))
    outcome = await offered.call()
    assert outcome.kind == "ok"
    assert f"[cut: only the first {MAX_BODY_BYTES} bytes of the answer were read]" in outcome.text
    assert (await offered.call("h")).kind == "unknown"


@pytest.mark.parametrize(
    ("body", "kind", "said"),
    [
        (b"\xfd\xe9", "text/plain; charset=rot13", "ýé"),
        (b"\xe9 x", 'text/plain; charset="";;;', "é x"),
        (b"caf\xe9", "application/json; charset=iso-8859-1", "café"),
        (b"<p>one<script>x</script><p>two", "text/html", "one\n\ntwo"),
        (b"\x89PNG\x00", "image/png", "[a file of 5 bytes, image/png, which is not kept: set PENTAD_FILES]"),
        (b"", "", ""),
    ],
)
async def test_any_body_becomes_a_text(body: bytes, kind: str, said: str, offered: Offering, web: WebServer) -> None:
    web.answers["/x"] = reply(body, kind)
    await offered.have(tool(f"{web.url}/x"))
    outcome = await offered.call()
    assert (outcome.kind, outcome.text.strip()) == ("ok", said)


async def test_nothing_in_an_argument_becomes_another_request(offered: Offering, web: WebServer) -> None:
    await offered.have(
        tool(
            f"{web.url}/things/{{id}}",
            "POST",
            parameters={"type": "object", "properties": {"id": ANY, "q": ANY, "h": ANY}, "required": ["id"]},
            arguments={"h": {"place": "header", "name": "X-H"}},
        )
    )
    hostile = "../admin?x=1#f\r\nX-Evil: 1\r\n\r\nGET /admin HTTP/1.1\r\n\r\n"
    await offered.call(id=hostile, q=hostile)
    (request,) = web.received
    assert request.path.startswith("/things/..%2Fadmin%3Fx%3D1%23f%0D%0AX-Evil")
    assert json.loads(request.body) == {"q": hostile}
    assert "x-evil" not in request.headers
    assert "goes into a header" in (await offered.call(id="1", h=hostile)).text
    assert len(web.received) == 1


async def test_calls_of_one_slow_endpoint_do_not_hold_up_another(offered: Offering, web: WebServer) -> None:
    web.answers["/slow"] = _hang
    web.answers["/fast"] = reply(b"fast", "text/plain")
    await offered.have(tool(f"{web.url}/slow", name="slow"), tool(f"{web.url}/fast", name="fast"))
    slow = [asyncio.create_task(offered.call("slow", 5)) for _ in range(20)]
    await wait_until("all are under way", lambda: len(web.received) == 20)
    assert (await offered.call("fast")).text == "fast"
    for each in slow:
        each.cancel()
    await asyncio.wait(slow)


async def test_an_entry_that_cannot_be_used_hides_no_other(
    offered: Offering, store: Store, web: WebServer, caplog: pytest.LogCaptureFixture
) -> None:
    heavy = tool(f"{web.url}/x", name="heavy", parameters={
        "type": "object", "properties": {"a": {"$ref": "#"}}
    })  # fmt: skip
    read = await REGISTERED_HTTP_TOOLS.read(store)
    assert await REGISTERED_HTTP_TOOLS.write_all(store, read, {"heavy": heavy, "t": tool(f"{web.url}/x")})
    await wait_until("the good one is there", lambda: set(offered.source.tools) == {"t"})
    assert "the registered tool 'heavy' is left out" in caplog.text
