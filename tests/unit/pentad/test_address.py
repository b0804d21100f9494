"""Which gateway a client command talks to."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import pentad
from pentad.cli.main import main
from pentad.client.address import DEFAULT_URL, address_for, admin_address_for, file_of, reachable
from pentad.errors import ClientError, GatewayUnreachable
from pentad.shared.command_settings import command_settings
from pentad.shared.embedded.data_dir import DataDirLock
from pentad.shared.embedded.operator_key import with_operator_key
from pentad.shared.settings import Settings, load_settings

HERE, THERE, RUNNING = "http://127.0.0.1:1001", "http://127.0.0.1:1002", "http://127.0.0.1:1003"


@contextmanager
def system_on(data_dir: Path, url: str = RUNNING) -> Iterator[None]:
    """What a running system does to its data directory."""
    with DataDirLock(data_dir):
        file_of(data_dir).write_text(url)
        yield


@pytest.fixture(autouse=True)
def nothing_exported(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PENTAD_URL", "PENTAD_API_KEY", "PENTAD_ADMIN_KEY", "PENTAD_DATA_DIR", "LLM_API_KEY", "LLM_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def test_what_is_named_wins_over_what_runs(tmp_path: Path) -> None:
    named = Settings(pentad_url=THERE, pentad_data_dir=tmp_path)
    assert address_for(HERE, named).url == HERE
    assert address_for(None, named).url == THERE
    with system_on(tmp_path):
        assert address_for(None, Settings(pentad_data_dir=tmp_path)).url == RUNNING
        assert address_for(None, named).url == THERE


@pytest.mark.parametrize("written", [None, b"", b" \n", b"\xff"])
def test_without_a_running_system_it_is_the_default_port(tmp_path: Path, written: bytes | None) -> None:
    if written is not None:
        file_of(tmp_path).write_bytes(written)
    address = address_for(None, Settings(pentad_data_dir=tmp_path))
    assert address.url == DEFAULT_URL
    assert str(address.unreachable()).endswith("start it with `make run` or give --url")


def test_nobody_at_a_written_address_says_who_named_it(tmp_path: Path) -> None:
    file_of(tmp_path).write_text(RUNNING + "\n")
    with pytest.raises(GatewayUnreachable) as failed:
        address_for(None, Settings(pentad_data_dir=tmp_path))
    said = str(failed.value)
    assert said.startswith(f"no gateway answers at {RUNNING} (")
    assert f"{file_of(tmp_path)} names it, but the system that wrote it is gone: start it again" in said


def test_an_error_about_an_address_says_who_named_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    named = Settings(pentad_url=THERE, pentad_data_dir=tmp_path)
    given, chosen = address_for(HERE, named).unreachable(), address_for(None, named).unreachable()
    assert str(given) == f"no gateway answers at {HERE}: --url names it: start it with `make run` or give another"
    assert str(chosen) == f"no gateway answers at {THERE}: PENTAD_URL names it: start it with `make run` or give --url"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENTAD_URL", "http://")
    for words, code, begin in (
        (["--url", "nonsense"], 2, "argument --url: 'nonsense' is not a gateway's address: write it as http://"),
        (["--url", "http://["], 2, "argument --url: 'http://[' is not a gateway's address: write it as http://"),
        ([], 1, "PENTAD_URL is wrong: must be http://HOST:PORT/PATH"),
    ):
        assert ended(["tasks", *words]) == code
        said = capsys.readouterr().err
        assert (said.count("\n"), begin in said) == (1, True)


def ended(words: list[str]) -> int:
    try:
        return main(words)
    except SystemExit as end:
        return int(str(end.code))


def test_the_nearest_system_above_the_working_directory_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`pentad.connect()` and the commands, in a folder of the project."""
    deep = tmp_path / "src" / "app"
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    with system_on(tmp_path / ".pentad"):
        assert address_for(None, Settings()).url == RUNNING
        assert address_for(None, Settings(pentad_data_dir=Path("other"))).url == DEFAULT_URL
        monkeypatch.setattr("os.geteuid", lambda: -1)
        assert address_for(None, Settings()).url == DEFAULT_URL


@pytest.mark.parametrize("kind", ["pipe", "long", "folder"])
def test_what_is_no_short_file_is_no_address(tmp_path: Path, kind: str) -> None:
    path = file_of(tmp_path)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.write_text("\n" * 10_000 + RUNNING)
    assert address_for(None, Settings(pentad_data_dir=tmp_path)).url == DEFAULT_URL


def test_connect_takes_gateway_and_key_from_where_commands_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENTAD_API_KEY", "k1")
    (tmp_path / ".env").write_text(f"PENTAD_URL={THERE}\nPENTAD_API_KEY=k2\n")
    found, given, own = (
        agent._address for agent in (pentad.connect(), pentad.connect(HERE), pentad.connect(HERE, "k3"))
    )
    assert [(a.url, a.api_key) for a in (found, given, own)] == [(THERE, "k2"), (HERE, "k1"), (HERE, "k3")]


def test_an_exported_key_does_not_go_where_only_a_file_of_the_folder_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Security: whoever wrote the folder that a person works in gets no key of that person's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENTAD_API_KEY", "mine")
    monkeypatch.setenv("PENTAD_ADMIN_KEY", "crown")
    (tmp_path / ".env").write_text(f"PENTAD_URL={THERE}\n")
    for ask in (
        lambda: address_for(None, command_settings()),
        lambda: admin_address_for(None, command_settings()),
        pentad.connect,
        lambda: pentad.connect(api_key="the program's"),
    ):
        with pytest.raises(ClientError, match=r"named by \.env of this folder alone.*give --url or export PENTAD_URL"):
            ask()
    named = command_settings(pentad_url=THERE)
    assert address_for(THERE, named).api_key == "mine"
    assert admin_address_for(THERE, named).api_key == "crown"
    monkeypatch.setenv("PENTAD_URL", THERE)
    assert pentad.connect()._address.api_key == "mine"


def test_the_operators_key_stays_here_where_only_the_folder_names_the_gateway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Security: a `.env` with an API key of its own gets no further key."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENTAD_ADMIN_KEY", "crown")
    (tmp_path / ".env").write_text(f"PENTAD_URL={THERE}\nPENTAD_API_KEY=theirs\n")
    agent = pentad.connect()
    assert (agent._address.api_key, agent._operator._address.api_key) == ("theirs", "theirs")
    with pytest.raises(ClientError, match="PENTAD_ADMIN_KEY is exported"):
        admin_address_for(None, command_settings())
    (tmp_path / ".env").write_text(f"PENTAD_URL={THERE}\nPENTAD_ADMIN_KEY=theirs\n")
    assert admin_address_for(None, command_settings()).api_key == "theirs"


def test_of_a_folders_env_clients_take_their_own_variables_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Security: no proxy and no module comes from the folder; a key of a model goes to no address of the folder's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LLM_API_KEY", "mine")
    (tmp_path / ".env").write_text(
        f"http_proxy={THERE}\nPENTAD_PLUGINS=evil\nLLM_BASE_URL={THERE}\nPENTAD_URL={HERE}\n"
    )
    ours, doctors = command_settings(), command_settings(operator=True)
    assert (ours.pentad_url, ours.pentad_plugins, ours.llm_base_url) == (HERE, (), None)
    assert (doctors.llm_base_url, doctors.llm_api_key) == (THERE, None)
    assert doctors.withheld == {"LLM_API_KEY"}
    assert "http_proxy" not in os.environ
    (tmp_path / ".env").write_text(f"LLM_BASE_URL={THERE}\nLLM_API_KEY=theirs\n")
    both = command_settings(operator=True)
    assert both.llm_api_key is not None
    assert (both.llm_api_key.get_secret_value(), both.withheld) == ("theirs", frozenset())


def _open_to_others(folder: Path) -> None:
    folder.chmod(0o755)


def _linked(folder: Path) -> None:
    file_of(folder).rename(folder / "elsewhere")
    file_of(folder).symlink_to("elsewhere")


def _elsewhere(folder: Path) -> None:
    file_of(folder).write_text("http://agent.example:8080")


def _disguised(folder: Path) -> None:
    file_of(folder).write_text("http://127.0.0.1@agent.example:8080")


@pytest.mark.parametrize("done", [_open_to_others, _linked, _elsewhere, _disguised])
def test_an_address_that_may_be_somebody_elses_is_not_used(tmp_path: Path, done: Callable[[Path], None]) -> None:
    """Security: a key goes to an address of `gateway.url` only where a system of this user's runs on its folder."""
    settings = Settings(pentad_data_dir=tmp_path / "d")
    with system_on(tmp_path / "d"):
        done(tmp_path / "d")
        with pytest.raises(ClientError, match="nothing is sent where it says: remove it, or name the gateway"):
            address_for(None, settings)
        assert address_for(HERE, settings).url == HERE


def test_what_another_user_has_written_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Security: another user of the machine may lay a `.pentad` into a folder that all may write to."""
    with system_on(tmp_path):
        own = os.geteuid()
        monkeypatch.setattr("os.geteuid", lambda: own + 1)
        with pytest.raises(ClientError, match="belongs to another user"):
            address_for(None, Settings(pentad_data_dir=tmp_path))


def test_commands_find_the_operators_key_of_the_system_that_runs_here(tmp_path: Path) -> None:
    """The operator's key of an open gateway is read where its system runs, and goes to that gateway alone."""
    settings = Settings(pentad_data_dir=tmp_path)
    with system_on(tmp_path):
        made = with_operator_key(settings).admin_key
        assert made
        assert (tmp_path / "admin.key").stat().st_mode & 0o777 == 0o600
        assert with_operator_key(settings).admin_key == made, "it stays the same from start to start"
        assert admin_address_for(None, settings).api_key == made
        assert admin_address_for(RUNNING, settings).api_key == made
        assert admin_address_for(HERE, settings).api_key is None
        assert address_for(None, settings).api_key is None
    assert admin_address_for(RUNNING, settings).api_key is None, "whoever listens there now is not known"
    assert with_operator_key(load_settings({}, pentad_data_dir=tmp_path, pentad_admin_key="own")).admin_key == "own"
    assert not (tmp_path / "admin.key").exists()


@pytest.mark.parametrize(
    ("listens", "found"),
    [
        ("http://0.0.0.0:8080", "http://127.0.0.1:8080"),
        ("http://[::]:8080", "http://[::1]:8080"),
        ("http://[::1]:8080", "http://[::1]:8080"),
        ("http://10.1.2.3:9000", "http://10.1.2.3:9000"),
    ],
)
def test_an_address_to_listen_on_is_written_as_one_to_connect_to(listens: str, found: str) -> None:
    assert reachable(listens) == found
