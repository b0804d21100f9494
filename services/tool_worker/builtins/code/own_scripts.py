"""The scripts that a call may use: its user's own, and those that all users of the tenant may read.

The latter would be run by models for users who have not seen them: so no model saves one, but the tenant's own program
does, by a call outside a conversation that names no user.
"""

from collections.abc import Sequence

from pentad.contracts.ids import shard_of
from pentad.contracts.instructions import DIRECT_CALL
from pentad.shared.actors.erased_marks import mark_at
from pentad.shared.actors.headers import read_text
from pentad.shared.immutable import immutable
from pentad.shared.keys import SessionKeys, TaskKeys, erased_user
from pentad.shared.owners import Owner
from pentad.shared.plugins.context import ToolContext
from pentad.shared.scripts.script_store import KeptScript, ScriptStore
from pentad.shared.scripts.stored_script import ScriptRefusedError, ScriptScope, ScriptVersion, StoredScript
from pentad.shared.store.store import Store

_NOT_HERE = (
    "a script for all users of the tenant is saved outside a conversation alone, since models would run it for others: "
    "POST /v1/tools/script_save/call, without user_id; save this one with scope user"
)


@immutable
class FoundScript:
    """A script that a call may use."""

    kept: KeptScript
    scope: ScriptScope


class OwnScripts:
    """Finds and saves scripts for the user, session or tenant of a call. ``shards``: how many there are."""

    def __init__(self, scripts: ScriptStore, store: Store, shards: int) -> None:
        self._scripts, self._store, self._shards = scripts, store, shards

    async def save(self, context: ToolContext, script: StoredScript, scope: ScriptScope) -> ScriptVersion:
        """Keep a script. Raises ``ScriptRefusedError``, ``OutageError``."""
        now = await self._store.clock()
        if context.user_id is None and await self._is_of_program(context):
            return await self._scripts.save(Owner(context.tenant_id), script, now)
        if scope == "tenant":
            raise ScriptRefusedError(_NOT_HERE)
        owner = _owner(context)
        version = await self._scripts.save(owner, script, now)
        if await self._erased_since(context, version.saved_at):
            await self._scripts.take_back(owner, script.name, version)
            raise ScriptRefusedError("its user or session was erased meanwhile: nothing is kept")
        return version

    async def _is_of_program(self, context: ToolContext) -> bool:
        """Whether the tenant's own program makes this call, outside a conversation: no model has asked for it."""
        shard = shard_of(context.tenant_id, context.session_id, self._shards)
        header = TaskKeys(shard, context.tenant_id, context.task_id).header
        return read_text(await self._store.call("HGET", header, "instruction") or b"") == DIRECT_CALL

    async def _erased_since(self, context: ToolContext, at: int) -> bool:
        """Whether the owner was erased at this time or later: whoever erases may have looked before the write."""
        shard = shard_of(context.tenant_id, context.session_id, self._shards)
        keys = [SessionKeys(shard, context.tenant_id, context.session_id).erased]
        if context.user_id is not None:
            keys = [erased_user(shard, context.tenant_id, context.user_id)]
        marks = [await mark_at(self._store, key) for key in keys]
        return any(mark is not None and mark.at >= at for mark in marks)

    async def find(self, context: ToolContext, name: str, digest: str | None = None) -> FoundScript:
        """Return the user's script of this name, else the tenant's. Raises ``ScriptRefusedError``, ``OutageError``."""
        for owner, scope in _readable(context):
            if (kept := await self._scripts.read(owner, name, digest)) is not None:
                return FoundScript(kept, scope)
        version = f" with the digest {digest[:16]}" if digest is not None else ""
        raise ScriptRefusedError(f"there is no script {name[:100]!r}{version}: script_list says which there are")

    async def versions(self, context: ToolContext, found: FoundScript) -> Sequence[ScriptVersion]:
        """Return the versions of a script, the last first. Raises ``OutageError``."""
        owner = _owner(context) if found.scope == "user" else Owner(context.tenant_id)
        return await self._scripts.versions(owner, found.kept.script.name)

    async def listed(self, context: ToolContext) -> list[FoundScript]:
        """Return all scripts that a call may use, by name; the user's goes before the tenant's. Raises
        ``OutageError``."""
        found: dict[str, FoundScript] = {}
        for owner, scope in reversed(_readable(context)):
            found |= {kept.script.name: FoundScript(kept, scope) for kept in await self._scripts.listed(owner)}
        return [found[name] for name in sorted(found)]


def _readable(context: ToolContext) -> Sequence[tuple[Owner, ScriptScope]]:
    return ((_owner(context), "user"), (Owner(context.tenant_id), "tenant"))


def _owner(context: ToolContext) -> Owner:
    """Return who owns what a call saves: its user, else its session."""
    if context.user_id is not None:
        return Owner(context.tenant_id, context.user_id)
    return Owner(context.tenant_id, None, context.session_id)
