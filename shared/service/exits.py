"""How a command ends: its exit code, and one line on stderr that says what to do."""

import atexit
import os
import sys
import traceback
from collections.abc import Callable
from typing import NoReturn

from pentad.shared.command_settings import unknown_variables
from pentad.shared.errors import PentadError

DONE, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130


def exit_code_of(work: Callable[[], int], *, prog: str, debug: bool = False) -> int:
    """Do the work and return its exit code; an error becomes one line, with a traceback only on ``debug``."""
    try:
        return work()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _forget_stdout()
        return FAILED
    except Exception as error:
        if debug:
            traceback.print_exc()
        print(f"{prog}: {line_of(error)}", file=sys.stderr)
        return FAILED


def leave(code: int) -> NoReturn:
    """End this process with an exit code. What is registered to run at its end runs, and what was printed is written.

    ``sys.exit`` does the same and then frees every module, class and schema by itself, which takes a command 0.1 s and
    ``pentad up`` 0.3 s of processor time. The system frees all of it at once.
    """
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):  # whoever read it has left, or it is closed
            code = code or FAILED
    os._exit(code)


def say_unknown_variables(prog: str) -> None:
    """Warn on stderr of variables that look like settings and are none. Called once, before the work begins."""
    for line in unknown_variables():
        print(f"{prog}: {line}", file=sys.stderr)


def line_of(error: Exception) -> str:
    """Return the one line that a person is told of an error."""
    text = " ".join(str(error).split())
    if isinstance(error, PentadError):
        return text or type(error).__name__
    if isinstance(error, ModuleNotFoundError) and error.name and not error.name.startswith("pentad."):
        package = error.name.partition(".")[0]
        return f"the package {package} is not installed: what runs services needs `pip install 'pentad[server]'`"
    if isinstance(error, ConnectionError):
        return f"no connection: {text or type(error).__name__}; see `pentad doctor`"
    return f"unexpected {type(error).__name__}: {text} (--debug shows where)"


def _forget_stdout() -> None:
    # Whoever read our output has left; without this the interpreter complains once more when it flushes.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
