"""The process from which scripts are forked, as it is seen by the one that starts it."""

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile

from pentad.shared.clipping import plain
from pentad.shared.sandbox.namespaces import ENVIRONMENT, Namespaces
from pentad.shared.sandbox.script_run import SandboxError, ScriptLostError

_ROOT = Path(__file__).parents[3]
"""The folder in which the package lies."""
_BEGIN = (
    "import sys; sys.path.insert(0, {root!r}); from pentad.shared.sandbox.zygote import main; del sys.path[0]; "
    "main({control})"
)
_MAX_WORDS = 500


class Interpreter:
    """A started zygote. ``home``: the folder of the scripts' folders; ``bubblewrap``: the program that goes around it.

    It has an environment of its own and one line to this process; when that is cut, it ends with all of its scripts.
    Start it on the thread of the event loop: bubblewrap ends with the thread that has started it. Raises
    ``SandboxError`` when it cannot be started.
    """

    def __init__(self, home: str, bubblewrap: str | None) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.setblocking(False)
        self._said = TemporaryFile()  # noqa: SIM115
        begin = _BEGIN.format(root=str(_ROOT), control=theirs.fileno())
        command = [os.path.realpath(sys.executable), "-I", "-S", "-B", "-X", "utf8", "-c", begin]
        if bubblewrap is not None:
            command = Namespaces(bubblewrap, _ROOT, home).around(command)
        try:
            self._process = subprocess.Popen(
                command,
                env=ENVIRONMENT,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._said,
                pass_fds=(theirs.fileno(),),
                process_group=0,
            )
        except OSError as error:
            self._control.close()
            self._said.close()
            raise SandboxError(f"the interpreter that scripts are forked from cannot be started: {error}") from error
        finally:
            theirs.close()

    @property
    def pid(self) -> int:
        """The process; with bubblewrap, that of bubblewrap."""
        return self._process.pid

    def ask(self, request: bytes, ends: list[int]) -> None:
        """Ask for a script, which gets these file descriptors. Raises ``ScriptLostError`` when it has ended."""
        try:
            socket.send_fds(self._control, [request], ends)
        except OSError as error:
            raise ScriptLostError(f"the interpreter that scripts are forked from has ended: {error}") from None

    def last_words(self) -> str:
        """Return what it has written before it ended, for a person."""
        self._said.seek(0)
        return plain(self._said.read(_MAX_WORDS).decode(errors="replace"), _MAX_WORDS)

    def end(self) -> None:
        """End it, with all of its scripts."""
        self._control.close()
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._said.close()
