"""The tools by which models keep scripts and run them again."""

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import Field

from pentad.contracts.ids import rfc3339
from pentad.contracts.tools import Effect
from pentad.services.tool_worker.builtins.code.own_scripts import FoundScript, OwnScripts
from pentad.services.tool_worker.builtins.code.run_python import TIMEOUT_S, Arguments, effect_of, told_of
from pentad.shared.plugins.context import ToolContext
from pentad.shared.plugins.definition import ToolDefinition
from pentad.shared.plugins.registry import define
from pentad.shared.sandbox.sandbox import Sandbox
from pentad.shared.scripts.stored_script import (
    MAX_DESCRIPTION_CHARS,
    MAX_SCRIPT_BYTES,
    SCRIPT_NAME_PATTERN,
    ScriptScope,
    checked_script,
)

_STORE_S = 20.0
"""Seconds that a call of the store may take."""
Name = Annotated[str, Field(pattern=SCRIPT_NAME_PATTERN)]
Digest = Annotated[str, Field(pattern="^[0-9a-f]{4,16}$")] | None


def script_tools(own: OwnScripts, sandbox: Sandbox) -> Iterator[ToolDefinition]:
    """Make the tools ``script_save``, ``script_list``, ``script_read`` and ``script_run``."""
    yield _saving(own)
    yield _listing(own)
    yield _reading(own)
    yield _running(own, sandbox)


def _saving(own: OwnScripts) -> ToolDefinition:
    async def script_save(
        context: ToolContext,
        name: Name,
        code: Annotated[str, Field(min_length=1, max_length=MAX_SCRIPT_BYTES)],
        description: Annotated[str, Field(max_length=MAX_DESCRIPTION_CHARS)],
        scope: ScriptScope = "user",
    ) -> dict[str, Any]:
        """Keeps a Python script, so that script_run can run it later; one of the same name gets a new version.

        Args:
            name: A name in lower case, like monthly_report.
            code: The whole script, as run_python takes it.
            description: What it does, and which args it takes.
            scope: Leave it as it is.
        """
        version = await own.save(context, checked_script(name, code, description), scope)
        return {"saved": name, "digest": version.digest}

    return define(script_save, effect=Effect.IDEMPOTENT, timeout=_STORE_S)


def _listing(own: OwnScripts) -> ToolDefinition:
    async def script_list(context: ToolContext) -> list[dict[str, Any]]:
        """Lists the scripts that are kept, with what each does."""
        return [_described(found) for found in await own.listed(context)]

    return define(script_list, effect=Effect.PURE, timeout=_STORE_S)


def _reading(own: OwnScripts) -> ToolDefinition:
    async def script_read(context: ToolContext, name: Name, digest: Digest = None) -> dict[str, Any]:
        """Shows the code of a kept script, with the digests of its versions.

        Args:
            name: Its name.
            digest: Of an earlier version; without it, the last is shown.
        """
        found = await own.find(context, name, digest)
        versions = [each.digest for each in await own.versions(context, found)]
        return _described(found) | {"code": found.kept.script.code, "versions": versions}

    return define(script_read, effect=Effect.PURE, timeout=_STORE_S)


def _running(own: OwnScripts, sandbox: Sandbox) -> ToolDefinition:
    async def script_run(context: ToolContext, name: Name, args: Arguments = None) -> dict[str, Any]:
        """Runs a kept script as run_python runs code.

        Args:
            name: Its name.
            args: Any JSON; the script has it as `args`.
        """
        found = await own.find(context, name)
        return told_of(await sandbox.run(found.kept.script.code, args))

    return define(script_run, effect=effect_of(sandbox), timeout=TIMEOUT_S)


def _described(found: FoundScript) -> dict[str, Any]:
    kept = found.kept
    return {
        "name": kept.script.name,
        "description": kept.script.description,
        "scope": found.scope,
        "digest": kept.version.digest,
        "saved_at": rfc3339(kept.version.saved_at),
    }
