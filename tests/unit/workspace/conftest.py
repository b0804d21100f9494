"""Workspaces of each kind of store, empty."""

from pathlib import Path
from secrets import token_hex

import pytest

from pentad.shared.workspace.workspace import FileLimits, Workspace, Workspaces

LIMITS = FileLimits(file_bytes=4_000_000, workspace_bytes=10_000_000)


@pytest.fixture(params=["folder", "file", "memory"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty store: a folder, the same as a URL, or objects."""
    return {
        "folder": str(tmp_path / "files"),
        "file": f"file://{tmp_path}/files",
        "memory": f"memory://{token_hex(8)}/files",
    }[str(request.param)]


@pytest.fixture
def workspaces(url: str) -> Workspaces:
    return Workspaces(url, LIMITS)


@pytest.fixture
def workspace(workspaces: Workspaces) -> Workspace:
    return workspaces.open("us", "s1")


@pytest.fixture
def local(tmp_path: Path) -> Workspace:
    return Workspaces(str(tmp_path / "files"), LIMITS).open("us", "s1")
