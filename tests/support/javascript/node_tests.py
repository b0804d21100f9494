"""The tests of modules in JavaScript, run by node."""

import shutil
import subprocess
from pathlib import Path

NODE = shutil.which("node")
NO_NODE = "there is no node on this machine to run modules in"
_RUN_S = 240.0


def passed_in_node(folder: Path, *tests: str) -> int:
    """Run the tests of a folder, and return how many have passed; fail if one has not."""
    command = [str(NODE), "--test", "--test-reporter=tap", "--test-timeout=180000", *(tests or (".",))]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_RUN_S, check=False)
    assert done.returncode == 0, done.stdout[-5000:]
    assert "\n# fail 0\n" in done.stdout
    return int(done.stdout.partition("\n# pass ")[2].split()[0])
