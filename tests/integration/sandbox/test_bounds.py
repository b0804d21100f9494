"""A script has bounds of time, memory, disk, output and result, and each tells what was met."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from pentad.shared.sandbox.limits import MAX_ARGS_BYTES, MAX_CODE_BYTES, MIB, ScriptLimits
from pentad.shared.sandbox.sandbox import Sandbox, landlock_here
from pentad.shared.sandbox.script_run import SandboxError, ScriptLostError
from tests.support.sandbox.boxes import ScriptBox
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(not landlock_here(), reason="this kernel has no Landlock")
LIMITS = ScriptLimits(wall_s=20, cpu_s=1, memory_bytes=64 * MIB, file_bytes=1 * MIB, creations=8, open_files=16)


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    made = Sandbox(LIMITS)
    await made.prove()
    yield made
    await made.aclose()


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("while True: pass", "1 s of processor time"),
        ("import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass", "SIGKILL"),
        ("x = bytearray(1 << 30)", "more memory"),
        ("x = []\nwhile True: x.append(' ' * 100_000)", "more memory"),
        ("import mmap\nresult = len(mmap.mmap(-1, 1 << 30))", "Cannot allocate memory"),
        ("x = 'a'\nwhile True: x += x", "more memory"),
        ("with open('big', 'wb') as f:\n  while True: f.write(bytes(100_000))", "File too large"),
        ("with open('sparse', 'wb') as f: f.truncate(1 << 40)", "File too large"),
        ("with open('sparse', 'wb') as f:\n  f.seek(1 << 40)\n  f.write(b'x')", "File too large"),
        ("import os\nos.posix_fallocate(os.open('a', os.O_RDWR | os.O_CREAT), 0, 1 << 40)", "File too large"),
        ("for n in range(100_000): open(str(n), 'w').close()", "more than 8 files and folders"),
        ("import os\nfor n in range(100_000):\n  os.mkdir('d')\n  os.chdir('d')", "more than 8 files and folders"),
        ("import os\nwhile True:\n  open('a', 'w').close()\n  os.remove('a')", "more than 8 files and folders"),
        ("kept = [open('/dev/null') for _ in range(100)]", "Too many open files"),
        ("while True: print('again and again')", "printed more than"),
        ("import os\nwhile True: os.write(1, bytes(65536))", "printed more than"),
        ("import os\nwhile True: os.write(2, bytes(65536))", "printed more than"),
        ("import os\nwhile True: os.write(3, bytes(65536))", "its result has more than"),
        ("result = 'a' * 1_000_000", "its result has 1000002 bytes as JSON"),
        ("import os\nos.write(3, b'[' * 100_000)\nos._exit(0)", "without a result"),
        ("import os\nos._exit(3)", "without a result: it exited with code 3"),
        ("def f(): f()\nf()", "RecursionError"),
        ("x = []\nx.append(x)\nresult = x", "RecursionError"),
        ("(" * 100_000, "too many nested parentheses"),
        ("import ctypes\nctypes.string_at(0)", "SIGSEGV"),
        ("raise SystemExit(2)", "SystemExit: 2"),
        ("def broken(:", "SyntaxError"),
        ("x = '\\ud800'\nraise ValueError(x)", "ValueError"),
        ("class E(Exception):\n  def __str__(self): raise KeyError\nraise E", "E"),
    ],
)
async def test_what_meets_a_bound_is_told_which(sandbox: Sandbox, code: str, said: str) -> None:
    end = await sandbox.run(code)
    assert end.kind == "error"
    assert said in end.error
    assert len(end.error) < 5_000
    assert (await sandbox.run("result = 'the next'")).result == "the next"


@pytest.mark.parametrize(
    "code",
    [
        "import time\ntime.sleep(600)",
        "import signal, time\n[signal.signal(n, signal.SIG_IGN) for n in (2, 15)]\ntime.sleep(600)",
        "import select\nselect.select([], [], [])",
    ],
)
async def test_a_script_that_sleeps_is_ended_in_time(code: str) -> None:
    sandbox = Sandbox(ScriptLimits(wall_s=0.3))
    try:
        await sandbox.prove()
        end = await sandbox.run(code)
        assert (end.kind, end.error) == ("timeout", "it has not ended within 0.3 s")
    finally:
        await sandbox.aclose()


async def test_what_was_printed_until_a_bound_is_told(sandbox: Sandbox) -> None:
    end = await sandbox.run("print('begun')\nx = bytearray(1 << 30)")
    assert end.printed == "begun\n"


async def test_printed_bytes_beyond_the_bound_are_cut_and_counted(sandbox: Sandbox) -> None:
    end = await sandbox.run("print('a' * 100_000, end='')\nresult = 1")
    assert (end.kind, end.result) == ("ok", 1)
    assert end.printed == "a" * 65_536 + f"\n[cut: {100_000 - 65_536} more bytes were printed]"


async def test_printed_escapes_of_terminals_can_be_seen(sandbox: Sandbox) -> None:
    end = await sandbox.run(r"import os; os.write(1, b'\x1b[2J\x9b\xffa\tb\r\x07\n' + '\x9b\u202e'.encode())")
    assert end.printed == "\\x1b[2J\ufffd\ufffda\tb\\x0d\\x07\n\\x9b\\u202e"
    broken = await sandbox.run(r"raise ValueError('\x1b[2J')")
    assert broken.error.endswith("ValueError: \\x1b[2J")


async def test_files_that_are_left_are_handed_on_by_name(sandbox: Sandbox) -> None:
    end = await sandbox.run(
        "import os\nos.mkdir('d')\nopen('d/b.txt', 'w').write('bb')\nopen('a\\n.txt', 'w').write('a')\nos.mkdir('x', 0)"
    )
    assert [(file.name, file.size, file.data) for file in end.files] == [("a .txt", 1, b"a"), ("d/b.txt", 2, b"bb")]


async def test_files_beyond_the_bytes_that_are_handed_on_are_named_alone() -> None:
    sandbox = Sandbox(ScriptLimits(kept_bytes=100))
    try:
        await sandbox.prove()
        end = await sandbox.run("[open(n, 'wb').write(bytes(60)) for n in 'ab']")
        assert sorted(file.data is None for file in end.files) == [False, True]
        assert [file.size for file in end.files] == [60, 60]
    finally:
        await sandbox.aclose()


async def test_too_much_code_and_too_many_arguments_are_refused(sandbox: Sandbox) -> None:
    assert "make it shorter" in (await sandbox.run("#" * (MAX_CODE_BYTES + 1))).error
    assert "give less" in (await sandbox.run("", "a" * (MAX_ARGS_BYTES + 1))).error


async def test_a_cancelled_script_ends_and_its_folder_goes(sandbox: Sandbox) -> None:
    assert sandbox.home is not None
    before = set(os.listdir(sandbox.home))
    running = asyncio.create_task(sandbox.run("import time\ntime.sleep(600)"))
    await wait_until("a folder of the script", lambda: set(os.listdir(sandbox.home or "")) - before)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await wait_until("its folder to be removed", lambda: set(os.listdir(sandbox.home or "")) == before)


async def test_after_the_death_of_the_interpreter_another_serves(sandbox: Sandbox) -> None:
    running = asyncio.create_task(sandbox.run("import time\nopen('begun', 'w')\ntime.sleep(600)"))
    await wait_until("the script to begin", lambda: list(Path(sandbox.home or "").glob("*/begun")))
    assert sandbox.interpreter is not None
    (script,) = _children(sandbox.interpreter)
    os.kill(sandbox.interpreter, signal.SIGKILL)
    with pytest.raises(ScriptLostError):
        await running
    await wait_until("the script to end", lambda: not _runs(script))
    assert (await sandbox.run("result = 'again'")).result == "again"


async def test_seen_from_outside_a_script_has_no_rights_no_files_and_no_environment(sandbox: Sandbox) -> None:
    running = asyncio.create_task(sandbox.run("import os, time\nos.mkdir('begun')\ntime.sleep(600)"))
    await wait_until("the script to begin", lambda: list(Path(sandbox.home or "").glob("*/begun")))
    assert sandbox.interpreter is not None
    (script,) = _children(sandbox.interpreter)
    seen = Path(f"/proc/{script}")
    status = dict(line.split(":\t", 1) for line in (seen / "status").read_text().splitlines() if ":\t" in line)
    rights = {name: int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")}
    assert rights == dict.fromkeys(rights, 0)
    assert (status["NoNewPrivs"], status["Seccomp"], status["Threads"]) == ("1", "2", "1")
    assert os.getsid(script) == os.getpgid(script) == script
    ends = {int(file.name): os.readlink(file) for file in (seen / "fd").iterdir()}
    assert set(ends) == {0, 1, 2, 3}
    assert ends[0] == "/dev/null"
    assert ends[1] == ends[2] != ends[3]
    assert all(ends[end].startswith("pipe:") for end in (1, 2, 3))
    variables = {part.partition("=")[0] for part in (seen / "environ").read_text().split("\0") if part}
    assert variables == {"HOME", "LANG", "TMPDIR"}
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_several_scripts_run_at_once_and_none_sees_another(sandbox: Sandbox) -> None:
    code = (
        "import os, time\nopen('mine', 'w').write(args)\ntime.sleep(0.05)\nresult = [open('mine').read(), os.listdir()]"
    )
    ends = await asyncio.gather(*(sandbox.run(code, str(number)) for number in range(12)))
    assert [end.result for end in ends] == [[str(number), ["mine"]] for number in range(12)]


@pytest.fixture
def ended_box() -> Iterator[tuple[ScriptBox, int]]:
    box = ScriptBox({})
    yield box, box.pid
    box.close()


@pytest.mark.parametrize("frozen", [False, True])
async def test_scripts_end_with_the_worker_that_was_killed(ended_box: tuple[ScriptBox, int], frozen: bool) -> None:
    box, worker = ended_box
    interpreter = box.run("import os\nresult = os.getppid()")["result"]
    box.ask("import time\ntime.sleep(600)")
    await wait_until("the script to run", lambda: _children(interpreter))
    script = _children(interpreter)[0]
    if frozen:  # it cannot tell its scripts to end: the kernel does
        os.kill(interpreter, signal.SIGSTOP)
    os.kill(worker, signal.SIGKILL)
    if frozen:
        os.kill(interpreter, signal.SIGKILL)
    await wait_until("the interpreter and its script to end", lambda: not _runs(interpreter) and not _runs(script))


def _children(process: int) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def _runs(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except FileNotFoundError:
        return False


async def test_without_landlock_and_bubblewrap_it_says_what_is_missing() -> None:
    sandbox = Sandbox(landlock_at_most=0)
    try:
        with pytest.raises(SandboxError, match=r"no Landlock.*bubblewrap is not there.*Linux 5\.13"):
            await sandbox.prove()
    finally:
        await sandbox.aclose()


async def test_no_script_runs_before_it_is_known_that_it_is_confined() -> None:
    sandbox = Sandbox()
    try:
        with pytest.raises(SandboxError, match="prove"):
            await sandbox.run("result = 1")
    finally:
        await sandbox.aclose()


async def test_a_bubblewrap_that_does_not_work_is_left_out(tmp_path: Path) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho No permissions to create new namespace >&2\nexit 1\n")
    broken.chmod(0o755)
    sandbox = Sandbox(bubblewrap=str(broken))
    try:
        confining = await sandbox.prove()
        assert (confining.namespaces, confining.landlock > 0) == (False, True)
    finally:
        await sandbox.aclose()
    alone = Sandbox(bubblewrap=str(broken), landlock_at_most=0)
    try:
        with pytest.raises(SandboxError, match="No permissions to create new namespace"):
            await alone.prove()
    finally:
        await alone.aclose()


async def test_unconfined_scripts_run_with_bounds_alone_and_leave_no_process(tmp_path: Path) -> None:
    sandbox = Sandbox(LIMITS, confined=False)
    try:
        read = await sandbox.run("result = open('/etc/passwd').read()[:4]")
        assert read.result == "root"
        end = await sandbox.run("import os, time\npid = os.fork()\nif pid == 0:\n  time.sleep(600)\nresult = pid")
        await wait_until("what the script has started to end", lambda: not _runs(end.result))
        assert "1 s of processor" in (await sandbox.run("while True: pass")).error
    finally:
        await sandbox.aclose()
