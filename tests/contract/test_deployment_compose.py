"""docker-compose.yml starts the whole of Pentad, closed to the network, with settings that exist."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from pentad.contracts.streams import SERVICES
from pentad.shared.inbound.arrival import MOST_ENTRY_BYTES
from pentad.shared.memory.remote_calls import MOST_REPLY_BYTES
from tests.support.documents.manifest_checks import SETTINGS, is_pinned, is_secret
from tests.support.documents.manifest_links import PORTS
from tests.support.documents.manifests import ROOT, Document, containers, read_base, read_documents
from tests.support.documents.redis_users import PATH as USERS
from tests.support.documents.redis_users import service_users

TEXT = (ROOT / "docker-compose.yml").read_text()
(COMPOSE,) = read_documents(TEXT)
ALL: dict[str, Document] = COMPOSE["services"]
OURS: dict[str, Document] = {name: ALL[name] for name in SERVICES if name in ALL}
STORES = {"redis", "qdrant", "neo4j"}
OF_THE_FILE = {"GATEWAY_PORT", "REDIS_PORT", "REDIS_MAXMEMORY", "REDIS_PASSWORD", "REDIS_TOOLS_PASSWORD"}
OF_THE_FILE |= {"PROMETHEUS_PORT", "NEO4J_PASSWORD"}
"""Variables that only this file reads; docs/deploy.md names them."""
MANDATORY = {"PENTAD_API_KEYS", "PENTAD_ADMIN_KEY", "PENTAD_METRICS_KEY", "NEO4J_PASSWORD"}
MANDATORY |= {"REDIS_PASSWORD", "REDIS_TOOLS_PASSWORD"}
NOT_BY_ENV_FILE = {
    "PENTAD_MODELS": "a file to be mounted",
    "PENTAD_MCP": "a file to be mounted",
    "PENTAD_INSTRUCTIONS": "a file to be mounted",
    "PENTAD_POLICIES": "a file to be mounted",
    "PENTAD_EVAL_CASES": "a folder to be mounted",
    "PENTAD_TOOL_ENV": "stands beside the secrets that it names",
    "PENTAD_DATA_DIR": "the image's",
    "REDIS_URL": "the Redis of the file",
    "PENTAD_REDIS_REPLICAS": "the Redis of the file has none",
    "PENTAD_URL": "of client commands",
    "PENTAD_API_KEY": "of client commands",
    "NO_COLOR": "of client commands",
}
"""Settings that a line in `.env` does not reach, and why."""


def test_all_six_services_their_stores_and_prometheus_are_there() -> None:
    assert set(ALL) == {*SERVICES, *STORES, "prometheus"}


def test_both_generations_of_compose_know_every_section() -> None:
    assert {key for key in COMPOSE if not key.startswith("x-")} == {"services", "volumes"}


@pytest.mark.parametrize("name", ALL)
def test_every_image_is_pinned_and_comes_back_after_a_crash(name: str) -> None:
    assert is_pinned(ALL[name]["image"])
    assert ALL[name]["restart"] == "unless-stopped"


def test_the_image_of_the_services_is_this_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert {service["image"] for service in OURS.values()} == {f"pentad:{version}"}


@pytest.mark.parametrize("name", OURS)
def test_a_service_runs_with_the_least_rights_and_time_to_hand_back(name: str) -> None:
    service = OURS[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["tmpfs"] == ["/tmp:mode=1777", "/data:uid=10001,gid=10001,mode=0700"], "the engine gives it to root"
    assert service["stop_grace_period"] == "30s"


def test_what_killed_tools_leave_behind_is_reaped() -> None:
    assert OURS["tool-worker"]["init"] is True


@pytest.mark.parametrize("name", OURS)
def test_a_service_listens_and_is_asked_for_its_health_on_its_own_port(name: str) -> None:
    port = str(PORTS[name])
    assert OURS[name]["command"] == ["serve", name, "--host", "0.0.0.0", "--port", port]
    assert f"http://127.0.0.1:{port}/readyz" in OURS[name]["healthcheck"]["test"][-1]


@pytest.mark.parametrize("name", ALL)
def test_who_is_waited_for_is_waited_for_until_it_is_healthy(name: str) -> None:
    waited = ALL[name].get("depends_on", {})
    assert all(condition == {"condition": "service_healthy"} for condition in waited.values())
    assert all("healthcheck" in ALL[other] for other in waited)
    assert "redis" in waited or name not in SERVICES


@pytest.mark.parametrize("name", ALL)
def test_ports_are_published_on_loopback_only(name: str) -> None:
    assert all(str(port).startswith("127.0.0.1:") for port in ALL[name].get("ports", []))


@pytest.mark.parametrize("name", [name for name in SERVICES if name != "gateway"])
def test_a_service_can_be_scaled(name: str) -> None:
    assert not {"container_name", "ports", "hostname"} & set(ALL[name])


@pytest.mark.parametrize("name", OURS)
def test_every_variable_of_a_service_is_a_setting(name: str) -> None:
    assert set(OURS[name]["environment"]) <= SETTINGS


def test_every_variable_that_the_file_reads_is_a_setting_or_documented() -> None:
    read = set(re.findall(r"(?<!\$)\$\{(\w+)", TEXT))
    assert read <= SETTINGS | OF_THE_FILE
    deploy = (ROOT / "docs" / "deploy.md").read_text()
    assert [name for name in OF_THE_FILE if f"`{name}`" not in deploy] == []


def test_a_line_in_the_env_file_reaches_every_setting_that_needs_nothing_else() -> None:
    read = set(re.findall(r"(?<!\$)\$\{(\w+)", TEXT))
    assert SETTINGS - read == set(NOT_BY_ENV_FILE)


def test_secrets_have_no_default() -> None:
    assert set(re.findall(r"\$\{(\w+):\?", TEXT)) == MANDATORY


def test_keys_go_only_where_they_are_needed() -> None:
    holders = {name: set(service["environment"]) for name, service in OURS.items()}
    for name in ("PENTAD_API_KEYS", "PENTAD_ADMIN_KEY"):
        assert {holder for holder, given in holders.items() if name in given} == {"gateway"}
    assert {name for name, given in holders.items() if "PENTAD_METRICS_KEY" in given} == set(SERVICES)
    assert "LLM_API_KEY" not in holders["tool-worker"]


def test_each_service_is_given_the_same_secrets_as_on_kubernetes() -> None:
    pods = {
        str(container["name"]): {variable["name"] for variable in container["env"] if is_secret(variable["name"])}
        for _, _, container in containers(read_base()[1])
    }
    assert pods == {name: set(filter(is_secret, service["environment"])) for name, service in OURS.items()}


def test_records_are_where_all_who_read_them_look() -> None:
    readers = {name for name, service in OURS.items() if "PENTAD_RECORDS_URL" in service["environment"]}
    assert readers == {"gateway", "router", "tool-worker", "archiver"}
    writes = {name: "records:/records" in OURS[name]["volumes"] for name in readers}
    assert [name for name, may in writes.items() if not may] == ["tool-worker"]
    assert "records:/records:ro" in OURS["tool-worker"]["volumes"]


def test_files_are_where_all_who_use_them_look() -> None:
    users = {name for name, service in OURS.items() if "PENTAD_FILES" in service["environment"]}
    assert users == {"gateway", "task-runner", "tool-worker", "archiver"}
    writes = {name: "files:/files" in OURS[name]["volumes"] for name in users}
    assert [name for name, may in writes.items() if not may] == ["task-runner"]
    assert OURS["task-runner"]["volumes"] == ["files:/files:ro"]


def test_memory_is_where_all_who_ask_it_look() -> None:
    asking = {name for name, service in OURS.items() if "QDRANT_URL" in service["environment"]}
    assert asking == {"gateway", "task-runner", "tool-worker", "archiver"}


def test_redis_keeps_everything_and_evicts_nothing() -> None:
    command = ALL["redis"]["command"]
    options = dict(zip(command[::2], command[1::2], strict=True))
    assert options["--appendonly"] == "yes"
    assert options["--maxmemory-policy"] == "noeviction"
    assert "PENTAD_REDIS_FSYNC" in options["--appendfsync"]
    assert int(options["--proto-max-bulk-len"].removesuffix("mb")) << 20 > max(MOST_REPLY_BYTES, MOST_ENTRY_BYTES)


def test_the_start_of_redis_sets_the_password_that_the_services_and_its_health_check_use(tmp_path: Path) -> None:
    """Nobody reads or writes the streams without the password, and no list of processes shows it."""
    shell, option, script, name = ALL["redis"]["entrypoint"]
    (tmp_path / "docker-entrypoint.sh").write_text('#!/bin/sh\necho "$@"\ncat\n')
    (tmp_path / "docker-entrypoint.sh").chmod(0o755)
    script = script.replace("$$", "$").replace("/etc/pentad/users.acl", str(USERS))
    started = subprocess.run(
        [shell, option, script, name, *ALL["redis"]["command"][:2]],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "REDISCLI_AUTH": "s3cret", "TOOLS_PASSWORD": "t00ls"},
        check=True,
        capture_output=True,
        text=True,
    )
    lines = started.stdout.splitlines()
    assert lines[:2] == ["redis-server - --appendonly yes", "requirepass s3cret"]
    assert lines[2:] == [f"user tool-worker {' '.join(service_users('t00ls')['tool-worker'])}"]
    assert f"./{USERS.relative_to(ROOT)}:/etc/pentad/users.acl:ro" in ALL["redis"]["volumes"]
    passwords = {name: ALL["redis"]["environment"][name] for name in ("REDISCLI_AUTH", "TOOLS_PASSWORD")}
    addresses = {name: service["environment"]["REDIS_URL"] for name, service in OURS.items()}
    assert addresses.pop("tool-worker") == f"redis://tool-worker:{passwords['TOOLS_PASSWORD']}@redis:6379/0"
    assert set(addresses.values()) == {f"redis://:{passwords['REDISCLI_AUTH']}@redis:6379/0"}
    assert passwords["REDISCLI_AUTH"].startswith("${REDIS_PASSWORD:?")
    assert passwords["TOOLS_PASSWORD"].startswith("${REDIS_TOOLS_PASSWORD:?")


@pytest.mark.parametrize("name", sorted(set(ALL) - set(OURS)))
def test_an_image_of_another_project_is_named_by_its_digest(name: str) -> None:
    """A tag of another project can be moved to another image; a digest cannot."""
    assert re.search(r":v?\d[\w.-]*@sha256:[0-9a-f]{64}$", ALL[name]["image"])


def test_prometheus_finds_every_process_of_every_service() -> None:
    (config,) = read_documents((ROOT / "k8s" / "prometheus" / "prometheus.yml").read_text())
    found = {job["job_name"]: job["dns_sd_configs"][0] for job in config["scrape_configs"]}
    [keys] = {job["authorization"]["credentials_file"] for job in config["scrape_configs"]}
    assert f'"$$PENTAD_METRICS_KEY" > {keys};' in ALL["prometheus"]["entrypoint"][2]
    assert set(ALL["prometheus"]["environment"]) == {"PENTAD_METRICS_KEY"}, "who collects metrics needs no other power"
    assert {name: (at["names"], at["port"]) for name, at in found.items()} == {s: ([s], PORTS[s]) for s in SERVICES}


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)


def _compose() -> list[str]:
    for command in (["docker-compose"], ["docker", "compose"]):
        if shutil.which(command[0]) and _run(*command, "version").returncode == 0:
            return command
    pytest.skip("neither docker-compose nor `docker compose` is on this machine")


def test_compose_itself_accepts_the_file(tmp_path: Path) -> None:
    command = _compose()
    values = tmp_path / "env"
    values.write_text("".join(f"{name}=secret-{number}\n" for number, name in enumerate(sorted(MANDATORY))))
    arguments = ["--env-file", str(values), "-f", str(ROOT / "docker-compose.yml"), "config", "-q"]
    done = _run(*command, *arguments)
    assert done.returncode == 0, done.stderr
