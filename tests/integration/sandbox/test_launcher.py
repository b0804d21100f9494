"""A program that is started confined computes, and reaches no file, no process and no more time than it was given."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pentad.shared.sandbox.launcher import Launcher
from pentad.shared.sandbox.sandbox import landlock_here
from pentad.shared.sandbox.script_run import SandboxError

pytestmark = pytest.mark.skipif(not landlock_here(), reason="this kernel has no Landlock")


def _shell() -> str:
    """A program of this machine that can try much."""
    return os.path.realpath(shutil.which("dash") or shutil.which("bash") or "/bin/sh")


@pytest.fixture
def launcher() -> Iterator[Launcher]:
    made = Launcher(_shell(), 1)
    yield made
    made.remove()
    assert not Path(made.path).parent.exists()


def run(launcher: Launcher, line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([launcher.path, "-c", line], capture_output=True, text=True, timeout=60, check=False)


def test_it_computes_and_has_its_pipes_and_an_empty_environment(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENTAD_TEST_SECRET", "never-told")
    done = run(launcher, "echo $((6 * 7)) $PENTAD_TEST_SECRET$PATH_OF_NOTHING; echo unheard >&2")
    assert (done.stdout, done.stderr, done.returncode) == ("42\n", "", 0)


@pytest.mark.parametrize(
    "line",
    [
        "read x < /etc/passwd && echo $x",
        "read x < /proc/self/environ && echo $x",
        "read x < /proc/1/cmdline && echo $x",
        "cd / && echo * ",
        "echo x > /tmp/pentad-test-written && echo written",
        "echo x > own && echo written",
        "/bin/cat /etc/passwd",
        "exec /bin/cat /etc/hostname",
        "(echo forked)",
        "kill -9 1 && echo killed",
        "kill -0 $PPID && echo found",
    ],
)
def test_it_reaches_nothing_else(launcher: Launcher, line: str) -> None:
    done = run(launcher, line)
    assert done.stdout.strip() in ("", "*"), done
    assert not Path("/tmp/pentad-test-written").exists()


def test_it_computes_no_longer_than_it_may(launcher: Launcher) -> None:
    assert run(launcher, "while :; do :; done").returncode < 0


def test_a_launcher_that_was_swept_is_written_again(launcher: Launcher) -> None:
    shutil.rmtree(Path(launcher.path).parent)
    launcher.keep()
    assert run(launcher, "echo here").stdout == "here\n"


def test_a_folder_that_others_may_write_to_is_not_trusted(launcher: Launcher) -> None:
    folder = Path(launcher.path).parent
    Path(launcher.path).unlink()
    folder.chmod(0o777)
    with pytest.raises(SandboxError, match="belongs to somebody else"):
        launcher.keep()
