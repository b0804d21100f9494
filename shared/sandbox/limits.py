"""Bounds of one script, which the kernel or the process that started it holds. Pure."""

from dataclasses import dataclass

KIB, MIB = 1024, 1024 * 1024


@dataclass(frozen=True, slots=True)
class ScriptLimits:
    """How much one script may use."""

    wall_s: float = 30.0
    """Seconds from its start to its end."""
    cpu_s: int = 10
    """Seconds of a processor."""
    memory_bytes: int = 256 * MIB
    """Bytes of memory beyond what the interpreter has when a script begins."""
    file_bytes: int = 4 * MIB
    """Bytes of one file."""
    creations: int = 48
    """How often a script may make a folder, or open a file with the right to make it: so it has at most this many
    files, and this many times `file_bytes` of disk."""
    open_files: int = 64
    """Files that are open at once."""
    printed_bytes: int = 64 * KIB
    """Bytes of what a script prints that are kept."""
    flood_bytes: int = 1 * MIB
    """Printed bytes at which a script is ended: what it prints beyond `printed_bytes` until then is dropped."""
    result_bytes: int = 256 * KIB
    """Bytes that its result may have, as JSON."""
    kept_bytes: int = 16 * MIB
    """Bytes of the files that a script leaves, which are handed on; larger ones are named alone."""


SCRIPTS_AT_ONCE = 4
"""Scripts that run at once in one tool-worker: together they need no more memory and disk than its pod has."""
MAX_CODE_BYTES = 128 * KIB
"""Bytes of a script's code."""
MAX_ARGS_BYTES = 256 * KIB
"""Bytes of a script's arguments, as JSON."""
