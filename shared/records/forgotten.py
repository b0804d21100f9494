"""Notes of what was forgotten of recorded tasks: files beside the records, which outlive the stores of the memory.

Below a tenant's records, `_forgotten/TASK/NAME.json`, where no task can be called as the folder is. Each is written
once and never changed; what is in it is its writer's.
"""

import contextlib
import os
from collections.abc import Mapping
from typing import Any

from pentad.contracts.ids import is_identifier
from pentad.shared.private_files import make_folder, replace_file
from pentad.shared.records.by_time import names_in

FORGOTTEN = "_forgotten"
_END = ".json"


def noted_tasks(fs: Any, tenant: str) -> list[str]:
    """The tasks of which something is noted. ``tenant``: its folder."""
    return sorted(name for name in names_in(fs, f"{tenant}/{FORGOTTEN}") if is_identifier(name))


def notes(fs: Any, tenant: str, task: str) -> dict[str, bytes]:
    """The notes of a task, by name."""
    found: dict[str, bytes] = {}
    for path, name in _paths(fs, tenant, task).items():
        with contextlib.suppress(FileNotFoundError):
            found[name] = bytes(fs.cat_file(path))
    return found


def note(fs: Any, tenant: str, task: str, given: Mapping[str, bytes], *, local: bool) -> None:
    """Keep these, by name: whole or not at all. In a folder they are on the disk behind this."""
    folder = f"{tenant}/{FORGOTTEN}/{task}"
    if not local:
        for name, data in given.items():
            fs.pipe_file(f"{folder}/{name}{_END}", data)
        return
    make_folder(folder)
    for name, data in given.items():
        replace_file(f"{folder}/{name}{_END}", data)


def leave(fs: Any, tenant: str, task: str, *, local: bool) -> None:
    """Remove all notes of a task."""
    paths = _paths(fs, tenant, task)
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            fs.rm_file(path)
    if local and paths:
        with contextlib.suppress(OSError):  # somebody notes something just now
            os.rmdir(f"{tenant}/{FORGOTTEN}/{task}")


def _paths(fs: Any, tenant: str, task: str) -> dict[str, str]:
    folder = f"{tenant}/{FORGOTTEN}/{task}"
    return {f"{folder}/{name}": name.removesuffix(_END) for name in names_in(fs, folder) if name.endswith(_END)}
