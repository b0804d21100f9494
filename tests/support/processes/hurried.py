"""A service with shorter waits, so that a test need not wait: some constants have other values.

``python -m tests.support.processes.hurried MODULE:CONSTANT=SECONDS ... NAME [--port N]``
"""

import importlib
import sys
from collections.abc import Sequence

from pentad.shared.service.run import main_of
from tests.support.processes.system import MODULES


def hurried(*constants: str) -> Sequence[str]:
    """Return the launcher of a service with constants such as ``pentad.shared.telemetry:THROTTLE_S=0.2``."""
    return ("-m", __name__, *constants)


def change(constant: str) -> None:
    """Set a constant to its new value. Raises ``AttributeError`` if there is no such constant."""
    where, _, seconds = constant.partition("=")
    module, _, name = where.partition(":")
    found = importlib.import_module(module)
    getattr(found, name)
    setattr(found, name, float(seconds))


if __name__ == "__main__":
    constants = [word for word in sys.argv[1:] if "=" in word]
    name, *arguments = [word for word in sys.argv[1:] if "=" not in word]
    for constant in constants:
        change(constant)
    composed = importlib.import_module(f"{MODULES[name]}.app")
    raise SystemExit(main_of(name, arguments, composed.build))  # type: ignore[arg-type]
