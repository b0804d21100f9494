"""What a Redis must be before anything is entrusted to it: where the address is wrong refused, else waited for."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pentad.shared.errors import SettingsError
from pentad.shared.store.admission import admit
from pentad.shared.store.server import look
from pentad.shared.store.store import Store
from tests.support.ports import free_port
from tests.support.redis.redis_server import RedisServer
from tests.support.redis.refusing import configured, crowded, demoted, say
from tests.support.waiting import wait_until

RULES = "on >pw ~pentad:* resetchannels -@all +@read +@write +@connection -@dangerous +eval +evalsha +time"
"""As docs/redis.md has them."""


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with RedisServer() as running:
        yield running


@asynccontextmanager
async def knocking(url: str) -> AsyncIterator[tuple[Store, "asyncio.Task[None]"]]:
    """A store that waits to be let in."""
    store = Store(url)
    task = asyncio.create_task(admit(store, "a service"))
    try:
        yield store, task
    finally:
        task.cancel()
        await asyncio.wait({task})
        await store.close()


async def waits(store: Store, task: "asyncio.Task[None]", words: str) -> None:
    """It says so, and has not been let in."""
    await wait_until(f"{words!r} to be said", lambda: words in (store.trouble or ""))
    assert not task.done()


def as_user(server: RedisServer) -> str:
    return server.url.replace("//", "//pentad:pw@")


async def test_what_is_good_enough_is_let_in_at_once(server: RedisServer) -> None:
    async with knocking(server.url) as (store, task):
        await task
        seen = await look(store.answers)
        assert (seen.role, seen.policy, seen.missing, store.trouble) == ("primary", "noeviction", (), None)


async def test_a_replica_is_waited_for_until_it_is_the_primary(server: RedisServer) -> None:
    async with demoted(server), knocking(server.url) as (store, task):
        await waits(store, task, "this server is a replica")
        say(server, "REPLICAOF", "NO", "ONE")
        await task


async def test_a_server_that_evicts_is_waited_for_until_it_does_not(server: RedisServer) -> None:
    async with configured(server, "maxmemory", "100mb", "0"), knocking(server.url) as (store, task):
        await task
        async with configured(server, "maxmemory-policy", "allkeys-lru", "noeviction"):
            again = asyncio.create_task(admit(store, "another"))
            await waits(store, again, "set maxmemory-policy noeviction")
        await again
        assert store.trouble is None


async def test_that_it_would_evict_is_told_where_there_is_no_limit(
    server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    say(server, "CONFIG", "SET", "maxmemory-policy", "volatile-lru")
    async with knocking(server.url) as (store, task):
        await task
        assert store.trouble is None
    assert "set maxmemory-policy noeviction" in caplog.text


async def test_the_documented_rules_are_enough_and_show_nothing_of_the_server(server: RedisServer) -> None:
    say(server, "ACL", "SETUSER", "pentad", *RULES.split())
    async with knocking(as_user(server)) as (store, task):
        await task
        seen = await look(store.answers)
        assert (seen.role, seen.policy, seen.used, seen.aof) == ("primary", None, None, None)


@pytest.mark.parametrize(
    ("lacking", "given", "words"),
    [
        (["resetkeys"], ["~pentad:*"], "NOPERM No permissions to access a key (DEL pentad:probe)"),
        (["-evalsha"], ["+evalsha"], "'evalsha' command"),
        (["-zadd", "-xtrim"], ["+zadd", "+xtrim"], "may not run XTRIM, ZADD"),
        (["-xgroup|delconsumer"], ["+xgroup|delconsumer"], "may not run XGROUP DELCONSUMER"),
        ([">other", "<pw"], [">pw"], "user name or password of REDIS_URL"),
        (["off"], ["on"], "user name or password of REDIS_URL"),
    ],
)
async def test_what_a_user_lacks_is_named_and_waited_for(
    server: RedisServer, lacking: list[str], given: list[str], words: str
) -> None:
    say(server, "ACL", "SETUSER", "pentad", *RULES.split())
    say(server, "ACL", "SETUSER", "pentad", *lacking)
    async with knocking(as_user(server)) as (store, task):
        await waits(store, task, words)
        say(server, "ACL", "SETUSER", "pentad", *given)
        await task


async def test_a_full_house_is_waited_for(server: RedisServer) -> None:
    async with crowded(server):
        others = [Store(server.url), Store(server.url)]
        for other in others:
            await asyncio.wait({asyncio.ensure_future(_pinged(other))})
        async with knocking(server.url) as (store, task):
            await waits(store, task, "max number of clients")
            for other in others:
                await other.close()
            await task


async def _pinged(store: Store) -> None:
    try:
        await store.call("PING")
    except Exception:
        return


async def test_an_old_server_is_refused(tmp_path: Path) -> None:
    """One that lacks a command of 7.0, as 6.2 does."""
    (tmp_path / "old.conf").write_text('rename-command EXPIRETIME ""\n')
    async with RedisServer(config={"include": str(tmp_path / "old.conf")}) as old, knocking(old.url) as (_, task):
        with pytest.raises(SettingsError, match=r"lacks EXPIRETIME: give REDIS_URL the address of a Redis >= 7\.0"):
            await task


async def test_a_sentinel_is_refused_with_the_address_of_its_primary(server: RedisServer, tmp_path: Path) -> None:
    port = free_port()
    config = tmp_path / "sentinel.conf"
    config.write_text(f"port {port}\nbind 127.0.0.1\nsentinel monitor main 127.0.0.1 {server.port} 1\n")
    sentinel = RedisServer(port=port)
    sentinel.command_line = [str(config), "--sentinel"]
    async with sentinel, knocking(sentinel.url) as (_, task):
        with pytest.raises(SettingsError, match=rf"a Redis Sentinel.*now that is 127\.0\.0\.1:{server.port} \(main\)"):
            await task


def _node() -> dict[str, str]:
    """The settings of a cluster's node, whose other port is not the first plus 10,000: that may not exist."""
    return {"cluster-enabled": "yes", "cluster-port": str(free_port())}


async def test_a_cluster_of_one_shard_will_do(tmp_path: Path) -> None:
    async with RedisServer(config=_node()) as node, knocking(node.url) as (store, task):
        await waits(store, task, "CLUSTERDOWN")
        say(node, "CLUSTER", "ADDSLOTSRANGE", "0", "16383")
        await task


async def test_a_cluster_of_several_shards_is_refused() -> None:
    async with RedisServer(config=_node()) as one, RedisServer(config=_node()) as two:
        say(one, "CLUSTER", "ADDSLOTSRANGE", "0", "8000")
        say(two, "CLUSTER", "ADDSLOTSRANGE", "8001", "16383")
        bus = b"".join(line for line in two.command("CLUSTER", "NODES").splitlines() if b"myself" in line)
        other = bus.split(b"@")[1].split(b" ")[0].split(b",")[0].decode()
        say(one, "CLUSTER", "MEET", "127.0.0.1", str(two.port), other)
        await wait_until("the cluster", lambda: b"cluster_size:2" in one.command("CLUSTER", "INFO"))
        async with knocking(one.url) as (_, task):
            with pytest.raises(SettingsError, match="shared by 2 primaries"):
                await task


# TLS


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CA of our own and a certificate for 127.0.0.1."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl on this machine")
    folder = tmp_path_factory.mktemp("tls")
    days, key = ["-days", "1"], ["-newkey", "rsa:2048", "-nodes"]
    signed = ["-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial"]
    (folder / "ext").write_text("subjectAltName=IP:127.0.0.1\n")
    for words in (
        ["req", "-x509", *key, *days, "-subj", "/CN=a private CA", "-keyout", "ca.key", "-out", "ca.crt"],
        ["req", *key, "-subj", "/CN=redis", "-keyout", "redis.key", "-out", "redis.csr"],
        ["x509", "-req", *days, *signed, "-in", "redis.csr", "-extfile", "ext", "-out", "redis.crt"],
    ):
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)
    return folder


@pytest.fixture
def tls(certificates: Path, tmp_path: Path) -> Iterator[str]:
    """``HOST:PORT`` of a server that speaks TLS alone: the first program here that can."""
    for program in ("redis-server", "valkey-server"):
        found = shutil.which(program)
        if found is not None:
            break
    else:
        pytest.skip("no redis-server or valkey-server with TLS on this machine (the wheel's has none)")
    port = free_port()
    words = ["--port", "0", "--tls-port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(tmp_path)]
    files = {"tls-cert-file": "redis.crt", "tls-key-file": "redis.key", "tls-ca-cert-file": "ca.crt"}
    words += [word for name, file in files.items() for word in (f"--{name}", str(certificates / file))]
    process = subprocess.Popen([found, *words, "--tls-auth-clients", "no"], stdout=subprocess.DEVNULL)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=10)


async def test_tls_with_a_private_ca(tls: str, certificates: Path) -> None:
    async with knocking(f"rediss://{tls}/0?ssl_ca_certs={certificates / 'ca.crt'}") as (store, task):
        await task
        assert await store.call("SET", "pentad:x", "1") == b"OK"


async def test_a_certificate_that_is_not_trusted_is_said_with_the_cure(tls: str) -> None:
    async with knocking(f"rediss://{tls}/0") as (store, task):
        await waits(store, task, "name its CA in REDIS_URL, ?ssl_ca_certs=FILE")


async def test_a_ca_that_is_not_there_is_refused() -> None:
    missing = os.devnull + "/ca.crt"
    async with knocking(f"rediss://127.0.0.1:1/0?ssl_ca_certs={missing}") as (_, task):
        with pytest.raises(SettingsError, match=f"ssl_ca_certs names {missing}, which is not there"):
            await task


async def test_a_port_without_tls_is_said_with_the_cure(server: RedisServer) -> None:
    async with knocking(server.url.replace("redis://", "rediss://")) as (store, task):
        await waits(store, task, "no TLS")


async def test_a_port_with_tls_alone_is_said_with_the_cure(tls: str) -> None:
    async with knocking(f"redis://{tls}/0") as (store, task):
        await waits(store, task, "rediss://")
