"""Scripts that models keep: their names, bounds and owners. Pure."""

import re
from hashlib import sha256
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from pentad.shared.errors import PentadError
from pentad.shared.immutable import immutable
from pentad.shared.owners import Owner

SCRIPT_NAME_PATTERN = r"^[a-z0-9][a-z0-9_-]{0,63}$"
SCRIPT_NAME_RULE = "1 to 64 of a-z 0-9 _ -, the first a letter or digit"
MAX_SCRIPT_BYTES = 64 * 1024
"""Bytes of code that a kept script may have."""
MAX_DESCRIPTION_CHARS = 500
MAX_SCRIPTS = 100
"""Scripts that a user, a session, or all users of a tenant together may keep."""
MAX_VERSIONS = 10
"""Versions of a script that are kept; the oldest goes when another is saved."""
_DIGEST_DIGITS = 16
SHARED_FOLDER = "shared"
"""Folder of the scripts that all users of a tenant may read."""
_NAME = re.compile(SCRIPT_NAME_PATTERN)
_FILE = re.compile(rf"(\d{{15}})-([0-9a-f]{{{_DIGEST_DIGITS}}})\.json", re.ASCII)

ScriptScope = Literal["user", "tenant"]


class ScriptRefusedError(PentadError):
    """A script cannot be kept or found as asked. The text says why, and what to do."""


class StoredScript(BaseModel):
    """One version of a script, as it is stored."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    version: Literal[1] = 1
    """Version of this form."""
    name: str = Field(pattern=SCRIPT_NAME_PATTERN)
    description: str = ""
    code: str


@immutable
class ScriptVersion:
    """Which version of a script a file holds."""

    saved_at: int
    """The time at which it was saved, in ms since the epoch."""
    digest: str
    """The first digits of the SHA-256 of the code."""

    @property
    def file(self) -> str:
        """The name of the file, which sorts by time."""
        return f"{self.saved_at:015d}-{self.digest}.json"


def version_of_file(file: str) -> ScriptVersion | None:
    """Return the version whose file is called so; None for a file of others."""
    found = _FILE.fullmatch(file)
    return None if found is None else ScriptVersion(int(found[1]), found[2])


def digest_of(code: str) -> str:
    """Return the digest that names a version of a script."""
    return sha256(code.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_DIGITS]


def is_script_name(text: str) -> bool:
    """Return whether a script may have this name."""
    return _NAME.fullmatch(text) is not None


def holder_folder(owner: Owner) -> str:
    """Return the name of the folder of a user's, a session's or a tenant's scripts; no two have the same."""
    if (holder := owner.holder) is None:
        return SHARED_FOLDER
    return f"{'session' if owner.user is None else 'user'}-{sha256(holder.encode()).hexdigest()[:32]}"


def checked_script(name: str, code: str, description: str) -> StoredScript:
    """Return a script that may be kept. Raises ``ScriptRefusedError``."""
    if not is_script_name(name):
        raise ScriptRefusedError(f"{name[:100]!r} is no name of a script: it has {SCRIPT_NAME_RULE}")
    if len(code.encode(errors="replace")) > MAX_SCRIPT_BYTES:
        raise ScriptRefusedError(f"the code has more than {MAX_SCRIPT_BYTES} bytes: split it into several scripts")
    if not code.strip():
        raise ScriptRefusedError("there is no code: give the whole text of the script")
    if len(description) > MAX_DESCRIPTION_CHARS:
        raise ScriptRefusedError(f"the description has more than {MAX_DESCRIPTION_CHARS} characters: make it shorter")
    try:
        compile(code, name, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise ScriptRefusedError(f"it is no Python: {str(error)[:300]}") from None
    return StoredScript(name=name, code=code, description=" ".join(description.split()))
