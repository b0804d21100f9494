"""Becomes another program that is confined from its first instruction: it computes, and reads and writes its pipes.

It is for a program of an extra, such as an interpreter, that is careful itself: this is the wall behind it. Nothing
here knows a setting; it needs the standard library alone.
"""

import _socket  # the module `socket` takes longer to import than all else here
import os
import resource
from collections.abc import Sequence
from contextlib import suppress

from pentad.shared.sandbox import kernel
from pentad.shared.sandbox.seccomp import interpreter_rules

_LOADERS = (
    "/lib64/ld-linux-x86-64.so.2",
    "/lib/ld-linux-aarch64.so.1",
    "/lib/ld-musl-x86_64.so.1",
    "/lib/ld-musl-aarch64.so.1",
)
"""Programs of the system that start others."""
_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache", "/dev/null")
_FIRST_FREE = 3
"""The first file descriptor that is no pipe of the program."""
_MEMORY_BYTES = 1024 * 1024 * 1024
"""Bytes of address space: far more than the program allows itself."""
_NICE = 10


def become(program: str, arguments: Sequence[str], cpu_s: int) -> None:
    """Confine this process and become the program, with an empty environment. ``cpu_s``: seconds of a processor."""
    with suppress(OSError):
        os.setsid()  # Ctrl-C is for the process that started us
    _bound(cpu_s)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    kernel.close_from(_FIRST_FREE)
    kernel.give_up_privileges()
    _keep_from_files(program)
    kernel.allow_calls(interpreter_rules(os.getpid()))
    if not (_is_refused_files() and _is_refused_sockets()):
        os._exit(1)
    os.execve(program, [program, *arguments], {})


def _bound(cpu_s: int) -> None:
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    os.nice(_NICE)
    for kind, most in (
        (resource.RLIMIT_AS, _MEMORY_BYTES),
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        there = resource.getrlimit(kind)[1]
        bound = most if there == resource.RLIM_INFINITY else min(most, there)
        resource.setrlimit(kind, (bound, bound))


def _keep_from_files(program: str) -> None:
    """Leave this process the program itself and the libraries of the system."""
    landlock = kernel.Landlock(kernel.landlock_version())
    for paths, rights in (((program, *_LOADERS), kernel.EXECUTE | kernel.READ_FILE), (_LIBRARIES, kernel.READ_FILE)):
        for place in kernel.open_places(paths):
            landlock.allow(place, kernel.rights_of(place, rights))
            os.close(place)
    landlock.restrict()


def _is_refused_files() -> bool:
    try:
        os.listdir("/")
    except PermissionError:
        return True
    return False


def _is_refused_sockets() -> bool:
    try:
        _socket.socket().close()
    except PermissionError:
        return True
    return False
