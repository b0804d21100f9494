"""`make setup` says what it installs while it does."""

import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.documents.manifests import ROOT


def test_each_package_is_told_as_it_comes(tmp_path: Path) -> None:
    make = shutil.which("make")
    assert make is not None, "CONTRIBUTING.md begins with make"
    command = [make, "--dry-run", f"PYTHON={sys.executable}", f"VENV={tmp_path}/venv", "setup"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    lines = done.stdout.splitlines()
    first = next(number for number, line in enumerate(lines) if "-r requirements.lock" in line)
    assert any("installing what requirements.lock names" in line for line in lines[:first])
    assert [line for line in lines if "pip" in line and ("--quiet" in line or " -q" in line)] == []
