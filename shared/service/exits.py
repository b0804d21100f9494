"""How a command ends: its exit code, and one line on stderr that says what to do."""

import os
import sys
import traceback
from collections.abc import Callable

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
