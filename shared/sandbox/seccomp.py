"""The system calls that scripts and interpreters may make, as a program for the kernel's filter. Pure.

All that is not named is refused: a call that a later kernel brings, too. A script is one process with one thread, so
neither `clone` nor `execve` is there; nor is anything that reaches other processes, sockets, other file systems, or
the times, owners and modes of files, which Landlock does not guard.
"""

import errno
import struct
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from pentad.shared.sandbox.syscall_numbers import Architecture

_ALL_BITS = 0xFFFFFFFF
_KILL, _ERRNO, _NOTIFY, _ALLOW = 0x80000000, 0x00050000, 0x7FC00000, 0x7FFF0000
"""Answers of a filter: SECCOMP_RET_KILL_PROCESS, _ERRNO, _USER_NOTIF, _ALLOW."""
_LOAD, _JUMP_EQUAL, _JUMP_GREATER_EQUAL, _AND, _RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
_AT_NUMBER, _AT_ARCHITECTURE, _AT_ARGUMENTS = 0, 4, 16
"""Places in the kernel's `struct seccomp_data`."""
REFUSED = errno.EPERM
"""The error of a system call that is refused."""

_O_CREAT, _O_ACCMODE, _O_TRUNC, _O_TMPFILE_BIT = 0o100, 0o3, 0o1000, 0o20000000
_OPENED = _O_ACCMODE | _O_TRUNC | _O_TMPFILE_BIT


class ArgumentIn(NamedTuple):
    """A rule: the call is allowed when these bits of one of its arguments have one of these values."""

    argument: int
    values: tuple[int, ...]
    mask: int = _ALL_BITS


class AbsentCall:
    """A rule: the kernel seems not to have the call, so that its caller makes another that can be looked into."""


Rule = ArgumentIn | AbsentCall | None
"""The condition on which a system call is allowed; None: always."""

_OPENING_FLAGS = (0, 1, 2, _O_TRUNC | 1, _O_TRUNC | 2)
"""How a file may be opened. `O_TRUNC` needs the right to write: before Landlock's third version a right to read was
enough to empty a file. A file without a name (`O_TMPFILE`) would not be counted."""
_FCNTL = (0, 1, 2, 3, 4, 5, 6, 1030)
"""Duplicates, flags, locks. Not F_SETOWN or F_SETSIG, by which a file sends signals to any process."""
_IOCTL = (0x5401, 0x5413, 0x5450, 0x5451)
"""TCGETS and TIOCGWINSZ (is it a terminal?), FIONCLEX, FIOCLEX."""
_UNCONDITIONAL_CALLS = (
    "access brk chdir clock_getres clock_gettime clock_nanosleep close close_range copy_file_range dup dup2 dup3 exit "
    "exit_group faccessat faccessat2 fallocate fchdir fdatasync fstat fsync ftruncate futex getcwd getdents64 getegid "
    "geteuid getgid getitimer getpid getppid getrandom getrlimit getrusage gettid gettimeofday getuid lseek lstat "
    "madvise mkdir mkdirat mmap mprotect mremap munmap nanosleep newfstatat poll ppoll pread64 pselect6 pwrite64 read "
    "readlink readlinkat readv rename renameat renameat2 restart_syscall rmdir rt_sigaction rt_sigprocmask "
    "rt_sigreturn sched_getaffinity sched_yield select sendfile setitimer alarm sigaltstack stat statx time times "
    "umask uname unlink unlinkat write writev"
).split()


def script_rules(pid: int) -> dict[str, Rule]:
    """Return which system calls the script in this process may make. ``pid``: the only process it may signal."""
    itself = ArgumentIn(0, (pid,))
    rules: dict[str, Rule] = dict.fromkeys(_UNCONDITIONAL_CALLS)
    return rules | {
        "open": ArgumentIn(1, _OPENING_FLAGS, _OPENED),
        "openat": ArgumentIn(2, _OPENING_FLAGS, _OPENED),
        "fcntl": ArgumentIn(1, _FCNTL),
        "ioctl": ArgumentIn(1, _IOCTL),
        "kill": itself,
        "tgkill": itself,
        "prlimit64": ArgumentIn(0, (0, pid)),
    }


_CLONE_THREAD = 0x10000
_PR_SET_NAME = 15
_CALLS_AT_START = ("arch_prctl", "execve", "rseq", "set_robust_list", "set_tid_address")
"""System calls by which a program begins. What may be executed, Landlock decides."""


def interpreter_rules(pid: int) -> dict[str, Rule]:
    """Return which system calls the interpreter of programs may make that this process is about to become.

    It has threads, and no other process. `clone3` has its flags in memory, which no filter sees.
    """
    starting: dict[str, Rule] = dict.fromkeys(_CALLS_AT_START)
    threads = ArgumentIn(0, (_CLONE_THREAD,), _CLONE_THREAD)
    named = ArgumentIn(0, (_PR_SET_NAME,))
    return script_rules(pid) | starting | {"clone": threads, "clone3": AbsentCall(), "prctl": named}


def allowing(rules: Mapping[str, Rule], architecture: Architecture) -> bytes:
    """Return the filter that allows what these rules allow and refuses the rest."""
    program = _begun(architecture)
    for name, rule in sorted(rules.items()):
        if (number := architecture.numbers.get(name)) is not None:
            program += _for(number, _decided(rule))
    return b"".join([*program, _step(_RETURN, _ERRNO | REFUSED)])


def noticing_creations(architecture: Architecture) -> bytes:
    """Return the filter that asks for each file or folder that a process is about to make, and allows the rest."""
    asks = {"open": 1, "openat": 2, "mkdir": None, "mkdirat": None}
    program = _begun(architecture)
    for name, flags in asks.items():
        if (number := architecture.numbers.get(name)) is None:
            continue
        body = [_step(_RETURN, _NOTIFY)]
        if flags is not None:
            look = [_step(_LOAD, _AT_ARGUMENTS + 8 * flags), _step(_AND, _O_CREAT), _step(_JUMP_EQUAL, 0, 1, 0)]
            body = [*look, *body, _step(_RETURN, _ALLOW)]
        program += _for(number, body)
    return b"".join([*program, _step(_RETURN, _ALLOW)])


def _begun(architecture: Architecture) -> list[bytes]:
    """Begin a program: a call of another architecture or convention has another number, and ends the process."""
    program = [_step(_LOAD, _AT_ARCHITECTURE), _step(_JUMP_EQUAL, architecture.audit, 1, 0), _step(_RETURN, _KILL)]
    program.append(_step(_LOAD, _AT_NUMBER))
    if architecture.foreign_from is not None:
        program += [_step(_JUMP_GREATER_EQUAL, architecture.foreign_from, 0, 1), _step(_RETURN, _KILL)]
    return program


def _for(number: int, body: Iterable[bytes]) -> list[bytes]:
    steps = list(body)
    return [_step(_JUMP_EQUAL, number, 0, len(steps)), *steps]


def _decided(rule: Rule) -> list[bytes]:
    if rule is None:
        return [_step(_RETURN, _ALLOW)]
    if isinstance(rule, AbsentCall):
        return [_step(_RETURN, _ERRNO | errno.ENOSYS)]
    values = len(rule.values)
    tests = [_step(_JUMP_EQUAL, value, values - at, 0) for at, value in enumerate(rule.values)]
    load = [_step(_LOAD, _AT_ARGUMENTS + 8 * rule.argument), _step(_AND, rule.mask)]
    return [*load, *tests, _step(_RETURN, _ERRNO | REFUSED), _step(_RETURN, _ALLOW)]


def _step(code: int, constant: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("<HBBI", code, if_true, if_false, constant)
