"""`import pentad` is cheap and gives what users import."""

import subprocess
import sys

import pytest

import pentad

HEAVY = ("websockets", "httpx2", "openai", "redis", "pydantic", "faststream")


def test_importing_pentad_loads_nothing_heavy() -> None:
    program = f"import sys, pentad; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_importing_the_client_loads_no_connection_library() -> None:
    program = f"import sys, pentad; pentad.connect; print([m for m in {HEAVY[:4]!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")


@pytest.mark.parametrize("name", pentad.__all__)
def test_every_promised_name_is_there(name: str) -> None:
    assert getattr(pentad, name) is getattr(pentad, name)
    assert name in dir(pentad)


def test_what_is_not_promised_is_absent() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = pentad.nothing
