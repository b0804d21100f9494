"""Dead letters over HTTP and on the command line: for the operator alone, in pages, whatever they hold."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from pentad.cli.main import main
from pentad.contracts.dead_letters import DeadLetter, Link
from pentad.contracts.streams import DEAD, INBOUND, INBOUND_DEAD
from pentad.services.gateway.app import GatewayService
from pentad.shared.settings import load_settings
from pentad.shared.store.store import Store
from pentad.shared.work.dead_letters import BODY_LIMIT, DeadLetterLimits, make_letter
from tests.integration.gateway.conftest import running
from tests.support.waiting import PATIENCE_S

HOSTILE = "\x1b[31m\x00<b>" + "x" * 300


async def put(store: Store, key: str, entry: str, data: str = '{"content":"hi","session_id":"s1"}') -> None:
    letter = DeadLetter(
        kind="entry", stream=INBOUND.key(), entry_id="1-1", reason=f"bad {entry} {HOSTILE}", attempts=1,
        at="2030-01-31T12:00:00.000Z", body={"data": data},
    )  # fmt: skip
    await store.call("XADD", key, entry, "data", letter.to_json())


@asynccontextmanager
async def keyed(redis: str, key: str | None, **settings: Any) -> AsyncIterator[httpx2.AsyncClient]:
    """A client with this key, of a gateway with these settings."""
    headers = {"authorization": f"Bearer {key}"} if key else {}
    async with (
        running(redis, **settings) as gateway,
        httpx2.AsyncClient(base_url=gateway.address, headers=headers, trust_env=False, timeout=PATIENCE_S) as http,
    ):
        yield http


async def pages(http: httpx2.AsyncClient, limit: int) -> list[str]:
    found: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = (await http.get("/v1/dead-letters", params={"limit": str(limit), **cursor})).json()
        found += [item["id"] for item in page["items"]]
        if page["next"] is None:
            return found
        cursor = {"cursor": page["next"]}


@pytest.mark.parametrize("limit", [1, 3, 7, 500])
async def test_letters_of_all_streams_are_listed_newest_first(redis_url: str, tmp_path: Path, limit: int) -> None:
    store = Store(redis_url)
    expected = []
    for n in range(1, 60):
        place = ("inbound", "0", "1")[n % 3 if n < 40 else 1]
        key = INBOUND_DEAD.key() if place == "inbound" else DEAD.key(int(place))
        await put(store, key, f"{n // 4 + 1}-{n}")
        expected.append((n // 4 + 1, n, f"{place}-{n // 4 + 1}-{n}"))
    async with keyed(redis_url, None, pentad_data_dir=tmp_path, pentad_shards=2) as http:
        assert await pages(http, limit) == [name for *_, name in sorted(expected, reverse=True)]
    await store.close()


async def test_letters_with_the_same_id_in_several_streams_are_each_listed_once(
    store: Store, http: httpx2.AsyncClient
) -> None:
    for key in (INBOUND_DEAD.key(), DEAD.key(0)):
        for n in range(1, 26):
            await put(store, key, f"5-{n}")
    for limit in (1, 7):
        found = await pages(http, limit)
        assert (len(found), len(set(found))) == (50, 50)


async def test_what_is_no_letter_is_listed_and_can_be_discarded(store: Store, http: httpx2.AsyncClient) -> None:
    await store.call("XADD", DEAD.key(0), "5-1", "data", b"\xff\x00", "other", "x")
    (item,) = (await http.get("/v1/dead-letters")).json()["items"]
    assert item == {"id": "0-5-1", "problem": "this dead letter cannot be read"}
    assert (await http.get("/v1/dead-letters/0-5-1")).status_code == 410
    assert (await http.post("/v1/dead-letters/0-5-1/redrive")).status_code == 410
    assert (await http.delete("/v1/dead-letters/0-5-1")).status_code == 204
    assert (await http.delete("/v1/dead-letters/0-5-1")).status_code == 404


@pytest.mark.parametrize(
    "name", ["x", "0", "0-1", "0-1-x", "9-1-1", "9999-1-1", "0-1-1-1", "inbound-", "%2e%2e", "0-٣-1"]
)
async def test_what_is_no_id_of_a_letter_is_not_found(http: httpx2.AsyncClient, name: str) -> None:
    for method, path in (("GET", ""), ("POST", "/redrive"), ("DELETE", "")):
        assert (await http.request(method, f"/v1/dead-letters/{name}{path}")).status_code == 404


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"[]", 400), (b"{", 400), (b'{"content":""}', 409), (b'{"content":"' + b"x" * (1 << 20) + b'"}', 413)],
)
async def test_a_hostile_edit_is_refused_and_changes_nothing(
    store: Store, http: httpx2.AsyncClient, body: bytes, status: int
) -> None:
    await put(store, DEAD.key(0), "5-1")
    refused = await http.post("/v1/dead-letters/0-5-1/redrive", content=body)
    assert (refused.status_code, refused.headers["content-type"]) == (status, "application/problem+json")
    assert (await http.get("/v1/dead-letters/0-5-1")).json()["redrive"]["body"]["content"] == "hi"
    assert (await http.post("/v1/dead-letters/0-5-1/redrive")).status_code == 202


async def test_only_the_admin_key_opens_them(redis_url: str, tmp_path: Path) -> None:
    tenants, admin = {"pentad_api_keys": "k1:acme"}, {"pentad_admin_key": "root"}
    cases: list[tuple[dict[str, str], str | None, int]] = [
        (tenants, None, 401), (tenants, "k1", 403), (tenants, "root", 401),
        (tenants | admin, "k1", 403), (tenants | admin, "root", 200), (admin, None, 403), (admin, "root", 200),
        ({}, None, 200),
    ]  # fmt: skip
    for settings, key, status in cases:
        async with keyed(redis_url, key, pentad_data_dir=tmp_path, **settings) as http:
            for method, path in (("GET", ""), ("GET", "/0-1-1"), ("POST", "/0-1-1/redrive"), ("DELETE", "/0-1-1")):
                found = await http.request(method, f"/v1/dead-letters{path}")
                assert found.status_code == (404 if path and status == 200 else status), (settings, key, path)
            if status == 200 and "pentad_api_keys" in settings:
                assert (await http.get("/v1/tasks")).status_code == 403


async def command(gateway: GatewayService, *words: str) -> int:
    return await asyncio.to_thread(main, ["dlq", *words, "--url", gateway.address])


async def test_the_commands_list_show_redrive_and_discard(
    store: Store, gateway: GatewayService, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert await command(gateway, "list") == 0
    assert capsys.readouterr().out == "no dead letters\n"
    for n in range(1, 5):
        await put(store, DEAD.key(0), f"5-{n}")
    assert await command(gateway, "list") == 0
    listed = capsys.readouterr().out
    assert ["0-5-4" in listed, "\x1b" in listed, "\x00" in listed, len(listed.splitlines())] == [True, False, False, 5]
    assert await command(gateway, "list", "--json", "--limit", "2") == 0
    assert [json.loads(line)["id"] for line in capsys.readouterr().out.splitlines()] == ["0-5-4", "0-5-3"]
    assert await command(gateway, "show", "0-5-1") == 0
    shown = capsys.readouterr().out
    assert ["\x1b" in shown, "what led to it" in shown, '"content": "hi"' in shown] == [False, True, True]
    assert await command(gateway, "show", "0-5-1", "--json") == 0
    edit = json.loads(capsys.readouterr().out)["redrive"]["body"] | {"content": "edited", "message_id": "m1"}
    (file := tmp_path / "edit.json").write_text(json.dumps(edit))
    assert await command(gateway, "redrive", "0-5-1", "--edit", str(file)) == 0
    assert capsys.readouterr().out == "0-5-1 was sent again: message m1 in session s1\n"
    ((body, _),) = await waiting(store)
    assert json.loads(body.split(b" ", 3)[3])["content"] == "edited"
    assert await command(gateway, "redrive", "0-5-2", "0-5-1", "0-5-3") == 1
    said = capsys.readouterr()
    assert (len(said.out.splitlines()), "redriven before" in said.err) == (2, True)
    assert await command(gateway, "discard", "0-5-4") == 0
    assert await command(gateway, "discard", "0-5-4") == 1
    assert "there is no such dead letter" in capsys.readouterr().err


async def waiting(store: Store) -> list[Any]:
    found = await store.call("ZRANGE", "pentad:{0}:session:default:s1:mail", 0, -1, "WITHSCORES")
    return list(zip(found[::2], found[1::2], strict=True))


@pytest.mark.parametrize(
    ("content", "complaint"), [(None, "No such file"), ("{", "not JSON"), ("[1]", "must be a JSON object")]
)
async def test_an_edit_that_cannot_be_read_is_told(
    gateway: GatewayService, capsys: pytest.CaptureFixture[str], tmp_path: Path, content: str | None, complaint: str
) -> None:
    file = tmp_path / "edit.json"
    if content is not None:
        file.write_text(content)
    assert await command(gateway, "redrive", "0-5-1", "--edit", str(file)) == 1
    assert complaint in capsys.readouterr().err
    assert await command(gateway, "redrive", "0-5-1", "0-5-2", "--edit", str(file)) == 1
    assert "just one" in capsys.readouterr().err


async def test_letters_are_bounded_in_age_and_number_and_that_is_told(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    settings = load_settings({}, pentad_dead_maxlen=3, pentad_dead_ttl_s=3600)
    now = await store.clock()
    await put(store, INBOUND_DEAD.key(), "1-1")  # its producer's own id, which is no time
    for age_s in (4000, 3700, 100, 90, 80, 70):
        await put(store, DEAD.key(0), f"{now - age_s * 1000}-1")
    await DeadLetterLimits(store, settings, [0]).once()
    left = [int(entry.split(b"-")[0]) for entry, _ in await store.call("XRANGE", DEAD.key(0), "-", "+")]
    assert left == [now - age_s * 1000 for age_s in (90, 80, 70)]
    assert await store.call("XLEN", INBOUND_DEAD.key()) == 1
    assert ["PENTAD_DEAD_TTL_S" in caplog.text, "PENTAD_DEAD_MAXLEN" in caplog.text] == [True, True]


def test_a_letter_keeps_a_bounded_part_of_what_was_set_aside() -> None:
    about: dict[str, Any] = {"reason": "x" * 10_000, "attempts": 1, "at": "now", "whom": {"task_id": "-"}, "chain": ()}
    letter = make_letter("entry", "s", "1-1", [("data", b"\xff" * 2 * BODY_LIMIT), ("more", b"x")], **about)
    assert (letter.clipped, letter.task_id, list(letter.body)) == (True, None, ["data"])
    assert len(letter.to_json()) < 6 * BODY_LIMIT
    many = make_letter("entry", "s", "1-1", ((f"{n}" * 300, b"x") for n in range(100_000)), **about)
    assert (many.clipped, sum(map(len, many.body)) <= BODY_LIMIT) == (True, True)
    whole = make_letter("entry", "s", "1-1", [("data", b"x")], **about)
    assert (whole.clipped, whole.body, len(whole.reason)) == (False, {"data": "x"}, 4096)


@pytest.mark.parametrize("cursor", ["0-0-0", "inbound-0-0", "0-18446744073709551615-18446744073709551615"])
async def test_a_cursor_at_either_end_is_one(store: Store, http: httpx2.AsyncClient, cursor: str) -> None:
    await put(store, DEAD.key(0), "5-1")
    found = await http.get("/v1/dead-letters", params={"cursor": cursor})
    assert (found.status_code, len(found.json()["items"])) == (200, 1 if "18446" in cursor else 0)


async def test_nothing_in_a_letter_reaches_the_terminal_as_a_control_character(
    store: Store, gateway: GatewayService, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = "\x1b]0;pwn\x07\x1b[2J\x9b31m\u202e"
    body = {odd: odd, "data": json.dumps({"content": odd}, ensure_ascii=False)}
    letter = DeadLetter(kind="entry", stream=odd, entry_id=odd, reason=odd, attempts=1, at=odd, task_id=odd, body=body)
    chain = [Link(kind="message", id=odd)]
    for n, stream in enumerate((odd, INBOUND.key()), start=1):
        data = letter.model_copy(update={"stream": stream, "chain": chain}).to_json()
        await store.call("XADD", DEAD.key(0), f"5-{n}", "data", data)
    for words in (["list"], ["show", "0-5-1"], ["show", "0-5-2"]):
        assert await command(gateway, *words) == 0
        assert [c for c in odd if c in capsys.readouterr().out and not c.isprintable()] == []
