"""The file of ``PENTAD_MCP``: MCP servers in the forms that editors and assistants keep them in.

Programs agree on a command or a url and differ in the words around them. The words that mean something here are
translated; of the others, a note says that they change nothing. Mistakes are told together, each with its server.
"""

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pentad.contracts.tool_servers import MAX_SERVER_TIMEOUT_S, ToolServer
from pentad.shared.entry_file import complaints
from pentad.shared.errors import SettingsError
from pentad.shared.immutable import immutable
from pentad.shared.settings import VARIABLE_PREFIX, named_variable
from pentad.shared.tool_servers.jsonc import read_jsonc
from pentad.shared.tool_servers.server_names import same_prefixes

MAX_FILE_BYTES = 1 << 18
MAX_SERVERS = 64
"""Servers of a file, and as many registered while the system runs."""
_MAX_ERROR_CHARS = 2_000
_SHOWN = 64
"""Characters of a name or a field that are repeated."""
_LISTS = ("mcpServers", "servers", "mcp_servers", "context_servers")
"""Names under which files keep their servers."""
_NESTED = "mcp"
"""Name of the object in which settings of whole programs keep such a list, or the servers themselves."""
_TRANSPORTS = {
    "stdio": "stdio",
    "local": "stdio",
    "http": "http",
    "https": "http",
    "remote": "http",
    "streamable-http": "http",
    "streamable_http": "http",
    "streamablehttp": "http",
    "sse": "sse",
}
_COMMANDS = ("command", "cmd")
_URLS = ("url", "httpUrl", "serverUrl", "endpoint", "uri")
_ENVIRONMENTS = ("env", "environment", "envs")
_HEADERS = ("headers", "http_headers")
_TYPES = ("type", "transport", "transportType")
_OFF = {"disabled": True, "enabled": False, "isActive": False}
"""Fields that turn a server off, each with the value that does."""
_ONLY = ("includeTools", "enabled_tools", "enabledTools", "tools", "allowedTools")
_WITHOUT = ("excludeTools", "disabled_tools", "disabledTools")
_SECONDS = ("timeout", "tool_timeout_sec")
_MILLISECONDS = ("timeoutMs", "timeout_ms")
_CLIENT_IDS = ("client_id", "clientId", "CLIENT_ID")
_CLIENT_SECRETS = ("client_secret", "clientSecret", "CLIENT_SECRET")
_SCOPES = ("scope", "scopes", "SCOPES")
_BEARER, _HEADER_VARIABLES = "bearer_token_env_var", "env_http_headers"
_LIMITS = ("concurrency", "rate")
_REFUSED = {
    "envFile": "variables are not read from another file: name each in env as ${NAME}",
    "env_file": "variables are not read from another file: name each in env as ${NAME}",
}
_KNOWN = frozenset(
    {*_COMMANDS, *_URLS, *_ENVIRONMENTS, *_HEADERS, *_TYPES, *_OFF, *_ONLY, *_WITHOUT, *_SECONDS, *_MILLISECONDS}
    | {*_REFUSED, *_LIMITS, "oauth", "auth", "args", "cwd", "name", "list_as", _BEARER, _HEADER_VARIABLES}
)
_MILLISECONDS_FROM = MAX_SERVER_TIMEOUT_S
"""A larger ``timeout`` is one in milliseconds: half of the programs count so, and none waits for more than an hour."""
_REFERENCE = re.compile(r"\$\{([^{}]{0,512})\}")
_NAMED = re.compile(r"(?:env:)?([A-Za-z_][A-Za-z0-9_]{0,127})(?::-(.*))?", re.DOTALL)


class _WrongServerError(Exception):
    """An entry of the file cannot be used. The text says where in it and why."""


@immutable
class ServerFile:
    """The servers of a file, in its order."""

    servers: tuple[ToolServer, ...]
    turned_off: tuple[str, ...] = ()
    """Names of the servers that the file has and that are turned off there."""
    notes: tuple[str, ...] = ()
    """Lines about fields that mean nothing here."""


def read_server_file(
    path: Path, named: str = "PENTAD_MCP", variable: Callable[[str], str | None] = named_variable
) -> ServerFile:
    """Return the servers of a file. Raises ``SettingsError``, which begins with what has ``named`` it.

    ``variable``: returns the value of an environment variable, None where it is not set.
    """
    try:
        return servers_of(_parsed(path), path.absolute().parent, variable)
    except SettingsError as error:
        raise SettingsError(f"{named} is wrong: {path}: {error}"[:_MAX_ERROR_CHARS]) from None


def servers_of(found: Any, folder: Path, variable: Callable[[str], str | None] = named_variable) -> ServerFile:
    """Return the servers of what a file in ``folder`` holds. Raises ``SettingsError``."""
    entries = _entries(found)
    if len(entries) > MAX_SERVERS:
        raise SettingsError(f"it has {len(entries)} servers: at most {MAX_SERVERS}")
    made, wrong, off, notes = list[ToolServer](), list[str](), list[str](), list[str]()
    for name, entry in entries.items():
        reader = _EntryReader(folder, variable)
        shown = name[:_SHOWN]
        try:
            if _is_off(entry):
                off.append(name)
                continue
            made.append(ToolServer.model_validate(reader.fields(name, entry)))
        except _WrongServerError as error:
            wrong.append(f"server {shown!r}: {error}")
        except ValidationError as error:
            wrong += complaints(error, f"server {shown!r}")
        if strange := sorted(set(entry) - _KNOWN if isinstance(entry, Mapping) else ()):
            listed = ", ".join(field[:_SHOWN] for field in strange[:10])
            notes.append(f"server {shown!r}: these fields mean nothing here: {listed}")
    for name, other in same_prefixes(each.name for each in made).items():
        wrong.append(f"server {name[:_SHOWN]!r}: its tools would be named like those of {other[:_SHOWN]!r}: rename one")
    if wrong:
        raise SettingsError("; ".join(wrong))
    return ServerFile(tuple(made), tuple(off), tuple(notes))


def _parsed(path: Path) -> Any:
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise SettingsError(f"{error.strerror or error}") from None
    if len(raw) > MAX_FILE_BYTES:
        raise SettingsError(f"it is longer than {MAX_FILE_BYTES} bytes")
    kind = "TOML" if path.suffix == ".toml" else "JSON"
    try:
        text = raw.decode("utf-8")
        return tomllib.loads(text) if kind == "TOML" else read_jsonc(text)
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"it is no {kind}: {error}") from None


def _entries(found: Any) -> Mapping[str, Any]:
    """Return the entries of a file by name, from where it keeps them."""
    if isinstance(found, Mapping):
        places: list[Any] = [found, found.get(_NESTED)]
        for place in places:
            if not isinstance(place, Mapping):
                continue
            for name in _LISTS:
                if isinstance(listed := place.get(name), Mapping):
                    return listed
            if place and all(isinstance(each, Mapping) and _is_entry(each) for each in place.values()):
                return place
    raise SettingsError('it names no servers: write {"mcpServers": {"NAME": {"command": ...} or {"url": ...}}}')


def _is_entry(value: Mapping[str, Any]) -> bool:
    return any(name in value for name in (*_COMMANDS, *_URLS))


def _is_off(entry: Any) -> bool:
    return isinstance(entry, Mapping) and any(entry.get(field) is value for field, value in _OFF.items())


class _EntryReader:
    """Translates one entry into the fields of `ToolServer`. Raises `_WrongServerError`."""

    def __init__(self, folder: Path, variable: Callable[[str], str | None]) -> None:
        self._folder, self._variable = folder, variable

    def fields(self, name: str, entry: Any) -> dict[str, Any]:
        if not isinstance(entry, Mapping):
            raise _WrongServerError("it must be an object")
        for field, why in _REFUSED.items():
            if entry.get(field):
                raise _WrongServerError(f"{field}: {why}")
        command, args = self._command(entry)
        url = _first(entry, _URLS)
        transport = self._transport(entry, command, url)
        made: dict[str, Any] = {
            "name": name,
            "timeout": _timeout(entry),
            "only": _only(entry),
            "without": _first(entry, _WITHOUT) or (),
            "list_as": entry.get("list_as"),
        }
        made |= {name: entry[name] for name in _LIMITS if entry.get(name) is not None}
        if transport == "stdio":
            made |= {"command": command, "args": args, "env": self._texts(entry, _ENVIRONMENTS)}
            if cwd := entry.get("cwd"):
                made["cwd"] = str(self._folder / self._expanded("cwd", cwd))
        else:
            made |= {"url": self._expanded("url", url), "sse": transport == "sse", "headers": self._headers(entry)}
        if (sign_in := self._sign_in(entry)) is not None:
            made["oauth"] = sign_in
        return made

    def _sign_in(self, entry: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the client with which persons sign in; None where the entry says nothing of it, or that it is off."""
        found = "oauth" if entry.get("oauth") not in (None, False) else "auth"
        given = entry.get(found)
        if found == "auth" and given != "oauth" and not (isinstance(given, Mapping) and _first(given, _CLIENT_IDS)):
            return None  # of another kind
        if given is True or given == "oauth":
            return {}
        if not isinstance(given, Mapping):
            raise _WrongServerError(f"{found} must be an object with client_id, client_secret and scope, or true")
        if given.get("enabled") is False:
            return None
        scope = _first(given, _SCOPES)
        if isinstance(scope, Sequence) and not isinstance(scope, str):
            scope = " ".join(map(str, scope))
        words = (
            ("client_id", _first(given, _CLIENT_IDS)),
            ("client_secret", _first(given, _CLIENT_SECRETS)),
            ("scope", scope),
        )
        return {name: self._expanded(f"{found}.{name}", each) for name, each in words if each is not None}

    def _command(self, entry: Mapping[str, Any]) -> tuple[str | None, list[str]]:
        """Return the program and its arguments: some keep both in one list, or in an object of their own."""
        given, args = _first(entry, _COMMANDS), entry.get("args")
        if isinstance(given, Mapping):
            both = given
            given, args = both.get("path"), both.get("args", args)
        if isinstance(given, Sequence) and not isinstance(given, str):
            given, args = (given[0], [*given[1:], *(args or ())]) if given else (None, args)
        if args is not None and (isinstance(args, str) or not isinstance(args, Sequence)):
            raise _WrongServerError("args must be a list of texts")
        if given is None:
            return None, []
        return self._expanded("command", given), [self._expanded("args", each) for each in args or ()]

    def _transport(self, entry: Mapping[str, Any], command: str | None, url: Any) -> str:
        given = _first(entry, _TYPES)
        if isinstance(given, Mapping):  # {"transport": {"type": "http"}}
            given = given.get("type")
        if given is None:
            given = "stdio" if command is not None else "http"
        transport = _TRANSPORTS.get(given.lower()) if isinstance(given, str) else None
        if transport is None:
            known = "stdio, http (streamable HTTP) and sse"
            raise _WrongServerError(f"type {str(given)[:_SHOWN]!r} is not known: there are {known}")
        if transport == "stdio" and command is None:
            raise _WrongServerError("it needs a command" if url is None else "a server with a url is of type http")
        if transport != "stdio" and url is None:
            raise _WrongServerError("it needs a url")
        if command is not None and url is not None:
            raise _WrongServerError("it has a command and a url: keep one of them")
        return transport

    def _headers(self, entry: Mapping[str, Any]) -> dict[str, str]:
        made = self._texts(entry, _HEADERS)
        if isinstance(name := entry.get(_BEARER), str):
            made["Authorization"] = f"Bearer {self._value(_BEARER, name, None)}"
        if isinstance(named := entry.get(_HEADER_VARIABLES), Mapping):
            made |= {header: self._value(_HEADER_VARIABLES, str(name), None) for header, name in named.items()}
        return made

    def _texts(self, entry: Mapping[str, Any], names: Iterable[str]) -> dict[str, str]:
        found = next(((name, entry[name]) for name in names if entry.get(name) is not None), None)
        if found is None:
            return {}
        field, given = found
        if not isinstance(given, Mapping):
            raise _WrongServerError(f"{field} must be an object of texts")
        return {
            str(name): self._expanded(f"{field}.{str(name)[:_SHOWN]}", each)
            for name, each in given.items()
            if each is not None
        }

    def _expanded(self, field: str, given: Any) -> str:
        """Return a text with the variables that it names filled in; a number or truth value as text."""
        if isinstance(given, bool):
            return "true" if given else "false"
        if isinstance(given, int | float):
            return str(given)
        if not isinstance(given, str):
            raise _WrongServerError(f"{field} must be a text")
        return _REFERENCE.sub(lambda found: self._referred(field, found[1]), given)

    def _referred(self, field: str, inside: str) -> str:
        if inside.startswith("input:"):
            raise _WrongServerError(
                f"{field}: ${{{inside[:_SHOWN]}}} asks a person, and there is none here: write ${{NAME}} for a "
                "variable, or {{secret:NAME}} for each user's own"
            )
        if inside == "workspaceFolder":
            return str(self._folder)
        if inside == "userHome":
            return self._value(field, "HOME", None)
        named = _NAMED.fullmatch(inside)
        if named is None:
            raise _WrongServerError(f"{field}: ${{{inside[:_SHOWN]}}} names no variable: write ${{NAME}}")
        return self._value(field, named[1], named[2])

    def _value(self, field: str, name: str, default: str | None) -> str:
        if name.upper().startswith(VARIABLE_PREFIX):
            raise _WrongServerError(f"{field}: {name[:_SHOWN]} is Pentad's own, and no server's to see")
        value = self._variable(name) or default
        if value is None:
            raise _WrongServerError(
                f"{field}: the variable {name[:_SHOWN]} is not set: set it, or give it a default as "
                f"${{{name[:_SHOWN]}:-...}}"
            )
        return value


def _first(entry: Mapping[str, Any], names: Iterable[str]) -> Any:
    return next((entry[name] for name in names if entry.get(name) is not None), None)


def _only(entry: Mapping[str, Any]) -> Any:
    """Return the tools that an entry allows; an empty list, and one of ``*``, allow all."""
    only = _first(entry, _ONLY)
    return None if not only or only == ["*"] or only == "*" else only


def _timeout(entry: Mapping[str, Any]) -> Any:
    for name in _MILLISECONDS:
        if isinstance(given := entry.get(name), int | float):
            return given / 1000
    given = _first(entry, _SECONDS)
    if isinstance(given, int | float) and not isinstance(given, bool) and given > _MILLISECONDS_FROM:
        return given / 1000
    return given
