"""Settings of commands: how `.env` is read, which of its variables a command takes, and which names are misspelt."""

import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from pentad.shared.errors import SettingsError
from pentad.shared.settings import VARIABLE_PREFIX, Settings, load_settings

_MAX_FILE_BYTES = 64 * 1024
"""Bytes that a ``.env`` file may have."""
_ASSIGNMENT = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)")
_SINGLE_QUOTED = re.compile(r"'([^']*)'\s*(?:#.*)?")
_DOUBLE_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"\s*(?:#.*)?')
_COMMENT = re.compile(r"(?:^|\s)#.*")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_CLIENT_VARIABLES = ("PENTAD_URL", "PENTAD_API_KEY", "PENTAD_ADMIN_KEY", "PENTAD_DATA_DIR")
"""Variables of `.env` that a program takes which only talks to a gateway."""
_SECRETS_OF = {
    "PENTAD_URL": ("PENTAD_API_KEY", "PENTAD_ADMIN_KEY"),
    "LLM_BASE_URL": ("LLM_API_KEY",),
    "EMBED_BASE_URL": ("EMBED_API_KEY",),
    "QDRANT_URL": ("QDRANT_API_KEY",),
    "NEO4J_URI": ("NEO4J_USERNAME", "NEO4J_PASSWORD"),
    "TAVILY_BASE_URL": ("TAVILY_API_KEY",),
}
"""Secrets that are sent to each address which a `.env` may name."""
_KEY_ENDING = "_API_KEY"
"""Ends the names of variables that a model's entry may name."""
_VARIABLES_WITH_NAMES = frozenset({"PENTAD_MODELS", "PENTAD_KEY_HOSTS"})
"""Variables whose values name other variables, which hold keys."""
_SIMILARITY = 0.75
"""Share of two names that is the same when one is taken for the other, misspelt."""
_OTHER_PREFIXES = ("LLM_", "EMBED_", "REDIS_", "QDRANT_", "NEO4J_", "TAVILY_")
"""Beginnings of settings' names that other programs have too."""


def read_env_file(path: Path) -> dict[str, str]:
    """Return the variables of a file; none when there is no such file.

    Raises ``SettingsError``, which names the line and never shows its text: it may be a key.
    """
    if not path.is_file():
        return {}
    lines = _text(path).splitlines()
    numbered = ((number, line.strip()) for number, line in enumerate(lines, start=1))
    return dict(_variable(path, number, line) for number, line in numbered if line and not line.startswith("#"))


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(_MAX_FILE_BYTES + 1)
        text = raw.decode("utf-8-sig")
    except OSError as error:
        raise SettingsError(f"{path} cannot be read ({error.strerror}): mend it, or remove it") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{path} is not UTF-8: write it as plain text") from None
    if len(raw) > _MAX_FILE_BYTES or "\0" in text:
        raise SettingsError(
            f"{path} is no file of variables: it holds up to {_MAX_FILE_BYTES} bytes of lines NAME=VALUE"
        )
    return text


def _variable(path: Path, number: int, line: str) -> tuple[str, str]:
    found = _ASSIGNMENT.fullmatch(line)
    if found is None:
        raise SettingsError(f"{path} line {number} is not NAME=VALUE: correct it, or begin it with #")
    name, value = found.groups()
    if value[:1] not in ("'", '"'):
        return name, _COMMENT.sub("", value).strip()
    quoted = (_SINGLE_QUOTED if value[0] == "'" else _DOUBLE_QUOTED).fullmatch(value)
    if quoted is None:
        raise SettingsError(f"{path} line {number}: the quotes around the value of {name} do not close")
    return name, quoted[1] if value[0] == "'" else re.sub(r"\\(.)", _unescaped, quoted[1])


def _unescaped(found: re.Match[str]) -> str:
    return _ESCAPES.get(found[1], found[1])


def adopt_env_file(path: Path = Path(".env")) -> None:
    """Set the variables of a file in this process, where they are not set yet. Raises ``SettingsError``.

    Call it in commands that run services, not in programs that only talk to them.
    """
    for name, value in read_env_file(path).items():
        os.environ.setdefault(name, value)


def client_settings(**overrides: Any) -> Settings:
    """Read from the environment and ``.env`` which gateway a client talks to. Raises ``SettingsError``."""
    exported = {name: os.environ[name] for name in _CLIENT_VARIABLES if name in os.environ}
    return _with_env_file(exported, _CLIENT_VARIABLES, overrides)


def command_settings(*, operator: bool = False, **overrides: Any) -> Settings:
    """Return the settings of a command that runs no service. Raises ``SettingsError``.

    They are those of the environment, and of ``.env`` the variables of clients alone; with ``operator`` all settings
    of ``.env``, for a command that looks at the stores themselves. No other variable of ``.env`` is taken: no proxy,
    no module.
    """
    ours = {field.upper() for field in Settings.model_fields}
    return _with_env_file(os.environ, ours if operator else _CLIENT_VARIABLES, overrides)


def _with_env_file(exported: Mapping[str, str], names: Collection[str], overrides: Mapping[str, Any]) -> Settings:
    """Return the settings of a program that may run in somebody else's folder.

    Whoever wrote the folder's ``.env`` must not get what this user has exported: to an address that ``.env`` names,
    only a secret of the same ``.env`` is sent.
    """
    file = {name: value for name, value in read_env_file(Path(".env")).items() if name in names}
    given, withheld = {**file, **exported}, set()
    for address, secrets in _SECRETS_OF.items():
        if address in exported or not file.get(address) or overrides.get(address.lower()) is not None:
            continue
        for secret in secrets:
            if exported.get(secret, "").strip():
                given[secret] = file.get(secret, "")
                withheld.update({secret} - file.keys())
    url_of_env_file = "PENTAD_URL" in file and "PENTAD_URL" not in exported
    return load_settings(given, **overrides).marked(withheld=frozenset(withheld), url_of_env_file=url_of_env_file)


def unknown_variables(environment: Mapping[str, str] | None = None) -> list[str]:
    """Return a line for each variable that looks like a setting and is none: it changes nothing, which is easy to miss.

    It begins like a setting, or is one misspelt. Names that other programs use are left alone unless they are near one.
    """
    names = sorted(os.environ if environment is None else environment)
    variables = [name.upper() for name in Settings.model_fields]
    # The prefix says nothing of what was meant; PENTAD_REDIS_URL means REDIS_URL.
    known = {name.removeprefix(VARIABLE_PREFIX): name for name in variables}
    lines = []
    for name in names:
        if name in variables or (name.endswith(_KEY_ENDING) and _VARIABLES_WITH_NAMES.intersection(names)):
            continue
        near = _nearest(name, known)
        if near or name.startswith(VARIABLE_PREFIX):
            advice = f"did you mean {near}?" if near else "docs/configure.md lists them"
            lines.append(f"{name} is not a setting and is ignored: {advice}")
    return lines


def _nearest(name: str, known: Mapping[str, str]) -> str | None:
    """Return the setting that a name probably means, or None."""
    from difflib import get_close_matches

    if name.startswith(VARIABLE_PREFIX):
        near = get_close_matches(name.removeprefix(VARIABLE_PREFIX), known, 1, cutoff=0.7)
        return known[near[0]] if near else None
    beginning = name.partition("_")[0] + "_"
    if not get_close_matches(beginning, (*_OTHER_PREFIXES, VARIABLE_PREFIX), 1, cutoff=_SIMILARITY):
        return None
    return next(iter(get_close_matches(name, known.values(), 1, cutoff=_SIMILARITY)), None)
