"""Packages of npm for tests of official clients: installed once a machine, and without them the tests are skipped."""

import fcntl
import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

_INSTALL_S = 120.0


def installed(*packages: str) -> Path | None:
    """Return a folder with these packages in ``node_modules``; None where there is no node, no npm, or no way to get
    them.
    """
    if shutil.which("node") is None or shutil.which("npm") is None:
        return None
    name = hashlib.sha256(" ".join(packages).encode()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"pentad-test-npm-{name}"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = folder / "done"
        if not done.exists():
            (folder / "package.json").write_text('{"private": true, "type": "module"}')
            command = ["npm", "install", "--no-audit", "--no-fund", "--silent", "--ignore-scripts", *packages]
            try:
                subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=_INSTALL_S)
            except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
                return None
            done.touch()
    return folder
