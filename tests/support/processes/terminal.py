"""A real pseudo-terminal around a command of the client, and a pipe around the same."""

import asyncio
import codecs
import os
import pty
import sys
import termios
from pathlib import Path
from typing import Self

import pyte

from tests.support.waiting import in_time, wait_until

COLUMNS, ROWS = 100, 30
_PROGRAM = """
import argparse, sys
from pentad.cli import {module}
from pentad.shared.errors import PentadError
from pentad.shared.settings import load_settings
words = "url session user task instruction state text status since until limit watch json timeout"
words += " once id step only_print plain call edit reason"
nothing = dict.fromkeys(words.split())
names = nothing | dict(p.split("=", 1) for p in sys.argv[1:])
names["step"] = names["step"] and int(names["step"])
try:
    sys.exit({module}.{run}(argparse.Namespace(**names), load_settings()))
except PentadError as error:
    sys.exit(str(error))
except KeyboardInterrupt:
    sys.exit(130)
"""


def _command(module: str, options: dict[str, str]) -> list[str]:
    name, _, run = module.partition(":")
    program = _PROGRAM.format(module=name, run=run or "run")
    return [sys.executable, "-c", program, *(f"{k}={v}" for k, v in options.items())]


def _environment(url: str, home: Path, **more: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
    return kept | {"HOME": str(home), "PENTAD_URL": url, "TERM": "xterm", "PYTHONUTF8": "1"} | more


class Terminal:
    """A command of the client in a terminal: type into it, and wait for what it shows.

    ``module``: of ``pentad.cli``; ``module:function`` where that is not ``run``. ``options``: those of the command; in
    capitals, variables of its environment.
    """

    def __init__(self, module: str, url: str, home: Path, **options: str) -> None:
        variables = {name: text for name, text in options.items() if name.isupper()}
        self._command = _command(module, {name: text for name, text in options.items() if name not in variables})
        self._environment = _environment(url, home, **variables)
        self.screen = ""
        """Output since the last ``sees``, with control sequences."""
        self._size = ROWS, COLUMNS
        self._display = pyte.Screen(COLUMNS, ROWS)
        self._drawn = pyte.Stream(self._display)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._all_read = False

    @property
    def rows(self) -> list[str]:
        """Return the rows of the terminal that a person sees now, without the empty ones."""
        return [row.rstrip() for row in self._display.display if row.strip()]

    def sized(self, rows: int, columns: int) -> Self:
        """Return the terminal, which has another size from the beginning."""
        self._size = rows, columns
        self._display.resize(rows, columns)
        return self

    async def __aenter__(self) -> Self:
        self._master, slave = pty.openpty()
        termios.tcsetwinsize(slave, self._size)
        os.set_blocking(self._master, False)
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=self._environment,
            start_new_session=True,
            preexec_fn=_take_terminal,
        )
        os.close(slave)
        asyncio.get_running_loop().add_reader(self._master, self._read)
        return self

    async def __aexit__(self, *_: object) -> None:
        asyncio.get_running_loop().remove_reader(self._master)
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()
        os.close(self._master)

    def type(self, text: str) -> None:
        """Press keys: ``\\r`` is Enter, ``\\x03`` Ctrl-C, ``\\x04`` Ctrl-D."""
        os.write(self._master, text.encode())

    def resize(self, rows: int, columns: int) -> None:
        """Make the terminal another size, as a person who pulls at its window."""
        self._display.resize(rows, columns)
        termios.tcsetwinsize(self._master, (rows, columns))  # which sends SIGWINCH

    def modes(self) -> list[object]:
        """Return how the terminal treats keys and output, as ``termios`` tells it."""
        return termios.tcgetattr(self._master)

    async def sees(self, text: str) -> str:
        """Wait until the text is shown; the screen up to its end, which later calls do not see again."""
        await wait_until(f"{text!r} on the screen, which shows {self.screen!r}", lambda: text in self.screen)
        before, _, self.screen = self.screen.partition(text)
        return before + text

    async def shows(self, *rows: str) -> None:
        """Wait until the last rows that a person sees begin with these."""
        try:
            await wait_until("the rows", lambda: _begin_with(self.rows[-len(rows) :], rows))
        except AssertionError:
            raise AssertionError(f"the screen does not come to end with {rows}:\n" + "\n".join(self.rows)) from None

    async def code(self) -> int:
        """Wait for the end, and until all that it wrote is shown."""
        async with in_time():
            code = await self._process.wait()
        await wait_until("its last words", lambda: self._all_read)
        return code

    def _read(self) -> None:
        try:
            data = os.read(self._master, 65536)
        except BlockingIOError:  # woken for nothing
            return
        except OSError:  # the other side is closed
            self._all_read = True
            asyncio.get_running_loop().remove_reader(self._master)
            return
        text = self._decoder.decode(data)
        self.screen += text
        self._drawn.feed(text)


def _begin_with(shown: list[str], wanted: tuple[str, ...]) -> bool:
    return len(shown) == len(wanted) and all(map(str.startswith, shown, wanted))


def _take_terminal() -> None:
    """Make the pseudo-terminal the child's own, so that Ctrl-C reaches it."""
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


async def piped(module: str, url: str, home: Path, stdin: str = "", **options: str) -> tuple[int, str, str]:
    """Run a command of the client in a pipe: its exit code, stdout and stderr."""
    process = await asyncio.create_subprocess_exec(
        *_command(module, options),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=_environment(url, home),
    )
    async with in_time():
        out, err = await process.communicate(stdin.encode())
    return process.returncode or 0, out.decode(), err.decode()
