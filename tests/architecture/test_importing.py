"""Importing a module does nothing but define: no file written, no socket, no process, no thread, no heavy client."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.source import ROOT, modules

HEAVY = ("faststream", "openai", "uvicorn", "starlette", "fsspec", "prometheus_client", "uvloop")
"""Each costs a good part of a second or more; loaded where it is first used."""
LOADED_BY_A_CALL = "qdrant_client"
"""Binds a socket when it is imported, to see whether there is IPv6. Ours load it at the first call of its adapter."""

WATCH = """
import importlib, json, sys, threading
seen = []

def watch(event, args):
    if event.startswith(("socket.", "subprocess.", "os.mkdir", "os.system", "os.fork", "os.posix_spawn", "os.rename")):
        seen.append(f"{event}{args!r}"[:200])
    elif event == "open" and args[2] and args[2] & (os_O_WRONLY | os_O_RDWR) and not str(args[0]).endswith(".pyc"):
        seen.append(f"{event}{args!r}"[:200])

from os import O_RDWR as os_O_RDWR, O_WRONLY as os_O_WRONLY
sys.dont_write_bytecode = True
for name in sys.argv.pop(1).split():
    importlib.import_module(name)
sys.addaudithook(watch)
found = {}
for name in sys.argv[1:]:
    threads = threading.active_count()
    importlib.import_module(name)
    if threading.active_count() > threads:
        seen.append("thread")
    if seen:
        found[name] = list(seen)
        seen.clear()
print(json.dumps({"effects": found, "loaded": sorted(sys.modules)}))
"""


def _import(*names: str, root: Path = ROOT, before: str = "") -> dict[str, Any]:
    """What happens while these are imported, in a process of their own. ``before``: what is loaded unwatched."""
    run = subprocess.run(
        [sys.executable, "-c", WATCH, before, *names], cwd=root, capture_output=True, text=True, timeout=60, check=False
    )
    assert run.returncode == 0, run.stderr
    answer: dict[str, Any] = json.loads(run.stdout)
    return answer


def test_importing_any_module_has_no_effect() -> None:
    names = [module.name for module in modules() if not module.name.endswith("__main__")]
    assert _import(*names, before=LOADED_BY_A_CALL)["effects"] == {}


@pytest.mark.parametrize(
    "text",
    [
        "open('left', 'w').close()",
        "import socket\nsocket.socket().close()",
        "import subprocess\nsubprocess.run(['true'])",
        "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()",
        "import pathlib\npathlib.Path('made').mkdir()",
    ],
)
def test_an_effect_of_an_import_is_noticed(text: str, tmp_path: Path) -> None:
    (tmp_path / "planted.py").write_text(text)
    assert list(_import("planted", root=tmp_path)["effects"]) == ["planted"]


def test_the_face_and_the_command_start_without_heavy_clients() -> None:
    loaded = set(_import("pentad", "pentad.cli.main", "pentad.shared.settings", "pentad.contracts.streams")["loaded"])
    assert loaded & {*HEAVY, "redis", "httpx2", "websockets"} == set()


@pytest.mark.parametrize(
    "module", [m.name for m in modules() if m.path.startswith("services/") and m.path.endswith("/app.py")]
)
def test_a_service_is_imported_without_clients_it_may_not_need(module: str) -> None:
    loaded = set(_import(module)["loaded"])
    assert loaded & {"openai", "starlette", "fsspec", "grpc", "neo4j", "numpy", "qdrant_client"} == set()
