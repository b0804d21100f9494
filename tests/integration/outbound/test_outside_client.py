"""Requests outside reach what was checked and nothing else, and are bounded in time, bytes and number."""

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator, Sequence

import httpx2
import pytest

from pentad.shared.outbound.address_guard import OutboundError, RefusedAddressError
from pentad.shared.outbound.outside_client import MAX_BODY_BYTES, MAX_REDIRECTS, OutsideClient
from tests.support.outside.web_server import WebServer, redirect, reply, web_server
from tests.support.waiting import PATIENCE_S, in_time
from tests.unit.outbound.test_address_guard import INSIDE


class RecordingWire(httpx2.AsyncBaseTransport):
    """A wire that answers every request, and says where it was sent."""

    def __init__(self, *answers: httpx2.Response) -> None:
        self.sent: list[httpx2.Request] = []
        self._answers = list(answers)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.sent.append(request)
        return self._answers.pop(0) if self._answers else httpx2.Response(200, stream=httpx2.ByteStream(b"here"))


class Names:
    """A resolver that answers each look-up of a name with the next of its addresses."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        return [self.answers.pop(0)]


@pytest.fixture
async def web() -> AsyncIterator[WebServer]:
    async with web_server() as server:
        yield server


def _url_of(host: str) -> str:
    return f"http://[{host}]:8080/secret" if ":" in host else f"http://{host}:8080/secret"


@pytest.mark.parametrize("host", INSIDE)
async def test_nothing_is_sent_to_an_address_inside(host: str) -> None:
    wire = RecordingWire()
    with pytest.raises(OutboundError):
        await OutsideClient(wire=wire).get(_url_of(host))
    assert wire.sent == []


@pytest.mark.parametrize("host", INSIDE)
async def test_no_redirect_leads_inside(host: str) -> None:
    wire = RecordingWire(httpx2.Response(302, headers={"location": _url_of(host)}))
    with pytest.raises(OutboundError):
        await OutsideClient(wire=wire).get("http://1.1.1.1/")
    assert [request.url.host for request in wire.sent] == ["1.1.1.1"]


async def test_a_name_that_changes_after_its_look_up_is_connected_to_where_it_was_checked() -> None:
    names, wire = Names("1.1.1.1", "127.0.0.1"), RecordingWire()
    await OutsideClient(resolver=names, wire=wire).get("https://evil.example/a?b=c")
    sent = wire.sent[0]
    assert names.asked == ["evil.example"]
    assert (sent.url.host, sent.url.raw_path) == ("1.1.1.1", b"/a?b=c")
    assert (sent.headers["host"], sent.extensions["sni_hostname"]) == ("evil.example", "evil.example")


async def test_a_name_that_changes_before_its_redirect_is_looked_up_and_refused() -> None:
    names = Names("1.1.1.1", "127.0.0.1")
    wire = RecordingWire(httpx2.Response(307, headers={"location": "/again"}))
    with pytest.raises(RefusedAddressError):
        await OutsideClient(resolver=names, wire=wire).get("http://evil.example/")
    assert len(wire.sent) == 1


async def test_a_redirect_to_a_server_inside_does_not_reach_it(web: WebServer) -> None:
    async with web_server(secret=reply(b"secret")) as inside:
        web.answers["/"] = redirect(f"{inside.url}/secret")
        with pytest.raises(RefusedAddressError, match="loopback"):
            await OutsideClient((web.place,)).get(web.url)
        assert (len(web.received), inside.received) == (1, [])


@pytest.mark.parametrize(
    "location", ["file:///etc/passwd", "ftp://127.0.0.1/", "gopher://127.0.0.1:6379/x", "http://a:b@x/", "http://x:0/"]
)
async def test_a_redirect_to_what_is_no_page_is_refused(web: WebServer, location: str) -> None:
    web.answers["/"] = redirect(location)
    with pytest.raises(OutboundError):
        await OutsideClient((web.place,)).get(web.url)
    assert len(web.received) == 1


@pytest.mark.parametrize(
    "url",
    [
        *("file:///etc/passwd", "ftp://1.1.1.1/", "http://", "http:///x", "javascript:1", "1.1.1.1", ""),
        *("http://u:p@1.1.1.1/", "http://" + "a" * 3000, "http://1.1.1.1:0/", "http://1.1.1.1:99999/"),
        *("http://１２７.0.0.1/", "http://a\\@127.0.0.1/", "http://127。0。0。1/", "http://[::1", "http://1.1.1.1\n/"),
    ],
)
async def test_what_is_no_address_of_a_page_is_refused_with_the_reason(url: str) -> None:
    wire = RecordingWire()
    with pytest.raises(OutboundError) as refused:
        await OutsideClient(wire=wire).get(url)
    assert wire.sent == []
    assert 10 < len(str(refused.value)) < 300


async def test_redirects_are_followed_up_to_their_number(web: WebServer) -> None:
    for number in range(MAX_REDIRECTS):
        web.answers[f"/{number}"] = redirect(f"/{number + 1}")
    web.answers[f"/{MAX_REDIRECTS}"] = reply(b"at last")
    answer = await OutsideClient((web.place,)).get(f"{web.url}/0")
    assert (answer.body, answer.url) == (b"at last", f"{web.url}/{MAX_REDIRECTS}")


async def test_a_loop_of_redirects_ends(web: WebServer) -> None:
    web.answers["/"] = redirect("/")
    with pytest.raises(OutboundError, match="redirected more than 5 times"):
        await OutsideClient((web.place,)).get(web.url)
    assert len(web.received) == MAX_REDIRECTS + 1


async def test_a_redirect_of_a_post_is_not_followed_so_that_its_key_goes_nowhere_else(web: WebServer) -> None:
    async with web_server() as other:
        web.answers["/"] = redirect(other.url, "307 Temporary Redirect")
        client = OutsideClient((web.place, other.place))
        answer = await client.post(web.url, b"{}", {"authorization": "Bearer secret"})
        assert (answer.status, other.received) == (307, [])


async def _endless(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
    while True:
        writer.write(b"x" * 65_536)
        await writer.drain()


async def test_of_an_endless_body_the_beginning_is_read(web: WebServer) -> None:
    web.answers["/"] = _endless
    async with in_time():
        answer = await OutsideClient((web.place,), timeout_s=PATIENCE_S).get(web.url)
    assert (len(answer.body), answer.is_cut) == (MAX_BODY_BYTES, True)


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_a_body_that_unpacks_to_much_more_is_read_up_to_its_bound(web: WebServer, encoding: str) -> None:
    much = bytes(200 * 1024 * 1024)
    packed = gzip.compress(much, 1) if encoding == "gzip" else zlib.compress(much, 1)
    web.answers["/"] = reply(packed, "text/plain", content_encoding=encoding)
    async with in_time():
        answer = await OutsideClient((web.place,), timeout_s=PATIENCE_S).get(web.url)
    assert (len(answer.body), answer.is_cut) == (MAX_BODY_BYTES, True)


async def test_a_packed_body_is_unpacked(web: WebServer) -> None:
    web.answers["/"] = reply(gzip.compress(b"hello"), "text/plain", content_encoding="gzip")
    assert (await OutsideClient((web.place,)).get(web.url)).body == b"hello"


@pytest.mark.parametrize("encoding", ["br", "gzip, gzip", "x" * 500])
async def test_an_encoding_that_cannot_be_read_is_told(web: WebServer, encoding: str) -> None:
    web.answers["/"] = reply(b"zzz", "text/plain", content_encoding=encoding)
    with pytest.raises(OutboundError, match="which cannot be read"):
        await OutsideClient((web.place,)).get(web.url)


async def _dripping(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.02)


async def _silent(writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def _endless_head(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        writer.write(b"X-More: " + b"x" * 1000 + b"\r\n")
        await writer.drain()


@pytest.mark.parametrize("slow", [_dripping, _silent])
async def test_a_server_that_is_slow_in_whatever_it_does_is_given_up(web: WebServer, slow: object) -> None:
    web.answers["/"] = slow  # type: ignore[assignment]
    async with in_time():
        with pytest.raises(OutboundError, match=r"took longer than 0\.3 s"):
            await OutsideClient((web.place,), timeout_s=0.3).get(web.url)


async def test_a_head_without_an_end_is_given_up(web: WebServer) -> None:
    web.answers["/"] = _endless_head
    async with in_time():
        with pytest.raises(OutboundError, match="did not answer in HTTP"):
            await OutsideClient((web.place,), timeout_s=PATIENCE_S).get(web.url)


@pytest.mark.parametrize("said", [b"", b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 abc\r\n\r\n", b"\0" * 5000])
async def test_a_server_that_speaks_no_http_is_told_as_that(web: WebServer, said: bytes) -> None:
    web.answers["/"] = said
    async with in_time():
        with pytest.raises(OutboundError, match="did not answer in HTTP"):
            await OutsideClient((web.place,), timeout_s=PATIENCE_S).get(web.url)


async def test_a_port_that_nobody_listens_on_is_told_as_that() -> None:
    async with web_server() as gone:
        pass
    with pytest.raises(OutboundError, match="no connection to"):
        await OutsideClient((gone.place,)).get(gone.url)


async def test_a_name_that_is_never_looked_up_to_its_end_is_given_up() -> None:
    async def never(host: str, port: int) -> Sequence[str]:
        await asyncio.Event().wait()
        return []

    async with in_time():
        with pytest.raises(OutboundError, match="took longer"):
            await OutsideClient(resolver=never, timeout_s=0.1).get("http://slow.example/")


async def test_proxies_of_the_environment_are_not_used(web: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    async with web_server() as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        web.answers["/"] = reply(b"direct")
        assert (await OutsideClient((web.place,)).get(web.url)).body == b"direct"
        assert proxy.received == []


async def test_nothing_is_kept_from_one_request_to_the_next(web: WebServer) -> None:
    web.answers["/"] = reply(b"one", set_cookie="who=you")
    client = OutsideClient((web.place,))
    await client.get(web.url)
    await client.get(web.url)
    assert [request.headers.get("cookie") for request in web.received] == [None, None]


async def test_a_body_that_is_not_wanted_is_not_read(web: WebServer) -> None:
    web.answers["/"] = _endless
    answer = await OutsideClient((web.place,)).get(web.url, wants=lambda kind: "html" in kind)
    assert (answer.body, answer.content_type) == (b"", "text/plain")


async def test_the_next_address_of_a_host_is_tried_when_the_first_takes_no_connection(web: WebServer) -> None:
    web.answers["/"] = reply(b"found")

    async def two(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.77", "127.0.0.1"]

    client = OutsideClient((f"two.example:{web.port}",), resolver=two)
    assert (await client.get(f"http://two.example:{web.port}/")).body == b"found"
    assert web.received[0].headers["host"] == f"two.example:{web.port}"
