"""The files of a session over HTTP: whole and in ranges, in bounds, for who may, and never as a page."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from pentad.services.gateway.app import GatewayService
from pentad.shared.workspace.file_store import Place
from tests.integration.gateway.conftest import running
from tests.integration.gateway.test_tokens import rest, token_for

FILES = "/v1/sessions/s1/files"
US, THEM = ({"authorization": f"Bearer {key}"} for key in ("ka", "kb"))


@pytest.fixture(params=["folder", "memory"])
async def gateway(request: pytest.FixtureRequest, redis_url: str, tmp_path: Path) -> AsyncIterator[GatewayService]:
    url = str(tmp_path / "files") if request.param == "folder" else f"memory://{tmp_path.name}"
    limits = {"pentad_file_bytes": 5_000_000, "pentad_workspace_bytes": 12_000_000}
    async with running(redis_url, pentad_files=url, pentad_api_keys="ka:acme,kb:bolt", **limits) as service:
        yield service


async def put(http: httpx2.AsyncClient, path: str, data: bytes, **headers: str) -> httpx2.Response:
    return await http.put(f"{FILES}/{path}", content=data, headers=US | headers)


async def test_a_file_is_put_listed_read_and_removed(http: httpx2.AsyncClient) -> None:
    assert (await http.get(FILES, headers=US)).json() == {"items": [], "next": None}
    made = await put(http, "notes/a%20b.md", b"# Tea\n")
    assert made.status_code == 200, made.text
    about = made.json()
    assert {name: about[name] for name in ("path", "size", "media_type")} == {
        "path": "notes/a b.md", "size": 6, "media_type": "text/markdown",
    }  # fmt: skip
    assert about["etag"] == made.headers["etag"]
    assert (await http.get(FILES, headers=US)).json() == {"items": [about], "next": None}
    got = await http.get(f"{FILES}/notes/a%20b.md", headers=US)
    assert (got.status_code, got.content, got.headers["etag"]) == (200, b"# Tea\n", about["etag"])
    assert (await http.delete(f"{FILES}/notes/a%20b.md", headers=US)).status_code == 204
    assert (await http.get(f"{FILES}/notes/a%20b.md", headers=US)).status_code == 404
    assert (await http.delete(f"{FILES}/notes/a%20b.md", headers=US)).status_code == 404


async def test_lists_have_pages_and_globs(http: httpx2.AsyncClient) -> None:
    for name in ("a.txt", "b.csv", "c/d.txt"):
        await put(http, name, b"x")
    first = (await http.get(FILES, params={"limit": 2}, headers=US)).json()
    rest_of = (await http.get(FILES, params={"limit": 2, "cursor": first["next"]}, headers=US)).json()
    assert [[each["path"] for each in page["items"]] for page in (first, rest_of)] == [["a.txt", "b.csv"], ["c/d.txt"]]
    assert rest_of["next"] is None
    texts = (await http.get(FILES, params={"glob": "*.txt"}, headers=US)).json()["items"]
    assert [each["path"] for each in texts] == ["a.txt", "c/d.txt"]
    assert (await http.get(FILES, params={"glob": "x" * 300}, headers=US)).status_code == 422


@pytest.mark.parametrize("name", ["page.html", "image.svg", "x.xhtml", "x.js", "x.pdf", 'a"b.html', "数.html"])
async def test_no_file_is_shown_as_a_page(http: httpx2.AsyncClient, name: str) -> None:
    await put(http, name, b"<script>alert(1)</script>")
    headers = (await http.get(f"{FILES}/{name}", headers=US)).headers
    assert headers["content-disposition"].startswith('attachment; filename="')
    assert headers["content-disposition"].count('"') == 2
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["content-security-policy"] == "default-src 'none'; sandbox"


@pytest.mark.parametrize(
    ("asked", "status", "got", "told"),
    [
        ("bytes=0-3", 206, b"0123", "bytes 0-3/10"),
        ("bytes=8-", 206, b"89", "bytes 8-9/10"),
        ("bytes=-2", 206, b"89", "bytes 8-9/10"),
        ("bytes=-200", 206, b"0123456789", "bytes 0-9/10"),
        ("bytes=5-999999999999999999", 206, b"56789", "bytes 5-9/10"),
        ("bytes=10-", 416, b"", "bytes */10"),
        ("bytes=-0", 416, b"", "bytes */10"),
        ("bytes=3-1", 200, b"0123456789", None),
        ("bytes=-", 200, b"0123456789", None),
        ("bytes=0-1,3-4", 200, b"0123456789", None),
        ("lines=0-1", 200, b"0123456789", None),
        ("bytes=" + "9" * 4000 + "-", 200, b"0123456789", None),
    ],
)
async def test_a_range_is_read_where_it_can_be(
    http: httpx2.AsyncClient, asked: str, status: int, got: bytes, told: str | None
) -> None:
    await put(http, "f.bin", b"0123456789")
    answer = await http.get(f"{FILES}/f.bin", headers=[*US.items(), ("range", asked)])
    assert (answer.status_code, answer.content, answer.headers.get("content-range")) == (status, got, told)


async def test_what_a_client_has_is_not_sent_again(http: httpx2.AsyncClient) -> None:
    tag = (await put(http, "f", b"one")).headers["etag"]
    same = await http.get(f"{FILES}/f", headers=US | {"if-none-match": f'"other", {tag}'})
    assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
    await put(http, "f", b"other")
    assert (await http.get(f"{FILES}/f", headers=US | {"if-none-match": tag})).content == b"other"
    changed = await http.get(f"{FILES}/f", headers=US | {"range": "bytes=0-1", "if-range": tag})
    assert (changed.status_code, changed.content) == (200, b"other")
    head = await http.head(f"{FILES}/f", headers=US)
    assert (head.status_code, head.headers["content-length"], head.content) == (200, "5", b"")


async def test_a_version_is_replaced_only_by_who_knows_it(http: httpx2.AsyncClient) -> None:
    first = (await put(http, "f", b"one", **{"if-none-match": "*"})).headers["etag"]
    assert (await put(http, "f", b"two", **{"if-none-match": "*"})).status_code == 412
    second = await put(http, "f", b"two!", **{"if-match": first})
    assert second.status_code == 200
    assert (await put(http, "f", b"three", **{"if-match": first})).status_code == 412
    assert (await put(http, "new", b"x", **{"if-match": "*"})).status_code == 412
    assert (await put(http, "f", b"x", **{"if-match": "nonsense"})).status_code == 422
    assert (await http.delete(f"{FILES}/f", headers=US | {"if-match": first})).status_code == 412
    assert (await http.get(f"{FILES}/f", headers=US)).content == b"two!"


@pytest.mark.parametrize(
    "path",
    [
        *("..%2F..%2Fetc/passwd", "%2e%2e/x", "a/..%2fb", "%2Fetc/passwd", "a%00b", "a%5C..%5Cb", "a//b"),
        *("%EF%BC%8E%EF%BC%8E/x", "%0d%0aset-cookie:x", "/".join(["a"] * 40), "a" * 300, "%ff%fe"),
    ],
)
async def test_a_hostile_path_is_refused(http: httpx2.AsyncClient, path: str) -> None:
    for answer in (
        await put(http, path, b"x"),
        await http.get(f"{FILES}/{path}", headers=US),
        await http.delete(f"{FILES}/{path}", headers=US),
    ):
        assert answer.status_code in (400, 404, 422), answer.status_code
        assert "set-cookie" not in answer.headers
    assert (await http.get(FILES, headers=US)).json()["items"] == []


async def test_a_file_that_is_too_large_is_refused_before_it_has_come(http: httpx2.AsyncClient) -> None:
    told = await put(http, "f", bytes(5_000_001))
    assert (told.status_code, "PENTAD_FILE_BYTES" in told.text) == (413, True)

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield bytes(65_536)

    try:
        answer = await http.put(f"{FILES}/f", content=endless(), headers=US)
    except httpx2.TransportError:
        pass  # the connection was closed under what we sent
    else:
        assert answer.status_code == 413
    for name in ("a", "b"):
        assert (await put(http, name, bytes(5_000_000))).status_code == 200
    full = await put(http, "c", bytes(5_000_000))
    assert (full.status_code, "PENTAD_WORKSPACE_BYTES" in full.text) == (409, True)
    assert {each["path"] for each in (await http.get(FILES, headers=US)).json()["items"]} == {"a", "b"}
    assert (await put(http, "d", b"x", **{"content-encoding": "gzip"})).status_code == 415


async def test_a_client_that_leaves_in_the_middle_leaves_nothing(
    gateway: GatewayService, http: httpx2.AsyncClient
) -> None:
    host, port = gateway.address.removeprefix("http://").split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    head = f"PUT {FILES}/half HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer ka\r\ncontent-length: 1000\r\n\r\n"
    writer.write(head.encode() + b"half of it")
    await writer.drain()
    writer.close()
    await writer.wait_closed()
    assert (await put(http, "whole", b"x")).status_code == 200
    assert [each["path"] for each in (await http.get(FILES, headers=US)).json()["items"]] == ["whole"]


async def test_another_tenant_and_session_have_files_of_their_own(http: httpx2.AsyncClient) -> None:
    await put(http, "f", b"ours")
    assert (await http.get(f"{FILES}/f", headers=THEM)).status_code == 404
    assert (await http.get(FILES, headers=THEM)).json()["items"] == []
    assert (await http.get("/v1/sessions/S1/files/f", headers=US)).status_code == 404
    assert (await http.get(f"{FILES}/f")).status_code == 401


async def test_a_token_of_the_session_reads_and_writes_as_it_may(gateway: GatewayService) -> None:
    async with rest(gateway, await token_for(gateway, may=["read"])) as reader:
        assert (await reader.get(FILES)).status_code == 200
        assert (await reader.put(f"{FILES}/f", content=b"x")).status_code == 403
    async with rest(gateway, await token_for(gateway, may=["send"])) as sender:
        assert (await sender.put(f"{FILES}/f", content=b"x")).status_code == 200
        assert (await sender.get(f"{FILES}/f")).status_code == 403
        assert (await sender.delete(f"{FILES}/f")).status_code == 204
        assert (await sender.put("/v1/sessions/s2/files/f", content=b"x")).status_code == 403


async def test_a_session_that_has_files_alone_can_be_erased(http: httpx2.AsyncClient) -> None:
    await put(http, "f", b"x")
    assert (await http.delete("/v1/sessions/s1", headers=US)).status_code == 202


async def test_where_no_place_is_set_the_routes_say_what_to_set(redis_url: str) -> None:
    async with running(redis_url, pentad_api_keys="ka:acme") as service, rest(service, "ka") as http:
        for answer in (await http.get(FILES), await http.put(f"{FILES}/f", content=b"x"), await http.get(f"{FILES}/f")):
            assert answer.status_code == 404
            assert "set PENTAD_FILES to a folder" in answer.json()["detail"]


async def test_a_gigabyte_is_sent_in_ranges(redis_url: str, tmp_path: Path) -> None:
    async with running(redis_url, pentad_files=str(tmp_path), pentad_api_keys="ka:acme") as service:
        folder = tmp_path / "acme" / Place("acme", "s1").name / "files"
        async with rest(service, "ka") as http:
            await http.put(f"{FILES}/small", content=b"x")
            make_sparse(folder / "big")
            answer = await http.get(f"{FILES}/big", headers={"range": "bytes=1073741820-1073741829"})
            assert (answer.status_code, answer.content) == (206, bytes(4) + b"the en")
            assert answer.headers["content-range"] == "bytes 1073741820-1073741829/1073741831"


def make_sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.seek(1 << 30)
        file.write(b"the end")
