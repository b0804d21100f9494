"""docs/run-as-processes.md, its script and its systemd units name commands and settings that exist."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from pentad.cli.main import build_parser
from pentad.contracts.streams import SERVICES
from tests.support.documents.manifest_checks import SETTINGS
from tests.support.documents.manifest_links import PORTS
from tests.support.documents.manifests import ROOT

UNITS = ROOT / "docs" / "systemd"
SCRIPT = ROOT / "docs" / "processes" / "run.sh"
PAGE = (ROOT / "docs" / "run-as-processes.md").read_text()
OF_THE_SCRIPT = {"PENTAD", "ENV_FILE", "LOGS", "RUN", "GATEWAY_PORT"}
OF_THE_SCRIPT |= {"ROUTERS", "TASK_RUNNERS", "TOOL_WORKERS", "EMBEDDINGS", "ARCHIVERS"}
_OURS = re.compile(r"\b(?:PENTAD|LLM|EMBED|QDRANT|NEO4J)_[A-Z0-9_]+\b|\bREDIS_URL\b")


def unit(service: str) -> dict[str, list[str]]:
    """The settings of a service's unit, each with all its values."""
    found: dict[str, list[str]] = {}
    for line in (UNITS / f"pentad-{service}@.service").read_text().splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found.setdefault(name, []).append(value)
    return found


def test_each_service_has_a_unit_and_no_other_has() -> None:
    assert {path.name for path in UNITS.glob("*.service")} == {f"pentad-{name}@.service" for name in SERVICES}


@pytest.mark.parametrize("service", SERVICES)
def test_a_unit_runs_its_service_on_the_port_of_its_instance(service: str) -> None:
    (started,) = unit(service)["ExecStart"]
    program, *words = shlex.split(started.replace("%i", "9999"))
    assert program == "/opt/pentad/bin/pentad"
    given = build_parser().parse_args(words)
    assert (given.command, given.service, given.port) == ("serve", service, 9999)


@pytest.mark.parametrize("service", SERVICES)
def test_a_unit_sets_what_is_a_setting_and_gives_it_time_to_hand_back(service: str) -> None:
    about = unit(service)
    (environment,) = about["Environment"]
    assert {word.partition("=")[0] for word in shlex.split(environment)} <= SETTINGS
    assert (about["Restart"], about["KillMode"]) == (["always"], ["mixed"])
    assert int(about["TimeoutStopSec"][0]) > 30
    assert about["NoNewPrivileges"] == ["yes"]
    assert about["PartOf"] == about["WantedBy"] == ["pentad.target"]


def test_only_who_asks_models_reads_their_keys_and_only_the_gateway_those_of_clients() -> None:
    readers: dict[str, set[str]] = {}
    for service in SERVICES:
        for path in unit(service)["EnvironmentFile"]:
            readers.setdefault(Path(path.lstrip("-")).name, set()).add(service)
    assert readers == {
        "pentad.env": set(SERVICES),
        "gateway.env": {"gateway"},
        "model.env": {"router", "task-runner", "archiver"},
        "embedding.env": {"embedding"},
        "tool-worker.env": {"tool-worker"},
    }
    assert all(f"| `{name}` |" in PAGE for name in readers)


def test_systemd_understands_the_units(tmp_path: Path) -> None:
    if (analyze := shutil.which("systemd-analyze")) is None:
        pytest.skip("systemd-analyze is not installed")
    for path in UNITS.iterdir():
        (tmp_path / path.name).write_text(path.read_text().replace("/opt/pentad/bin/pentad", "/bin/true"))
    units = sorted(tmp_path.iterdir())
    told = subprocess.run(
        [analyze, "verify", *map(str, units)], capture_output=True, text=True, timeout=60, check=False
    )
    assert [line for line in told.stderr.splitlines() if "pentad" in line] == []
    assert told.returncode == 0


def test_the_page_names_settings_that_exist_and_the_ports_that_services_take() -> None:
    named = {name for name in _OURS.findall(PAGE) if not name.endswith("_")}
    assert sorted(named - SETTINGS - OF_THE_SCRIPT) == []
    rows = re.findall(r"^\| ([\w-]+) \|.*\| (\d+) \|$", PAGE, re.MULTILINE)
    assert {name: int(port) for name, port in rows} == {name: int(PORTS[name]) for name in SERVICES}


def test_the_script_starts_all_six_services_and_reads_the_variables_that_the_page_names() -> None:
    text = SCRIPT.read_text()
    assert set(re.findall(r"^several \S+ ([\w-]+)", text, re.MULTILINE)) == set(SERVICES)
    assert set(re.findall(r"\$\{(\w+):=", text)) == OF_THE_SCRIPT
    assert all(f"`{name}`" in PAGE for name in OF_THE_SCRIPT)
    subprocess.run(["/bin/sh", "-n", SCRIPT], check=True, timeout=60)


def test_without_a_redis_the_script_says_which_variable_to_set(tmp_path: Path) -> None:
    environment = {"PATH": "/usr/bin:/bin", "PENTAD": "/bin/false"}
    command = ["/bin/sh", str(SCRIPT)]
    told = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert told.returncode != 0
    assert "set REDIS_URL in pentad.env to the address of your Redis" in told.stderr
    assert list(tmp_path.iterdir()) == []
