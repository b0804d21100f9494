# ruff: noqa: ASYNC220, ASYNC240 - blocking is what some of them are for
"""Tools that behave, and tools that do not. They wait on named pipes and on each other, never on the clock."""

import asyncio
import ctypes
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pentad.contracts.tools import Artifact
from pentad.shared.plugins.context import ToolContext
from pentad.shared.plugins.registry import tool

_gate = asyncio.Event()
_entered = 0


@tool(effect="pure")
async def pid() -> int:
    """The process that runs this."""
    return os.getpid()


@tool(effect="pure")
def drawn(size: int) -> dict[str, object]:
    """Bytes that are no text, in a dict."""
    return {"drawing": Artifact(bytes([255]) * size, "drawing.png", "image/png"), "size": size}


@tool(effect="pure")
async def drawn_later(size: int) -> bytes:
    return bytes([255]) * size


@tool(effect="pure")
def add(a: int, b: int = 2) -> int:
    return a + b


@tool
async def whose(ctx: ToolContext) -> list[object]:
    return [ctx.tool_call_id, ctx.idempotency_key, ctx.attempt, ctx.tenant_id, ctx.user_id, ctx.task_id, ctx.deadline]


@tool
async def steps(count: int, ctx: ToolContext) -> str:
    for number in range(count):
        await ctx.progress(f"step {number}", number / count)
    return "done"


@tool
def plain_steps(count: int, ctx: ToolContext) -> str:
    for number in range(count):
        ctx.progress(f"step {number}", number / count)
    return "done"


@tool
def logged(text: str) -> str:
    """Prints, logs and fails."""
    print("printed", text)
    print("begun", end="")
    logging.getLogger("my_tools").warning("logged %s\x1b[2J", text)
    raise ValueError("as it should")


@tool
async def at_gate() -> int:
    """Waits until ``open_gate`` is called in the same process."""
    global _entered
    _entered += 1
    await _gate.wait()
    return os.getpid()


@tool
async def entered() -> int:
    return _entered


@tool
async def open_gate() -> None:
    _gate.set()


@tool
async def block_loop(fifo: str) -> str:
    """Holds the loop until somebody writes to the pipe."""
    return Path(fifo).read_text()


@tool
async def hold_interpreter(started: str) -> None:
    """Not even another thread runs any more."""
    Path(started).touch()
    ctypes.PyDLL(None).sleep(1_000)


@tool
def hang_thread(fifo: str) -> str:
    """Holds a thread until somebody writes to the pipe."""
    return Path(fifo).read_text()


@tool
async def tidy(started: str, cleaned: str) -> None:
    Path(started).touch()
    try:
        await asyncio.Event().wait()
    finally:
        Path(cleaned).touch()


@tool
async def stubborn(started: str) -> None:
    """Does not let itself be cancelled."""
    Path(started).touch()
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            continue


@tool
async def fail(how: str) -> object:
    if how == "exit":
        sys.exit(4)
    if how == "cancel":
        raise asyncio.CancelledError
    if how == "object":
        return object()
    if how == "surrogate":
        return "half \ud800 pair"
    raise ValueError("no luck")


@tool
def plain_fail(how: str) -> object:
    if how == "exit":
        sys.exit(4)
    if how == "stop":
        return next(iter(()))
    raise ValueError("no luck")


@tool
def returns_awaitable() -> object:
    return asyncio.sleep(0, "later")


@tool
async def long_text(characters: int) -> str:
    return "ä" * characters


@tool
async def segfault() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


@tool
async def leave() -> None:
    os._exit(3)


@tool
async def leave_something_behind() -> int:
    """A process of the tool's own, which would outlive it."""
    return subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"]).pid


@tool
async def leave_a_copy_behind(told: str) -> None:
    """Ends while a copy of the process, in a group of its own, still holds everything open."""
    copy = os.fork()
    if not copy:
        os.setsid()
        signal.pause()
    Path(told).write_text(str(copy))
    os._exit(3)


@tool
async def say(text: str) -> None:
    print(text)


@tool(isolated=True)
async def isolated_pid() -> int:
    return os.getpid()


@tool(isolated=True)
async def isolated_block(fifo: str, ctx: ToolContext) -> str:
    await ctx.progress(str(os.getpid()))
    await asyncio.sleep(0)
    return await asyncio.to_thread(Path(fifo).read_text)


@tool(env=["SEEN_BY_NAME"])
async def environment() -> dict[str, str]:
    """All that a tool can read there."""
    return dict(os.environ)


def looks(pid: int) -> dict[str, str]:
    """What can be seen of a process, each with `read` or the error."""
    process, found = Path(f"/proc/{pid}"), {}
    ways: dict[str, Callable[[], object]] = {
        "environ": (process / "environ").read_bytes,
        "mem": lambda: _first_bytes(process),
        "fd": lambda: _files(process),
        "trace": lambda: _trace(pid),
    }
    for name, way in ways.items():
        try:
            way()
            found[name] = "read"
        except OSError as error:
            found[name] = type(error).__name__
    return found


def _files(process: Path) -> list[Path]:
    """What it has open, all but what was only open to list this."""
    found = []
    for number in list((process / "fd").iterdir()):
        with suppress(FileNotFoundError):
            found.append(number.readlink())
    return found


def _first_bytes(process: Path) -> bytes:
    with (process / "mem").open("rb", buffering=0) as memory:
        memory.seek(int((process / "maps").read_text().partition("-")[0], 16))
        return memory.read(16)


def _trace(pid: int) -> None:
    """Attach as a debugger, and let go again. A process cannot do so to itself, and need not."""
    if pid == os.getpid():
        return
    attach, detach = 16, 17
    library = ctypes.CDLL(None, use_errno=True)
    if library.ptrace(attach, pid, None, None):
        raise OSError(ctypes.get_errno(), "ptrace")
    os.waitpid(pid, 0)
    library.ptrace(detach, pid, None, None)


@tool
def look_into_parent() -> dict[str, str]:
    return looks(os.getppid())


@tool
def look_into_itself() -> dict[str, str]:
    return looks(os.getpid())


class UnspeakableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even that")


@tool
async def fail_without_words() -> None:
    raise UnspeakableError


@tool
def fail_without_words_in_a_thread() -> None:
    raise UnspeakableError
