"""Which version of an instruction it is: two with the same content are the same."""

import hashlib

from pentad.contracts.instructions import Instruction

_LENGTH = 16


def version_of(instruction: Instruction) -> str:
    """The digest of what it says, in hex digits."""
    return hashlib.sha256(instruction.to_json()).hexdigest()[:_LENGTH]


def kept_under(version: str) -> str:
    """The name of a version among a task's large values, and in its record."""
    return f"instruction:{version}"
