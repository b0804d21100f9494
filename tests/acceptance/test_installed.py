"""What ``pip install`` leaves behind: the one name ``pentad``, and nothing that a project of the user meets."""

import asyncio
import subprocess
import sys
import sysconfig
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

from tests.support.processes.up import ROOT, Up

pytestmark = pytest.mark.acceptance

_TOOLS = """
import pentad
import contracts, services, shared

@pentad.tool(effect="pure")
async def weather(city: str) -> str:
    '''Weather of a city right now.

    Args:
        city: Name of the city, in English.
    '''
    return f"{city}: {services.NAME}, {shared.NAME}, {contracts.NAME}"
"""
_ASK = """
import asyncio, sys
import pentad
import services

async def main() -> None:
    async with pentad.connect(sys.argv[1]) as agent:
        async for event in agent.send("weather in Berlin?"):
            if event.type == "message":
                print(event.content, "|", services.NAME)

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is published."""
    folder = tmp_path_factory.mktemp("wheel")
    _pip("wheel", "--no-build-isolation", "--no-deps", "--wheel-dir", str(folder), str(ROOT))
    (built,) = folder.glob("pentad-*.whl")
    return built


def _pip(*words: str) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *words, "--no-index"]
    subprocess.run(command, check=True, timeout=120)


def _environment(folder: Path, wheel: Path, dependencies: Path) -> Path:
    """A new virtual environment with the wheel in it. What it depends on is taken from that folder."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=120)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(f"{dependencies}\n")
    before = {path.name for path in packages.iterdir()}
    _pip("--python", str(folder / "bin" / "python"), "install", "--no-deps", str(wheel))
    added = {path.name for path in packages.iterdir()} - before
    assert {name for name in added if not name.endswith(".dist-info")} == {"pentad"}
    return folder


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Path:
    """``pip install 'pentad[server]'``."""
    return _environment(tmp_path_factory.mktemp("installed") / "env", wheel, Path(sysconfig.get_path("purelib")))


@pytest.fixture(scope="module")
def light(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Path:
    """``pip install pentad``."""
    folder = tmp_path_factory.mktemp("light")
    dependencies = folder / "dependencies"
    dependencies.mkdir()
    for name in _needed("pentad"):
        found = distribution(name)
        for top in {file.parts[0] for file in found.files or () if file.parts[0] not in ("..", "__pycache__")}:
            (dependencies / top).symlink_to(Path(str(found.locate_file(top))))
    return _environment(folder / "env", wheel, dependencies)


def _needed(name: str, seen: frozenset[str] = frozenset()) -> frozenset[str]:
    """What a distribution needs here, with what that needs, without extras and without itself."""
    for line in distribution(name).requires or ():
        needed = Requirement(line)
        plain = needed.name.lower().replace("_", "-")
        if plain in seen or (needed.marker is not None and not needed.marker.evaluate({"extra": ""})):
            continue
        with suppress(PackageNotFoundError):
            seen |= _needed(plain, seen | {plain})
    return seen


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A user's project with folders of its own of the names that ours have."""
    folder = tmp_path / "project"
    for name in ("services", "shared", "contracts"):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(f'NAME = "their own {name}"\n')
    (folder / "my_tools.py").write_text(_TOOLS)
    (folder / "ask.py").write_text(_ASK)
    return folder


async def test_client_plug_in_and_system_run_beside_a_project_with_folders_of_those_names(
    environment: Path, light: Path, project: Path, tmp_path: Path
) -> None:
    settings = {"PYTHONPATH": "", "PENTAD_PLUGINS": "my_tools"}
    command = (str(environment / "bin" / "pentad"), "up", "--port", "0")
    with Up(tmp_path, settings, command, cwd=project) as up:
        url = await up.ready()
        for installed in (environment, light):
            asked = await asyncio.to_thread(_run, installed, project, "python", "ask.py", url)
            assert asked.stderr == ""
            said = "Berlin: their own services, their own shared, their own contracts | their own services"
            assert said in asked.stdout
        sent = await asyncio.to_thread(_run, light, project, "pentad", "send", "--url", url, "what is 6*7?")
    assert (sent.stdout, sent.stderr) == ("6*7 = 42\n", "")


def test_the_wheel_has_the_javascript_client_that_the_gateway_serves(wheel: Path) -> None:
    with ZipFile(wheel) as packed:
        for name in ("pentad.js", "pentad.d.ts"):
            served = packed.read(f"pentad/services/gateway/javascript/{name}")
            assert served == (ROOT / "clients" / "js" / name).read_bytes()


def _run(environment: Path, project: Path, program: str, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [str(environment / "bin" / program), *words]
    known = {"PATH": "/usr/bin:/bin", "HOME": str(project)}
    return subprocess.run(command, cwd=project, env=known, capture_output=True, text=True, timeout=60, check=False)


def test_a_service_of_the_wheel_runs_by_its_module(environment: Path, project: Path) -> None:
    run = _run(environment, project, "python", "-m", "pentad.services.router", "--help")
    assert run.returncode == 0, run.stderr
    assert "--port" in run.stdout


@pytest.mark.parametrize("command", ["up", "serve router"])
def test_a_light_installation_says_what_a_service_needs(light: Path, project: Path, command: str) -> None:
    run = _run(light, project, "pentad", *command.split())
    assert run.returncode == 1
    assert run.stderr.startswith("pentad: the package ")
    assert run.stderr.endswith("is not installed: what runs services needs `pip install 'pentad[server]'`\n")


def test_a_light_installation_says_what_everything_in_one_process_needs(light: Path, project: Path) -> None:
    run = _run(light, project, "python", "-c", "import pentad; pentad.start()")
    assert run.returncode == 1
    said = run.stderr.splitlines()[-1]
    assert said.startswith("ImportError: pentad.start: No module named ")
    assert said.endswith(": what runs services needs `pip install 'pentad[server]'`")
