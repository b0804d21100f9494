"""The import rules of pyproject.toml hold, and each notices a breach: the linter reads copies with one planted."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.architecture.source import PACKAGES, ROOT

LINTER = Path(sys.executable).with_name("lint-imports")

PLANTED: list[tuple[str, str, set[str]]] = [
    ("contracts/streams.py", "import pentad.shared.errors", {"floors", "cycles"}),
    ("shared/records/record_store.py", "import pentad.services.embedding.domain", {"floors", "strangers", "cycles"}),
    ("services/router/app.py", "import pentad.client.text", {"floors"}),
    ("shared/service/options.py", "if TYPE_CHECKING:\n    import pentad.client.text", {"floors", "cycles"}),
    ("services/router/app.py", "import pentad.services.embedding.domain", {"strangers"}),
    ("services/newcomer.py", "import pentad.services.embedding.domain", {"strangers"}),
    ("contracts/events.py", "import pentad.contracts.commands", {"contracts"}),
    ("contracts/tools.py", "import pentad.contracts.records", {"contracts", "cycles"}),
    ("contracts/gossip.py", "", {"contracts"}),
    ("shared/settings.py", "import pentad.shared.metrics", {"shared"}),
    ("shared/plugins/results.py", "import pentad.shared.records.record_store", {"shared"}),
    ("shared/store/store.py", "import pentad.shared.work.entry", {"shared", "cycles"}),
    ("shared/newcomer.py", "", {"shared"}),
    ("services/newcomer/domain.py", "import pentad.services.newcomer.handlers", {"services"}),
    ("pentad/client/gateway.py", "import pentad.client.text", {"client"}),
    ("pentad/client/newcomer.py", "", {"client"}),
    ("pentad/newcomer.py", "", {"floors"}),
    ("services/tool_worker/children/tool_frames.py", "import pentad.services.tool_worker.children.pool", {"cycles"}),
    ("services/router/handlers.py", "import redis.asyncio", {"homes"}),
    ("shared/models/sse_decoder.py", "from redis import Redis", {"homes"}),
    ("shared/store/store.py", "from faststream.redis import RedisBroker", {"homes"}),
    ("pentad/client/agent.py", "def ask() -> None:\n    import openai", {"homes"}),
    ("shared/graph/traversal.py", "import neo4j", {"homes"}),
    ("shared/vectors/vector_store.py", "import qdrant_edge", {"homes"}),
    ("services/archiver/app.py", "import qdrant_client", {"homes"}),
    ("services/archiver/app.py", "import sqlite3", {"homes"}),
    ("shared/vectors/vector_store.py", "import pentad.shared.graph.knowledge", {"shared"}),
    ("services/embedding/domain.py", "import random", {"domain"}),
    ("services/embedding/domain.py", "from pentad.shared.settings import load_settings", {"domain"}),
    ("contracts/errors.py", "import socket", {"domain"}),
    ("shared/actors/headers.py", "import uuid", {"domain"}),
    ("shared/recall/fusion.py", "import time", {"domain"}),
    (
        "services/gateway/tasks/control.py",
        "import pentad.services.gateway.memory.rebuilds",
        {"gateway", "cycles"},
    ),
    ("services/gateway/newcomer.py", "", {"gateway"}),
    ("shared/segments/segment.py", "import pentad.shared.recall.terms", {"shared", "cycles"}),
    ("shared/recall/cues.py", "from snowballstemmer import stemmer", {"homes"}),
]
"""A file, what is added to it, and the ids of the contracts that it breaks."""


def _names() -> dict[str, str]:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    return {contract["name"]: contract["id"] for contract in declared}


def _lint(tree: Path) -> tuple[int, set[str], str]:
    """The linter's exit code, the ids of the broken contracts, and all it said."""
    run = subprocess.run(
        [LINTER, "--no-logo", "--no-cache"],
        cwd=tree,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "COLUMNS": "400"},
    )
    broken = re.findall(r"^(.+) BROKEN\b", run.stdout, re.MULTILINE)
    return run.returncode, {_names()[name] for name in broken}, run.stdout + run.stderr


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the product, without what the tests of others may be writing."""
    copy = tmp_path_factory.mktemp("tree")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, copy / package, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    return copy


@pytest.fixture(scope="module")
def broken_before(clean: Path) -> set[str]:
    """Nothing, in a good tree; else one test says so, not all."""
    return _lint(clean)[1]


def test_the_tree_keeps_every_contract(clean: Path) -> None:
    code, broken, said = _lint(clean)
    assert (code, broken) == (0, set()), said


@pytest.mark.parametrize(
    ("path", "text", "broken"), PLANTED, ids=[f"{path}: {text[-40:]}" for path, text, _ in PLANTED]
)
def test_a_planted_import_breaks(
    path: str, text: str, broken: set[str], clean: Path, tmp_path: Path, broken_before: set[str]
) -> None:
    tree = tmp_path / "tree"
    shutil.copytree(clean, tree, symlinks=True)
    planted = tree / path
    if not planted.parent.exists():
        planted.parent.mkdir()
        for name in ("__init__.py", "handlers.py"):
            (planted.parent / name).touch()
    with planted.open("a") as file:
        file.write(f"\n{text}\n")
    code, found, said = _lint(tree)
    assert (code, found - broken_before) == (1, broken), said


def test_every_contract_has_a_breach_that_proves_it() -> None:
    assert set().union(*(broken for _, _, broken in PLANTED)) == set(_names().values())


def test_every_package_of_the_wheel_is_under_the_rules() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    shipped = project["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert project["importlinter"]["root_packages"] == shipped == ["pentad"]
    assert all((ROOT / "pentad" / linked).samefile(ROOT / linked) for linked in PACKAGES[:-1])
