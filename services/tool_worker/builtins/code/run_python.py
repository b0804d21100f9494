"""The tool that runs Python code of a model in the sandbox, and what the model is told of it."""

from typing import Annotated, Any

from pydantic import Field

from pentad.contracts.tools import Artifact, Effect
from pentad.services.tool_worker.tool_value import MAX_ARTIFACTS
from pentad.shared.plugins.definition import ToolDefinition
from pentad.shared.plugins.registry import define
from pentad.shared.sandbox.limits import MAX_CODE_BYTES
from pentad.shared.sandbox.sandbox import Sandbox
from pentad.shared.sandbox.script_run import ScriptEnd
from pentad.shared.sandbox.workspace import ScriptFile

TIMEOUT_S = 60.0
"""Seconds that a call may take: those of the script, and those that it waits for others to end."""
Arguments = dict[str, Any] | list[Any] | str | float | bool | None
"""The arguments that a script may be given: any JSON."""


class ScriptFailed(Exception):  # noqa: N818 - it names what happened, as the model reads it
    """A script has failed or met a bound. The text says how, with what it has printed."""

    def __init__(self, end: ScriptEnd) -> None:
        printed = f"\n\nIt had printed:\n{end.printed}" if end.printed else ""
        super().__init__(f"{end.error}{printed}")
        self.timed_out = end.kind == "timeout"


def effect_of(sandbox: Sandbox) -> Effect:
    """Return the effect of running a script: a confined one changes nothing outside, any other may change anything."""
    return Effect.PURE if sandbox.is_confined else Effect.UNSAFE


def told_of(end: ScriptEnd) -> dict[str, Any]:
    """Return what a model is told of a script. Raises ``ScriptFailed`` for one that has failed."""
    if end.kind != "ok":
        raise ScriptFailed(end)
    told: dict[str, Any] = {"result": end.result}
    if end.printed:
        told["printed"] = end.printed
    if end.files:
        told["files"] = [_left(file, number) for number, file in enumerate(end.files)]
    return told


def _left(file: ScriptFile, number: int) -> Artifact | str:
    """Return a file that a script has left, which is kept for the session, or why it is not."""
    if number >= MAX_ARTIFACTS:
        return f"[file {file.name}: {file.size:,} bytes, not kept: of one call {MAX_ARTIFACTS} are]"
    if file.data is None:
        return f"[file {file.name}: {file.size:,} bytes, too large to be kept]"
    return Artifact(file.data, file.name)


def run_python_tool(sandbox: Sandbox) -> ToolDefinition:
    """Make the tool ``run_python``."""

    async def run_python(
        code: Annotated[str, Field(min_length=1, max_length=MAX_CODE_BYTES)], args: Arguments = None
    ) -> dict[str, Any]:
        """Runs Python with the standard library alone, in an empty folder, without network, threads and processes.
        Gives what it assigns to `result`, or what its function main(args) returns, what it prints, and where the files
        that it has written are kept.

        Args:
            code: The whole script.
            args: Any JSON; the script has it as `args`.
        """
        return told_of(await sandbox.run(code, args))

    return define(run_python, effect=effect_of(sandbox), timeout=TIMEOUT_S)
