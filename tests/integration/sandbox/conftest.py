"""Sandboxes of every kind that this machine can have."""

import os
from collections.abc import Iterator

import pytest

from pentad.shared.sandbox.namespaces import find_bubblewrap
from pentad.shared.sandbox.sandbox import landlock_here
from tests.support.sandbox.boxes import ScriptBox, nobody

KINDS = ("this user", "nobody", "first Landlock", "second Landlock", "restricted pod", "bubblewrap", "bubblewrap alone")


def _box(kind: str) -> ScriptBox:
    bubblewrap = os.environ.get("PENTAD_TEST_BWRAP") or find_bubblewrap()
    if not landlock_here() and not kind.startswith("bubblewrap"):
        pytest.skip("this kernel has no Landlock")
    if kind == "nobody" and nobody() is None:
        pytest.skip("only root can become another user")
    if kind == "first Landlock":
        return ScriptBox({"landlock": 1}, nobody())
    if kind == "second Landlock":
        return ScriptBox({"landlock": 2}, nobody())
    if kind == "restricted pod":
        return ScriptBox({"restricted": True, "bubblewrap": bubblewrap}, nobody())
    if not kind.startswith("bubblewrap"):
        return ScriptBox({}, nobody() if kind == "nobody" else None)
    if bubblewrap is None:
        pytest.skip("bubblewrap is not installed, and PENTAD_TEST_BWRAP does not say where it is")
    return ScriptBox({"bubblewrap": bubblewrap} | ({"landlock": 0} if kind == "bubblewrap alone" else {}))


@pytest.fixture(scope="module", params=KINDS)
def box(request: pytest.FixtureRequest) -> Iterator[ScriptBox]:
    """A sandbox of each kind."""
    found = _box(request.param)
    yield found
    found.close()
