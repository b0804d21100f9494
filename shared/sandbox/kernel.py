"""The kernel's calls that confine a process, made by ctypes. Only the zygote and its children import this.

Everything here acts on the calling process and cannot be taken back.
"""

import ctypes
import os
import stat
from collections.abc import Iterable, Mapping

from pentad.shared.sandbox.seccomp import Rule, allowing, noticing_creations
from pentad.shared.sandbox.syscall_numbers import ARCHITECTURES, Architecture

_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_CLOSE_RANGE = 436
"""Numbers of system calls that are the same in all architectures."""
_VERSION_FLAG = 1
_PATH_BENEATH = 1
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38
_SET_FILTER, _NEW_LISTENER = 1, 8
_CAPABILITY_VERSION = 0x20080522
_SIGKILL = 9

EXECUTE = 1 << 0
WRITE_FILE, READ_FILE, READ_DIR, REMOVE_DIR, REMOVE_FILE = 1 << 1, 1 << 2, 1 << 3, 1 << 4, 1 << 5
MAKE_DIR, MAKE_REG, REFER, TRUNCATE = 1 << 7, 1 << 8, 1 << 13, 1 << 14
READABLE = READ_FILE | READ_DIR
"""Rights to a folder whose files may be read."""
WRITABLE = READABLE | WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | REFER | TRUNCATE
"""Rights to the script's own folder: files and folders, but no links, devices, pipes and sockets."""
_OF_FILES = EXECUTE | READ_FILE | WRITE_FILE | TRUNCATE
_FIRST_RIGHTS = 13
"""Rights of the first version of Landlock; the second has one more, the third another, the fifth another."""
_LIBC = ctypes.CDLL(None, use_errno=True)


class ConfinementError(OSError):
    """The kernel refused to confine a process. The text says which part."""


class _RulesetAttributes(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathAttributes(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


class _Program(ctypes.Structure):
    _fields_ = (("steps", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def architecture() -> Architecture:
    """Return the architecture of this machine. Raises ``ConfinementError`` for one whose calls are not known here."""
    found = ARCHITECTURES.get(os.uname().machine)
    if found is None:
        raise ConfinementError(f"scripts cannot be confined on {os.uname().machine}: only on x86_64 and aarch64")
    return found


def landlock_version() -> int:
    """Return the version of Landlock that the kernel has; 0 where it has none, or has it turned off."""
    return max(0, int(_LIBC.syscall(_LANDLOCK_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION_FLAG))))


def die_with(parent: int) -> None:
    """Let the kernel end this process with the process that started it."""
    _control(_PR_SET_PDEATHSIG, _SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def give_up_privileges() -> None:
    """Drop every capability, and the right to gain any."""
    _control(_PR_SET_NO_NEW_PRIVS, 1)
    header, none = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)()
    _checked("drop capabilities", _LIBC.syscall(architecture().numbers["capset"], header, none))


def _control(option: int, value: int) -> None:
    number, zero = ctypes.c_ulong(value), ctypes.c_ulong(0)
    _checked(f"prctl {option}", _LIBC.prctl(option, number, zero, zero, zero))


def close_from(first: int) -> None:
    """Close all file descriptors from this one on."""
    _checked("close files", _LIBC.syscall(_CLOSE_RANGE, ctypes.c_uint(first), ctypes.c_uint(0xFFFFFFFF), 0))


def watch_creations() -> int:
    """Let the holder of the file descriptor that is returned decide about each file that this process makes."""
    return install_filter(noticing_creations(architecture()), _NEW_LISTENER)


def allow_calls(rules: Mapping[str, Rule]) -> None:
    """Refuse this process all system calls but those that these rules allow."""
    install_filter(allowing(rules, architecture()), 0)


def install_filter(program: bytes, flags: int) -> int:
    """Put a filter of system calls on this process; with the flag for it, returns the descriptor of a listener."""
    held = _Program(len(program) // 8, program)
    number = architecture().numbers["seccomp"]
    call = _LIBC.syscall(number, ctypes.c_uint(_SET_FILTER), ctypes.c_uint(flags), ctypes.byref(held))
    return _checked("install a seccomp filter", call)


class Landlock:
    """Which files this process may use from now on, and that it reaches no port, socket name or process of others.

    ``version``: of Landlock; rights that it does not know are left out.
    """

    def __init__(self, version: int) -> None:
        known = _FIRST_RIGHTS + (version >= 2) + (version >= 3) + (version >= 5)
        self._known = (1 << known) - 1
        size = 24 if version >= 6 else 16 if version >= 4 else 8
        asked = _RulesetAttributes(self._known, 3, 3)  # all of the network there is, all scopes there are
        self._ruleset = _checked(
            "use Landlock", _LIBC.syscall(_LANDLOCK_CREATE, ctypes.byref(asked), ctypes.c_size_t(size), 0)
        )

    def allow(self, place: int, rights: int) -> None:
        """Allow these rights below a folder, or to a file, that is open as ``place``."""
        rule = _PathAttributes(rights & self._known, place)
        call = _LIBC.syscall(_LANDLOCK_ADD, self._ruleset, _PATH_BENEATH, ctypes.byref(rule), 0)
        _checked("allow a folder by Landlock", call)

    def restrict(self) -> None:
        """Take all other rights from this process."""
        _checked("restrict this process by Landlock", _LIBC.syscall(_LANDLOCK_RESTRICT, self._ruleset, 0))
        os.close(self._ruleset)


def rights_of(place: int, rights: int) -> int:
    """Return those of these rights that what is open as ``place`` can have: a file has no entries."""

    return rights if stat.S_ISDIR(os.fstat(place).st_mode) else rights & _OF_FILES


def open_places(paths: Iterable[str]) -> list[int]:
    """Open files and folders for Landlock alone; what is not there is left out."""
    places = []
    for path in paths:
        try:
            places.append(os.open(path, os.O_PATH | os.O_CLOEXEC))
        except OSError:
            continue
    return places


def _checked(what: str, answer: int) -> int:
    if answer < 0:
        number = ctypes.get_errno()
        raise ConfinementError(number, f"cannot {what}: {os.strerror(number)}")
    return answer
