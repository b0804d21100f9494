"""Imports the modules that ``PENTAD_PLUGINS`` names, and finds the running program as one of them.

Child processes import by name what ``python my_script.py`` knows as ``__main__``.
"""

import importlib
import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Collection, Sequence
from importlib.util import find_spec
from pathlib import Path

from pentad.shared.plugins.definition import ToolDefinition
from pentad.shared.plugins.errors import PluginError
from pentad.shared.plugins.hooks import registered_hooks
from pentad.shared.plugins.registry import registered_tools
from pentad.shared.plugins.runnables import runnable_sources

_VARIABLE = re.compile("[A-Z][A-Z0-9_]+")
MAX_SOURCE_FILES = 1_000
"""Files of plugins whose changes are noticed."""
_INSTALLED = ("purelib", "platlib", "stdlib", "platstdlib")
"""Names of the folders of installed packages."""
_loading = False


def load_plugins(modules: Sequence[str]) -> None:
    """Import each module from the working directory or ``PYTHONPATH``. Raises ``PluginError`` with the error of the
    import."""
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


def source_files(modules: Sequence[str], before: Collection[str]) -> list[str]:
    """Return the files of the plugins, and of what they have imported from beside them or the working directory.

    ``before``: names of the modules that were imported before. Installed packages are left out.
    """
    installed = [Path(path) for name, path in sysconfig.get_paths().items() if name in _INSTALLED]
    files = {name: Path(file) for name in sys.modules.keys() - set(before) if (file := _source_of(name)) is not None}
    roots = {Path.cwd(), *(_root(name, files[name]) for name in modules if name in files)}
    mine = (
        file
        for file in files.values()
        if any(file.is_relative_to(root) for root in roots) and not any(file.is_relative_to(path) for path in installed)
    )
    return sorted({str(file) for file in mine})[:MAX_SOURCE_FILES]


def _source_of(module: str) -> str | None:
    """Return the file of an imported module, when it is Python's source."""
    file = getattr(sys.modules.get(module), "__file__", None)
    return file if isinstance(file, str) and file.endswith(".py") else None


def _root(module: str, file: Path) -> Path:
    """Return the folder that a module was imported from: that of its outermost package."""
    depth = module.count(".") + (file.name == "__init__.py")
    return file.parents[min(depth, len(file.parents) - 1)]


def is_loading_plugins() -> bool:
    """Whether a plugin is being imported: its module must not begin work of its own then."""
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
    """Return what to do about a file that this user may not read, or a variable that is missing."""
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
    """Return file and line of the last frame that is not one of the import machinery."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
    if isinstance(error, SyntaxError) or len(frames) < 2:
        return ""
    return f" ({frames[-1].filename}, line {frames[-1].lineno})"


_MAIN = "__main__"
_ADVICE = "put it into a module of its own, my_tools.py, and name that: pentad.start(plugins=['my_tools'])"


def script_plugin(given: Collection[ToolDefinition] = ()) -> str | None:
    """Return the name under which others import the running program; None when it defines nothing for them: no tool,
    hook, instruction or graph.

    ``given``: tools that run in this process, and need not be imported elsewhere. Raises ``PluginError`` when it
    defines some others and cannot be imported with what it defines.
    """
    ours = {tool.source for tool in given}
    tools = [tool.source for tool in registered_tools().values() if tool.source not in ours]
    sources = [*tools, *registered_hooks(), *runnable_sources()]
    defined = [source.removeprefix(f"{_MAIN}.") for source in sources if source.startswith(f"{_MAIN}.")]
    if not defined:
        return None
    for name in defined:
        if "<locals>" in name:
            raise PluginError(f"{name.rpartition('.')[2]!r} is defined in a function: define it at the module's top")
    return _name_of(sys.modules[_MAIN], defined[0])


def _name_of(main: object, defined: str) -> str:
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if spec is not None:  # python -m NAME
        return str(spec.name)
    if file is None:
        raise PluginError(f"{defined!r} is defined in no file, and tools run in processes of their own: {_ADVICE}")
    path = Path(file).resolve()
    found = find_spec(path.stem) if path.stem.isidentifier() else None
    if found is None or found.origin is None or Path(found.origin).resolve() != path:
        raise PluginError(f"{defined!r} is defined in {path}, which cannot be imported as {path.stem!r}: {_ADVICE}")
    return path.stem
