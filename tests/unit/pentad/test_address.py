"""Which gateway a client command talks to."""

import os
from pathlib import Path

import pytest

import pentad
from pentad.address import DEFAULT_URL, address_for
from pentad.cli.main import main
from pentad.errors import ClientError
from pentad.gateway_file import file_of, reachable
from pentad.shared.settings import Settings

HERE, THERE, RUNNING = "http://127.0.0.1:1001", "http://127.0.0.1:1002", "http://127.0.0.1:1003"


def test_what_is_named_wins_over_what_runs(tmp_path: Path) -> None:
    file_of(tmp_path).write_text(RUNNING)
    named = Settings(pentad_url=THERE, pentad_data_dir=tmp_path)
    assert address_for(HERE, named).url == HERE
    assert address_for(None, named).url == THERE
    assert address_for(None, Settings(pentad_data_dir=tmp_path)).url == RUNNING


@pytest.mark.parametrize("written", [None, b"", b" \n", b"\xff"])
def test_without_a_running_system_it_is_the_default_port(tmp_path: Path, written: bytes | None) -> None:
    if written is not None:
        file_of(tmp_path).write_bytes(written)
    address = address_for(None, Settings(pentad_data_dir=tmp_path))
    assert address.url == DEFAULT_URL
    assert str(address.unreachable()).endswith("start it with `make run` or give --url")


def test_nobody_at_a_written_address_says_who_named_it(tmp_path: Path) -> None:
    file_of(tmp_path).write_text(RUNNING + "\n")
    said = str(address_for(None, Settings(pentad_data_dir=tmp_path)).unreachable("refused"))
    assert said.startswith(f"no gateway answers at {RUNNING} (refused): {file_of(tmp_path)} names it")
    assert "is gone: start it again" in said


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
    (tmp_path / ".pentad").mkdir()
    file_of(tmp_path / ".pentad").write_text(RUNNING)
    deep = tmp_path / "src" / "app"
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    assert address_for(None, Settings()).url == RUNNING
    assert address_for(None, Settings(pentad_data_dir=Path("other"))).url == DEFAULT_URL
    monkeypatch.setattr("os.getuid", lambda: -1)
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
    assert [(a.url, a.api_key) for a in (found, given, own)] == [(THERE, "k1"), (HERE, "k1"), (HERE, "k3")]


def test_what_is_written_and_no_address_is_refused(tmp_path: Path) -> None:
    file_of(tmp_path).write_text("nonsense")
    with pytest.raises(ClientError, match="'nonsense' is not a gateway's address"):
        address_for(None, Settings(pentad_data_dir=tmp_path))


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
