"""The program that runs, as a plugin: child processes import by name what ``python my_script.py`` knows as __main__."""

import sys
from importlib.util import find_spec
from pathlib import Path

from pentad.shared.plugins.errors import PluginError
from pentad.shared.plugins.instructions import instruction_sources
from pentad.shared.plugins.registry import registered_tools

_MAIN = "__main__"
_INSTEAD = "put it into a module of its own, my_tools.py, and name that: pentad.start(plugins=['my_tools'])"


def script_plugin() -> str | None:
    """The name under which others import the running program; None when it defines no tool and no instruction.

    Raises ``PluginError`` when it defines some and nobody can import it, or not what it defines.
    """
    sources = [*(tool.source for tool in registered_tools().values()), *instruction_sources()]
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
        raise PluginError(f"{defined!r} is defined in no file, and tools run in processes of their own: {_INSTEAD}")
    path = Path(file).resolve()
    found = find_spec(path.stem) if path.stem.isidentifier() else None
    if found is None or found.origin is None or Path(found.origin).resolve() != path:
        raise PluginError(f"{defined!r} is defined in {path}, which cannot be imported as {path.stem!r}: {_INSTEAD}")
    return path.stem
