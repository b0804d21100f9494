"""The files of the session that a call belongs to. A call of an erased task leaves none behind, however late it is."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from pentad.contracts.ids import shard_in
from pentad.contracts.tools import Artifact, KeptFile, ToolOutcome
from pentad.shared.actors.erased_marks import is_erased
from pentad.shared.errors import OutageError
from pentad.shared.keys import TaskKeys
from pentad.shared.plugins.context import ToolContext
from pentad.shared.store.store import Store
from pentad.shared.workspace.artifact_paths import artifact_path
from pentad.shared.workspace.file_errors import FileMissingError, FileRefusedError
from pentad.shared.workspace.workspace import Workspace, Workspaces

T = TypeVar("T")


class CallFiles:
    """Finds and changes the workspaces of calls. ``shards``: of the system."""

    def __init__(self, store: Store, workspaces: Workspaces, shards: int) -> None:
        self._store, self._workspaces, self._shards = store, workspaces, shards

    def of(self, context: ToolContext) -> Workspace:
        """Return the workspace of a call's session. Raises ``FileRefusedError`` for a call without one."""
        if not context.session_id:
            raise FileRefusedError("this call belongs to no session, and so has no files")
        return self._workspaces.open(context.tenant_id, context.session_id)

    async def keep(self, context: ToolContext, outcome: ToolOutcome) -> ToolOutcome:
        """Return an outcome whose files are kept. What cannot be kept is told in its text."""
        kept, lost = list[KeptFile](), list[str]()
        for made in outcome.made:
            path = artifact_path(context.tool_call_id, made.name)

            async def keep(workspace: Workspace, made: Artifact = made) -> KeptFile:
                return await workspace.keep_artifact(context.tool_call_id, made.name, made.data, made.media_type)

            try:
                kept.append(await self.change(context, path, keep))
            except (FileRefusedError, OutageError) as error:
                lost.append(f"[file {path} is not kept: {error}]")
        text = "\n".join([outcome.text, *lost])
        return replace(outcome, text=text, made=(), artifacts=tuple(kept))

    async def change(self, context: ToolContext, path: str, change: Callable[[Workspace], Awaitable[T]]) -> T:
        """Change a file, and take it back if the call's task was erased: whichever was first, nothing stays.

        Raises ``FileRefusedError``, ``OutageError``.
        """
        workspace = self.of(context)
        done = await change(workspace)
        shard = shard_in(context.task_id, self._shards)
        if shard is not None and await is_erased(self._store, TaskKeys(shard, context.tenant_id, context.task_id)):
            with suppress(FileMissingError):
                await workspace.remove(path)
            raise FileRefusedError("the task of this call was erased")
        return done
