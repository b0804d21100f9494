"""The routes of hooks: the operator may look at those in force, and remove one that no worker has any more."""

from typing import TYPE_CHECKING

from pentad.contracts.ids import rfc3339
from pentad.services.gateway.edge.http import admin_only, answer
from pentad.services.gateway.edge.operations import operation
from pentad.services.gateway.edge.problems import ProblemError, missing
from pentad.services.gateway.edge.schemas import ADMIN, TEXT, gives, object_of, page, path, ref
from pentad.shared.presence.published import HOOKS
from pentad.shared.store.store import Store

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_HOOK = {"allOf": [ref("HookSpec"), object_of(seen_at=TEXT, alive={"type": "boolean"})]}
"""Schema of a hook with the time of the last report, and whether a living worker has it."""


class HookRoutes:
    """Routes of the hooks that workers have published. They concern all tenants."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @operation(
        "GET",
        "/v1/hooks",
        f"The hooks in force, which steps of tasks wait for; {ADMIN}",
        _200=gives("", page(_HOOK)),
    )
    async def list_hooks(self, request: "Request") -> "Response":
        """Return the hooks in force, by name."""
        admin_only(request)
        raw, now = await HOOKS.fetch(self._store), await self._store.clock()
        hooks = [
            each.item.model_dump(mode="json") | {"seen_at": rfc3339(each.beat), "alive": each.alive(now)}
            for each in HOOKS.beats(raw, now).values()
        ]
        return answer({"items": hooks, "next": None})

    @operation(
        "DELETE",
        "/v1/hooks/{hook}",
        f"Remove a hook that no worker has any more, so that tasks go on without it; {ADMIN}",
        path("hook"),
        problems=(404, 409),
        _204=gives("removed"),
    )
    async def remove_hook(self, request: "Request") -> "Response":
        """Remove a hook without a living worker."""
        from starlette.responses import Response

        admin_only(request)
        name = request.path_params["hook"]
        raw, now = await HOOKS.fetch(self._store), await self._store.clock()
        found = HOOKS.beats(raw, now).get(name)
        if found is None:
            raise missing("there is no such hook")
        if found.alive(now):
            raise ProblemError(
                409, "a tool-worker has this hook: restart the tool-workers without it, then remove it a minute later"
            )
        await HOOKS.withdraw(self._store, [name])
        return Response(status_code=204)
