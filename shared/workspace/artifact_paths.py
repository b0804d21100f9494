"""Names of files that tool calls make. Pure."""

from collections.abc import Collection

from pentad.shared.workspace.file_paths import read_path, safe_name
from pentad.shared.workspace.media_types import ending_of

ARTIFACTS = "artifacts"
"""Folder of what tools have made, with a folder for each call."""


def artifact_path(call: str, name: str) -> str:
    """Return the path of what a call has made. Raises ``FileRefusedError`` for what is no name."""
    return read_path(f"{ARTIFACTS}/{call}/{name}")


def unique_name(wanted: str, media_type: str, taken: Collection[str]) -> str:
    """Return a name for a file of this type that is safe and none of ``taken``."""
    ending = ending_of(media_type)
    name = safe_name(wanted, f"result{ending}")
    if "." not in name:
        name = f"{name}{ending}"
    stem, dot, last = name.rpartition(".")
    number = 1
    while name in taken:
        number += 1
        name = f"{stem}-{number}{dot}{last}"
    return name
