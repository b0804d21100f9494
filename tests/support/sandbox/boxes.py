"""Sandboxes that tests run scripts in: each in a driver's process, as one user and within one set of limits."""

import json
import os
import subprocess
import sys
from contextlib import suppress
from functools import cache
from typing import Any

import pytest

_NOBODY = 65_534


class ScriptBox:
    """A running driver. ``options``: see `script_driver`; ``user``: the uid that it runs as, None for this one."""

    def __init__(self, options: dict[str, Any], user: int | None = None) -> None:
        command = [interpreter(user), "-m", "tests.support.sandbox.script_driver", json.dumps(options)]
        as_user: dict[str, Any] = {} if user is None else {"user": user, "group": user, "extra_groups": []}
        self._driver = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"SECRET_OF_THE_WORKER": "hunter2"},
            **as_user,
        )
        self.pid = self._driver.pid
        first = self._heard()
        self.words: str = first["words"]

    def run(self, code: str, args: Any = None) -> dict[str, Any]:
        """Run a script; returns what came of it."""
        self.ask(code, args)
        return self._heard()

    def ask(self, code: str, args: Any = None) -> None:
        """Run a script, and do not wait for its end."""
        assert self._driver.stdin is not None
        self._driver.stdin.write(json.dumps({"code": code, "args": args}) + "\n")
        self._driver.stdin.flush()

    def _heard(self) -> dict[str, Any]:
        assert self._driver.stdout is not None
        line = self._driver.stdout.readline()
        assert line, "the driver of scripts has ended"
        told: dict[str, Any] = json.loads(line)
        return told

    def close(self) -> None:
        """End the driver, and wait for its end."""
        assert self._driver.stdin is not None
        self._driver.stdin.close()
        self._driver.wait(30)
        assert self._driver.stdout is not None
        self._driver.stdout.close()


@cache
def interpreter(user: int | None) -> str:
    """Return an interpreter that this user may run, with the standard library alone: this one, or the system's."""
    if user is None:
        return sys.executable
    for path in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        with suppress(OSError):
            asked = subprocess.run([path, "-c", "import tests"], user=user, group=user, extra_groups=[], check=False)
            if asked.returncode == 0:
                return path
    pytest.skip("no interpreter here may be run by a user without rights")


def nobody() -> int | None:
    """Return the uid of a user without rights, where this process may become one."""
    return _NOBODY if os.geteuid() == 0 else None
