"""The image holds what the lock names, runs as nobody in particular, and can be built from stand-ins."""

import re
import tomllib

from packaging.requirements import Requirement

from tests.support.documents.manifests import ROOT

DOCKERFILE = (ROOT / "Dockerfile").read_text()
FINAL = DOCKERFILE[DOCKERFILE.rindex("\nFROM ") :]


def _pins(lock: str) -> dict[str, str]:
    text = (ROOT / lock).read_text()
    return dict(re.findall(r"^([a-z0-9-]+)(?:\[[a-z,]+\])?==([^ ;\\]+)", text, flags=re.MULTILINE))


def test_the_image_runs_what_was_tested() -> None:
    tested = _pins("requirements.lock")
    for lock in ("requirements-runtime.lock", "requirements-build.lock"):
        assert _pins(lock)
        assert _pins(lock).items() <= tested.items(), lock


def test_tools_of_development_stay_out_of_the_image() -> None:
    assert not _pins("requirements-runtime.lock").keys() & {"pytest", "mypy", "ruff", "hatchling", "testcontainers"}


def test_every_dependency_of_the_project_is_in_the_image() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    declared = project["dependencies"] + extras["server"] + extras["anthropic"] + extras["code"] + extras["stores"]
    names = {Requirement(line).name for line in declared}
    assert len(names) == len(declared) > 10
    assert names <= _pins("requirements-runtime.lock").keys()


def test_locks_name_no_host() -> None:
    for lock in ("requirements-runtime.lock", "requirements-build.lock"):
        assert not re.search(r"://|--(extra-)?index-url|--find-links", (ROOT / lock).read_text())


def test_installs_are_checked_by_hash_and_compile_nothing() -> None:
    installs = re.findall(r"pip (?:--python \S+ )?install .*?-r \S+", DOCKERFILE.replace("\\\n", " "))
    assert len(installs) == 2
    assert all("--require-hashes" in line and "--only-binary :all:" in line for line in installs)


def test_bases_are_pinned_and_can_be_replaced() -> None:
    assert re.findall(r"^FROM (\S+)", DOCKERFILE, flags=re.MULTILINE) == ["${BUILD}", "${BASE}"]
    defaults = dict(re.findall(r"^ARG (BUILD|BASE)=(\S+)", DOCKERFILE, flags=re.MULTILINE))
    assert defaults["BUILD"] == defaults["BASE"]
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+@sha256:[0-9a-f]{64}", defaults["BASE"])


def test_the_build_needs_no_frontend_from_a_registry() -> None:
    assert "# syntax=" not in DOCKERFILE


def test_the_image_runs_without_rights_and_without_a_shell() -> None:
    assert re.search(r"^USER [1-9]\d*:[1-9]\d*$", FINAL, flags=re.MULTILINE)
    assert re.search(r"^STOPSIGNAL SIGTERM$", FINAL, flags=re.MULTILINE)
    assert re.search(r'^ENTRYPOINT \["pentad"\]$', FINAL, flags=re.MULTILINE)
    assert all(line.startswith("RUN [") for line in FINAL.splitlines() if line.startswith("RUN"))


def test_nothing_is_compiled_at_every_start() -> None:
    assert re.search(r"compileall .*unchecked-hash /opt/pentad/lib$", DOCKERFILE, flags=re.MULTILINE), "what we ship"
    assert re.search(r"'compileall'.*'unchecked-hash'.*'stdlib'", FINAL, flags=re.DOTALL), "what the base ships"


def test_only_what_is_named_goes_to_the_build() -> None:
    rules = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    assert rules[0] == "*"
    copied = set(re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, flags=re.MULTILINE))
    named = {source.split("/")[0].rstrip("*") for line in copied for source in line.split()}
    assert named <= {rule.removeprefix("!") for rule in rules}
