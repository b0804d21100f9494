"""A script of a model reaches nothing but its own folder, whatever it tries; in every kind of sandbox there is."""

import os
import platform
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.sandbox.boxes import ScriptBox

X86_64 = platform.machine() == "x86_64"
_PRELUDE = """
import ctypes, errno, os, signal, socket, stat, sys
libc = ctypes.CDLL(None, use_errno=True)
def tried(attempt, *args, **kwargs):
    try:
        attempt(*args, **kwargs)
    except OSError as error:
        return errno.errorcode[error.errno]
    except (RuntimeError, MemoryError) as error:
        return type(error).__name__
    return "done"
def called(number, *args):
    ctypes.set_errno(0)
    return "done" if libc.syscall(number, *args) >= 0 else errno.errorcode[ctypes.get_errno()]
"""
REFUSALS = {"EPERM", "EACCES", "ENOENT", "EXDEV", "ENOSYS", "EROFS", "ENXIO"}
"""Errors of an attempt that has changed and shown nothing."""


class Outside:
    """Files that everybody may read and change, by their modes, and a process of the same user."""

    def __init__(self, folder: Path, process: int) -> None:
        self.folder, self.process = folder, process
        self.secret = folder / "secret"
        self.secret.write_text("hunter2")
        self.secret.chmod(0o666)

    @property
    def args(self) -> dict[str, Any]:
        """What attempts are told."""
        return {"folder": str(self.folder), "secret": str(self.secret), "process": self.process}


@pytest.fixture
def outside(box: ScriptBox) -> Iterator[Outside]:
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    yield Outside(folder, box.pid)
    shutil.rmtree(folder)


def results_of(box: ScriptBox, code: str, args: Any = None) -> Any:
    """Run attempts; returns what each came to."""
    end = box.run(_PRELUDE + code, args)
    assert end["kind"] == "ok", end
    return end["result"]


def all_refused(box: ScriptBox, code: str, args: Any = None) -> None:
    """Run attempts that are a dictionary; none may have succeeded."""
    found = results_of(box, code, args)
    assert found
    assert {name: how for name, how in found.items() if how not in REFUSALS} == {}


def test_files_elsewhere_are_neither_read_nor_written_nor_listed(box: ScriptBox, outside: Outside) -> None:
    all_refused(
        box,
        """
a = args
result = {
    "read": tried(open, a["secret"]), "write": tried(open, a["secret"], "w"), "append": tried(open, a["secret"], "a"),
    "empty": tried(os.open, a["secret"], os.O_RDONLY | os.O_TRUNC), "truncate": tried(os.truncate, a["secret"], 0),
    "make": tried(open, a["folder"] + "/new", "w"), "folder": tried(os.mkdir, a["folder"] + "/new"),
    "list": tried(os.listdir, a["folder"]), "remove": tried(os.remove, a["secret"]),
    "move in": tried(os.rename, a["secret"], "stolen"), "passwd": tried(open, "/etc/shadow"),
    "mode": tried(os.chmod, a["secret"], 0o600), "times": tried(os.utime, a["secret"]),
    "owner": tried(os.chown, a["secret"], os.getuid(), -1),
    "attribute": tried(os.setxattr, a["secret"], "user.a", b"b"),
    "nameless": tried(os.open, a["folder"], os.O_TMPFILE | os.O_RDWR), "up": tried(open, "../../secret"),
    "home": tried(os.listdir, os.path.dirname(os.getcwd())) if HIDDEN else "EPERM",
}
""".replace("HIDDEN", str("alone" not in box.words and "Landlock" in box.words)),
        outside.args,
    )
    assert outside.secret.read_text() == "hunter2"
    assert stat.S_IMODE(outside.secret.stat().st_mode) == 0o666
    assert [path.name for path in outside.folder.iterdir()] == ["secret"]


def test_no_link_leads_out(box: ScriptBox, outside: Outside) -> None:
    all_refused(
        box,
        """
open("own", "w").close()
result = {
    "symbolic": tried(os.symlink, args["secret"], "link"), "hard": tried(os.link, args["secret"], "link"),
    "own": tried(os.link, "own", "other"), "move out": tried(os.rename, "own", args["folder"] + "/own"),
    "pipe": tried(os.mkfifo, "pipe"), "device": tried(os.mknod, "null", stat.S_IFCHR | 0o666, os.makedev(1, 3)),
    "root": tried(os.chroot, "."),
}
""",
        outside.args,
    )


def test_the_library_cannot_be_changed(box: ScriptBox) -> None:
    all_refused(
        box,
        """
import json
result = {
    "write": tried(open, json.__file__, "r+"), "empty": tried(os.open, json.__file__, os.O_RDONLY | os.O_TRUNC),
    "mode": tried(os.chmod, json.__file__, 0o777), "descriptor": tried(os.fchmod, os.open(json.__file__, 0), 0o777),
    "beside": tried(open, os.path.dirname(json.__file__) + "/evil.py", "w"),
}
""",
    )


def test_what_was_installed_is_not_read(box: ScriptBox) -> None:
    if "Landlock" not in box.words:
        pytest.skip("bubblewrap alone shows the folder of the interpreter")
    all_refused(
        box,
        """
import sysconfig
places = [os.path.join(sysconfig.get_path("stdlib"), name) for name in ("site-packages", "dist-packages")]
result = {place: tried(os.listdir, place) for place in places}
""",
    )


@pytest.mark.parametrize("kind", ["AF_INET", "AF_INET6", "AF_UNIX", "AF_NETLINK", "AF_PACKET", "AF_VSOCK", "AF_ALG"])
def test_there_is_no_socket(box: ScriptBox, kind: str) -> None:
    all_refused(
        box,
        f"""
kinds = {{"stream": socket.SOCK_STREAM, "datagram": socket.SOCK_DGRAM, "raw": socket.SOCK_RAW}}
result = {{name: tried(socket.socket, socket.{kind}, number) for name, number in kinds.items()}}
result["pair"] = tried(socket.socketpair)
""",
    )


def test_there_is_no_other_process_and_no_thread(box: ScriptBox) -> None:
    found = results_of(
        box,
        """
import subprocess, threading
def bomb():
    for _ in range(1000):
        if os.fork() == 0:
            os._exit(0)
def threads():
    for _ in range(1000):
        threading.Thread(target=lambda: None).start()
result = {
    "fork bomb": tried(bomb), "thread bomb": tried(threads), "spawn": tried(subprocess.run, ["/bin/true"]),
    "exec": tried(os.execv, "/bin/sh", ["sh"]), "setuid helper": tried(os.execv, "/usr/bin/su", ["su"]),
    "posix_spawn": tried(os.posix_spawn, "/bin/true", ["true"], {}),
}
""",
    )
    assert found.pop("thread bomb") == "RuntimeError"
    assert set(found.values()) == {"EPERM"}


def test_nothing_runs_from_memory(box: ScriptBox) -> None:
    all_refused(
        box,
        """
open("program", "w").write("#!/bin/sh\\n")
result = {"memfd": tried(os.memfd_create, "a"), "own file": tried(os.execv, "program", ["program"]),
          "descriptor": tried(os.execve, os.open("program", os.O_RDONLY), ["program"], {})}
""",
    )


def test_no_process_gets_a_signal(box: ScriptBox, outside: Outside) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as neighbour:
        try:
            all_refused(
                box,
                """
import fcntl
targets = {"parent": os.getppid(), "first": 1, "worker": args["process"], "neighbour": args["neighbour"], "all": -1,
           "group": 0, "zygote's group": -os.getppid() or -2}
result = {name: tried(os.kill, target, 0) for name, target in targets.items()}
result |= {"kill " + name: tried(os.kill, target, signal.SIGKILL) for name, target in targets.items()}
own = os.open("own", os.O_RDWR | os.O_CREAT)
result["by a file"] = tried(fcntl.fcntl, own, fcntl.F_SETOWN, args["process"])
result["which signal"] = tried(fcntl.fcntl, own, 10, signal.SIGKILL)
result["handle"] = tried(os.pidfd_open, args["process"]) if hasattr(os, "pidfd_open") else "EPERM"
""",
                outside.args | {"neighbour": neighbour.pid},
            )
            assert neighbour.poll() is None
        finally:
            neighbour.kill()
    assert box.run("result = 1")["result"] == 1


def test_a_script_may_signal_itself(box: ScriptBox) -> None:
    code = "import os, signal\nsignal.signal(signal.SIGUSR1, lambda *_: None)\nos.kill(os.getpid(), signal.SIGUSR1)\n"
    assert box.run(code + "result = 'here'")["result"] == "here"


def test_proc_tells_nothing_of_other_processes(box: ScriptBox, outside: Outside) -> None:
    found = results_of(
        box,
        """
def text(path):
    try:
        with open(path, "rb") as file:
            return file.read(65536).decode(errors="replace")
    except OSError as error:
        return errno.errorcode[error.errno]
pids = {args["process"], os.getppid(), 1}
result = {f"{pid} {name}": text(f"/proc/{pid}/{name}") for pid in pids
          for name in ("environ", "mem", "maps", "cmdline")}
result |= {f"{pid} {name}": tried(os.listdir, f"/proc/{pid}/{name}") for pid in pids for name in ("fd", "root", "task")}
""",
        outside.args,
    )
    assert not [how for how in found.values() if "hunter2" in how]
    if "bubblewrap" not in box.words:
        assert {name: how for name, how in found.items() if how not in REFUSALS} == {}
    elif "Landlock" not in box.words:  # it sees the processes of its own namespace, which hold no secret
        assert {name: how for name, how in found.items() if name.startswith(f"{outside.process} ")} != {}
        assert all(how in REFUSALS for name, how in found.items() if name.startswith(f"{outside.process} "))


def test_its_own_proc_is_closed(box: ScriptBox) -> None:
    if "Landlock" not in box.words:
        pytest.skip("bubblewrap alone gives it a /proc of its own namespace")
    all_refused(
        box,
        """
result = {name: tried(open, f"/proc/self/{name}") for name in ("mem", "maps", "environ", "status", "oom_score_adj")}
result["fd"] = tried(os.listdir, "/proc/self/fd")
result["sysctl"] = tried(open, "/proc/sys/kernel/hostname")
result["sys"] = tried(os.listdir, "/sys")
result["dev"] = tried(os.listdir, "/dev")
""",
    )


def test_there_is_no_secret_in_its_environment_or_memory(box: ScriptBox) -> None:
    found = results_of(
        box,
        """
import gc
result = {"environment": sorted(os.environ), "objects": [str(o)[:80] for o in gc.get_objects() if "SECRET_OF" in str(o)
          and o is not globals() and not isinstance(o, (type(lambda: 0), dict, list, tuple))],
          "modules": [name for name in sys.modules if "settings" in name or "pydantic" in name],
          "c": libc.getenv(b"SECRET_OF_THE_WORKER")}
""",
    )
    assert set(found.pop("environment")) - {"PWD"} == {"HOME", "LANG", "TMPDIR"}
    assert found == {"objects": [], "modules": [], "c": 0}


def test_no_file_of_the_processes_before_is_open(box: ScriptBox) -> None:
    found = results_of(
        box,
        """
def kind(place):
    try:
        return stat.filemode(os.fstat(place).st_mode)[0]
    except OSError:
        return None
result = [kind(place) for place in range(0, 2000)]
""",
    )
    assert found[:4] == ["c", "p", "p", "p"]  # an empty input, what is printed twice, the result
    assert set(found[4:]) == {None}


SYSCALLS = {
    "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "io_uring_setup": 425, "io_uring_enter": 426,
    "bpf": 321, "keyctl": 250, "add_key": 248, "perf_event_open": 298, "userfaultfd": 323, "unshare": 272, "mount": 165,
    "umount2": 166, "setns": 308, "pivot_root": 155, "clone3": 435, "vfork": 58, "memfd_create": 319, "execveat": 322,
    "socket": 41, "socketpair": 53, "sendmsg": 46, "recvmsg": 47, "pidfd_open": 434, "pidfd_getfd": 438,
    "pidfd_send_signal": 424, "tkill": 200, "rt_sigqueueinfo": 129, "kcmp": 312, "prctl": 157, "seccomp": 317,
    "landlock_create_ruleset": 444, "landlock_restrict_self": 446, "setuid": 105, "capset": 126, "setrlimit": 160,
    "init_module": 175, "kexec_load": 246, "reboot": 169, "swapon": 167, "acct": 163, "syslog": 103, "sethostname": 170,
    "settimeofday": 164, "iopl": 172, "shmget": 29, "msgget": 68, "semget": 64, "mq_open": 240,
    "open_by_handle_at": 304,
    "name_to_handle_at": 303, "fanotify_init": 300, "inotify_init1": 294, "openat2": 437, "open_tree": 428,
    "fsopen": 430, "epoll_create1": 291, "eventfd2": 290, "timerfd_create": 283, "signalfd4": 289, "pipe2": 293,
    "timer_create": 222, "ioprio_set": 251, "sched_setaffinity": 203, "setpriority": 141, "personality": 135,
    "modify_ldt": 154, "arch_prctl": 158, "migrate_pages": 256, "move_pages": 279, "mlockall": 151, "quotactl": 179,
    "lookup_dcookie": 212, "nfsservctl": 180, "vmsplice": 278, "splice": 275, "tee": 276, "set_mempolicy": 238,
    "clone": 56, "fork": 57, "execve": 59, "creat": 85, "a call of a later kernel": 999,
}  # fmt: skip


@pytest.mark.skipif(not X86_64, reason="these are the numbers of x86_64")
def test_no_system_call_made_by_hand_does_what_scripts_may_not(box: ScriptBox) -> None:
    found = results_of(
        box, "result = {name: called(number, 0, 0, 0, 0, 0, 0) for name, number in args.items()}", SYSCALLS
    )
    assert {name: how for name, how in found.items() if how != "EPERM"} == {}


@pytest.mark.skipif(not X86_64, reason="x32 and i386 are conventions of x86_64")
@pytest.mark.parametrize(
    "code",
    [
        "called(0x40000000 | 39)",
        """
import mmap
memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
memory.write(b"\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\xc3")  # getpid of i386: mov eax, 20; int 0x80; ret
ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))()
""",
    ],
    ids=["x32", "i386"],
)
def test_system_calls_of_another_convention_end_the_script(box: ScriptBox, code: str) -> None:
    end = box.run(_PRELUDE + code + "\nresult = 'went on'")
    assert end["kind"] == "error"
    assert "another architecture" in end["error"] or "SIGSEGV" in end["error"]  # a kernel may not know them at all


def test_the_terminal_and_foreign_requests_of_devices_are_closed(box: ScriptBox) -> None:
    all_refused(
        box,
        """
import fcntl
own = os.open("own", os.O_RDWR | os.O_CREAT)
result = {"type a key": tried(fcntl.ioctl, 0, 0x5412, b"x"), "terminal": tried(open, "/dev/tty"),
          "owner of signals": tried(fcntl.ioctl, own, 0x8901, b"aaaa"),
          "flags": tried(fcntl.ioctl, own, 0x40086602, b"a" * 8),
          "copy on write": tried(fcntl.ioctl, own, 0x40049409, own)}
""",
    )


def test_limits_of_others_stay_as_they_are(box: ScriptBox, outside: Outside) -> None:
    all_refused(
        box, "import resource\nresult = {'files': tried(resource.prlimit, args['process'], 7, (1, 1))}", outside.args
    )


def test_a_script_cannot_raise_its_own_limits(box: ScriptBox) -> None:
    found = results_of(
        box,
        """
import resource
def raised(kind):
    try:
        resource.setrlimit(kind, (1 << 40, 1 << 40))
    except (ValueError, OSError):
        return False
    return True
kinds = ("RLIMIT_AS", "RLIMIT_CPU", "RLIMIT_FSIZE", "RLIMIT_NOFILE", "RLIMIT_CORE")
result = [kind for kind in kinds if raised(getattr(resource, kind))]
""",
    )
    assert found == []


def test_one_script_leaves_nothing_for_the_next(box: ScriptBox) -> None:
    leave = "import json\njson.evil = 1\nopen('left', 'w').write('x')\nos.mkdir('closed', 0)\n"
    first = results_of(box, leave + "result = os.getcwd()")
    second = results_of(box, "import json\nresult = [hasattr(json, 'evil'), os.listdir('.'), os.getcwd()]")
    assert second[:2] == [False, []]
    assert second[2] != first
    assert not os.path.exists(first)


def test_a_signal_that_it_ignores_ends_it_all_the_same(box: ScriptBox) -> None:
    end = box.run(
        "import os, signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nos.kill(os.getpid(), signal.SIGKILL)"
    )
    assert (end["kind"], signal.SIGKILL.name in end["error"]) == ("error", True)
