"""Importing the modules that ``PENTAD_PLUGINS`` names."""

import importlib
import os
import re
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from pentad.shared.plugins.errors import PluginError

_VARIABLE = re.compile("[A-Z][A-Z0-9_]+")
_loading = False


def load_plugins(modules: Sequence[str]) -> None:
    """Imports each module from the working directory or ``PYTHONPATH``. Raises ``PluginError`` with its own error."""
    global _loading
    if not modules:
        return
    _look_in_working_directory()
    _loading = True
    try:
        for module in modules:
            _load(module)
    finally:
        _loading = False


def is_loading_plugins() -> bool:
    """Whether a module is imported for what it defines just now: it is not to begin work of its own."""
    return _loading


def _look_in_working_directory() -> None:
    here = str(Path.cwd())
    if not {here, ""} & set(sys.path):
        sys.path.insert(0, here)
    importlib.invalidate_caches()


def _load(module: str) -> None:
    if not all(part.isidentifier() for part in module.split(".")):
        raise PluginError(f"plugin {module!r} is not the name of a module: write it as after `import`, e.g. my_tools")
    try:
        importlib.import_module(module)
    except PluginError as error:
        raise PluginError(f"plugin {module!r}: {error}") from error
    except ModuleNotFoundError as error:
        raise PluginError(_not_found(module, error)) from error
    except (Exception, SystemExit) as error:
        raise PluginError(_does_not_import(module, error)) from error


def _not_found(module: str, error: ModuleNotFoundError) -> str:
    if error.name is not None and f"{module}.".startswith(f"{error.name}."):
        return f"plugin {module!r} was not found in {Path.cwd()} or PYTHONPATH: PENTAD_PLUGINS names modules to import"
    return _does_not_import(module, error)


def _does_not_import(module: str, error: BaseException) -> str:
    return f"plugin {module!r} does not import: {type(error).__name__}: {error}{_where(error)}{_hint(error)}"


def _hint(error: BaseException) -> str:
    """What to do about a file that this user may not read, and a variable that is not there."""
    if isinstance(error, PermissionError):
        return f"; let user {os.geteuid()} read it: chmod a+r"
    if (
        not isinstance(error, KeyError)
        or not isinstance(name := error.args[0], str)
        or _VARIABLE.fullmatch(name) is None
    ):
        return ""
    return f"; tools see no variable that PENTAD_TOOL_ENV does not name: PENTAD_TOOL_ENV={name}"


def _where(error: BaseException) -> str:
    """File and line of the last frame that is not the import machinery's."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
    if isinstance(error, SyntaxError) or len(frames) < 2:
        return ""
    return f" ({frames[-1].filename}, line {frames[-1].lineno})"
