"""The process of one script, from its fork to its end: it confines itself, runs the code, and writes what came of it.

Nothing here waits for anybody, but for what it starts with. What it holds when the script begins: its code and
arguments, a pipe for what is printed, a pipe for the result, and its folder.
"""

import io
import json
import linecache
import math
import os
import resource
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from inspect import Parameter, signature
from types import CodeType, TracebackType
from typing import Any

from pentad.shared.sandbox import kernel
from pentad.shared.sandbox.limits import ScriptLimits
from pentad.shared.sandbox.seccomp import script_rules

SCRIPT_FILE = "script.py"
"""Name of the script in tracebacks."""
_RESULT = 3
"""The file descriptor that takes the result."""
_MAX_FRAMES = 8
_MAX_ERROR_CHARS = 4_000
_NICE = 10


@dataclass(frozen=True, slots=True)
class Confinement:
    """How scripts are confined. ``landlock``: the version that is used, 0 for none."""

    confined: bool
    landlock: int
    readable: Sequence[int] = ()
    """Open files and folders that every script may read."""


@dataclass(frozen=True, slots=True)
class ScriptEnds:
    """The ends of a new process: file descriptors that it was given."""

    job: int
    printed: int
    result: int
    setup: int
    """Socket that tells of the confinement; closed before the script begins."""


def run_script(
    ends: ScriptEnds, folder: str, limits: ScriptLimits, confinement: Confinement, hand_over: Callable[[int], None]
) -> None:
    """Become the process of a script, and end with it. ``hand_over``: gives away the file descriptor that watches."""
    with open(ends.job, "rb") as file:
        job = json.loads(file.read())
    workspace = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    os.fchdir(workspace)
    os.umask(0o077)
    _settle_descriptors(ends)
    _bound(limits)
    if confinement.confined:
        _confine(workspace, confinement, hand_over)
    _keep_three_descriptors(ends, limits.open_files)
    if confinement.confined:
        kernel.allow_calls(script_rules(os.getpid()))
    _write(_outcome(job["code"], job["args"], limits))
    os._exit(0)


def _settle_descriptors(ends: ScriptEnds) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    for place, end in enumerate((nothing, ends.printed, ends.printed)):
        os.dup2(end, place)
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), "utf-8")
    sys.stdout, sys.stderr = _printer(1), _printer(2)


def _printer(place: int) -> io.TextIOWrapper:
    """Return a text file whose lines are out before a script can be ended in the next one."""
    return io.TextIOWrapper(
        io.BufferedWriter(io.FileIO(place, "w", closefd=False)), "utf-8", "backslashreplace", line_buffering=True
    )


def _bound(limits: ScriptLimits) -> None:
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")  # where memory runs out, a script goes first
    os.nice(_NICE)
    for kind, most in (
        (resource.RLIMIT_AS, _address_space() + limits.memory_bytes),
        (resource.RLIMIT_FSIZE, limits.file_bytes),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
    ):
        _limit(kind, most, most)
    _limit(resource.RLIMIT_CPU, limits.cpu_s, limits.cpu_s + 1)  # first a signal that says why, then the end


def _limit(kind: int, soft: int, hard: int) -> None:
    there = resource.getrlimit(kind)[1]
    if there != resource.RLIM_INFINITY:
        soft, hard = min(soft, there), min(hard, there)
    resource.setrlimit(kind, (soft, hard))


def _address_space() -> int:
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except OSError:  # without /proc the interpreter's own part is not known
        return 256 * 1024 * 1024


def _confine(workspace: int, confinement: Confinement, hand_over: Callable[[int], None]) -> None:
    kernel.give_up_privileges()
    hand_over(kernel.watch_creations())
    if not confinement.landlock:
        return
    landlock = kernel.Landlock(confinement.landlock)
    for place in confinement.readable:
        landlock.allow(place, kernel.rights_of(place, kernel.READABLE))
    landlock.allow(workspace, kernel.WRITABLE)
    landlock.restrict()


def _keep_three_descriptors(ends: ScriptEnds, open_files: int) -> None:
    """Keep what is printed, the result and an empty input: nothing else of the processes before goes to a script."""
    os.dup2(ends.result, _RESULT)
    kernel.close_from(_RESULT + 1)
    _limit(resource.RLIMIT_NOFILE, open_files, open_files)


def _outcome(code: str, args: Any, limits: ScriptLimits) -> bytes:
    try:
        result = _run(code, args)
        text = _as_json(result)
    except MemoryError:
        return _failure("it needs more memory than a script may have")
    except BaseException as error:
        return _failure(_told(error))
    finally:
        _flush()
    if len(text) > limits.result_bytes:
        return _failure(
            f"its result has {len(text)} bytes as JSON, and may have {limits.result_bytes}: return less, or write it "
            "to a file"
        )
    return b'{"result":' + text + b"}"


def _flush() -> None:
    for file in (sys.stdout, sys.stderr):
        with suppress(Exception):
            file.flush()


def _run(code: str, args: Any) -> Any:
    """Return what a script assigns to ``result``, else what its function ``main`` returns."""
    compiled: CodeType = compile(code, SCRIPT_FILE, "exec", dont_inherit=True)
    linecache.cache[SCRIPT_FILE] = (len(code), None, code.splitlines(keepends=True), SCRIPT_FILE)
    names: dict[str, Any] = {"__name__": "script", "__builtins__": __builtins__, "args": args}
    try:
        exec(compiled, names)
        if "result" in names or not callable(main := names.get("main")):
            return names.get("result")
        return main(args) if _takes_arguments(main) else main()
    except SystemExit as end:
        if end.code in (None, 0):
            return names.get("result")
        raise


def _takes_arguments(main: Callable[..., Any]) -> bool:
    try:
        parameters = signature(main).parameters.values()
    except (TypeError, ValueError):
        return True
    positional = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD, Parameter.VAR_POSITIONAL)
    return any(parameter.kind in positional for parameter in parameters)


def _as_json(result: Any) -> bytes:
    return json.dumps(_finite(result), ensure_ascii=False, default=_plain, allow_nan=False).encode(
        "utf-8", "backslashreplace"
    )


def _finite(value: Any) -> Any:
    """JSON has no number that is infinite or none: these become texts."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {_key(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value


def _key(key: Any) -> Any:
    return key if isinstance(key, (str, int, bool)) or key is None else str(key)


def _plain(value: Any) -> Any:
    return sorted(map(str, value)) if isinstance(value, (set, frozenset)) else str(value)


def _told(error: BaseException) -> str:
    """Return the traceback of an error, without the frames that are ours."""
    shown = traceback.TracebackException(type(error), error, _frames_of_script(error.__traceback__), limit=-_MAX_FRAMES)
    text = "".join(shown.format(chain=False)).strip()
    return text if len(text) <= _MAX_ERROR_CHARS else f"{text[:1000]}\n[...]\n{text[-(_MAX_ERROR_CHARS - 1000) :]}"


def _frames_of_script(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and trace.tb_frame.f_code.co_filename != SCRIPT_FILE:
        trace = trace.tb_next
    return trace


def _failure(text: str) -> bytes:
    return json.dumps({"error": text}, ensure_ascii=False).encode("utf-8", "backslashreplace")


def _write(data: bytes) -> None:
    while data:
        data = data[os.write(_RESULT, data) :]
