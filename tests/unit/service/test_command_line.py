"""The command line: what it takes, and how each end of it looks."""

import subprocess
import sys

import pytest

from pentad.cli.main import _COMMANDS, build_parser, main
from pentad.shared.errors import SettingsError
from pentad.shared.service.exits import exit_code_of


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("up --port 9000 --data-dir d", {"command": "up", "port": 9000, "host": "127.0.0.1"}),
        ("serve tool-worker --host 0.0.0.0", {"service": "tool-worker", "host": "0.0.0.0", "port": None}),
        ("chat --session s1", {"session": "s1", "url": None}),
        ("send hello --session s1 --task t1 --json", {"text": "hello", "session": "s1", "task": "t1", "json": True}),
        (
            "tasks --status active --session s --limit 5",
            {"status": "active", "session": "s", "limit": 5, "json": False},
        ),
        ("task t1 --json --url http://h", {"id": "t1", "json": True, "url": "http://h"}),
        ("cancel t1", {"id": "t1", "debug": False}),
        ("models --json --url http://h", {"command": "models", "json": True, "url": "http://h"}),
        ("doctor --json --debug", {"json": True, "debug": True}),
        ("--debug doctor", {"debug": True}),
    ],
)
def test_takes_what_the_interface_says(line: str, expected: dict[str, object]) -> None:
    args = vars(build_parser().parse_args(line.split()))
    assert {name: args[name] for name in expected} == expected
    assert args["command"] in _COMMANDS


def test_a_graphs_state_is_an_object() -> None:
    line = ["send", "go", "--instruction", "g", "--state", '{"a": [1, {"b": "c"}]}']
    assert build_parser().parse_args(line).state == {"a": [1, {"b": "c"}]}


@pytest.mark.parametrize(
    ("state", "problem"),
    [
        ("", "the state is no JSON"),
        ("{", "the state is no JSON"),
        ("[1]", 'the state is no JSON object: write {"KEY": VALUE}'),
        ("NaN", "the state is no JSON"),
        ('{"a": 1e999}', "the state is no JSON"),
        ('{"a":"' + "x" * 65_536 + '"}', "the state has at most 65,536 bytes: send a reference"),
        ("[" * 60_000, "the state is no JSON"),
        ("\ud800", "the state is no JSON"),
    ],
    ids=range(8),
)
def test_a_state_that_is_none_is_told(state: str, problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["send", "go", "--state", state])
    assert ended.value.code == 2
    assert problem in capsys.readouterr().err


@pytest.mark.parametrize("line", ["--debug", "fly", "serve", "serve cook", "send", "up --port 70000", "task"])
def test_wrong_usage_is_exit_code_2(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(line.split())
    assert ended.value.code == 2
    assert "--help` says how\n" in capsys.readouterr().err


def test_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("pentad 0.")


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (SettingsError("PENTAD_SHARDS is wrong:\n too many"), 1, "pentad: PENTAD_SHARDS is wrong: too many\n"),
        (ConnectionRefusedError("nobody there"), 1, "pentad: no connection: nobody there; see `pentad doctor`\n"),
        (KeyError("x"), 1, "pentad: unexpected KeyError: 'x' (--debug shows where)\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_an_error_is_one_line(error: BaseException, code: int, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> int:
        raise error

    assert exit_code_of(work, prog="pentad") == code
    assert capsys.readouterr().err == line


def test_a_traceback_only_on_debug(capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> int:
        raise SettingsError("wrong")

    exit_code_of(work, prog="pentad", debug=True)
    assert "Traceback" in capsys.readouterr().err


def test_the_parser_needs_nothing_heavy() -> None:
    heavy = ("redis", "openai", "faststream", "uvicorn", "starlette", "prometheus_client", "fsspec", "hiredis")
    code = f"import sys, pentad.cli.main as m; m.build_parser(); print([n for n in {heavy!r} if n in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert shown.stdout.strip() == "[]"
