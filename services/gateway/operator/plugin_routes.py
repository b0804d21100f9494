"""The routes of plug-ins: an operator has the tool-workers import new code one by one, and sees how that goes."""

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, Any

from pentad.services.gateway.edge.http import admin_only, answer, caller_of, wait_of
from pentad.services.gateway.edge.operations import operation
from pentad.services.gateway.edge.schemas import ADMIN, TEXT, gives, object_of, query
from pentad.shared.presence.plugin_reloads import (
    ReloadRequest,
    WorkerPlugins,
    ask_for_reload,
    last_request,
    reported_plugins,
)
from pentad.shared.store.store import Store

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_WAIT_S = 30.0
"""Seconds that an answer waits for the workers, where the request does not say."""
_LOOK_S = 0.25
_NO_WORKER = "no tool-worker has plug-ins: set PENTAD_PLUGINS where they run"
_SHOWN = object_of(
    reload={"type": ["string", "null"], "description": "the last request; null when there was none in 30 days"},
    done={"type": "boolean", "description": "whether all workers have carried it out, or failed"},
    workers={
        "type": "array",
        "items": object_of(
            worker=TEXT,
            state={"enum": ["done", "running", "waiting", "failed"]},
            modules={"type": "array", "items": TEXT},
            error={"type": ["string", "null"], "description": "why its new code is not in use; for operators alone"},
        ),
    },
    warning={"type": ["string", "null"]},
)


class PluginRoutes:
    """Routes of the plug-ins of all tool-workers. ``closing``: set when the gateway stops."""

    def __init__(self, store: Store, closing: asyncio.Event) -> None:
        self._store, self._closing = store, closing

    @operation(
        "GET",
        "/v1/plugins",
        "The plug-ins of the tool-workers, and how far the last reload is",
        _200=gives("", _SHOWN),
    )
    async def show_plugins(self, request: "Request") -> "Response":
        """Return what each tool-worker has imported."""
        shown = _shown(await last_request(self._store), await reported_plugins(self._store))
        if not caller_of(request).admin:
            for worker in shown["workers"]:
                worker["error"] = None
        return answer(shown)

    @operation(
        "POST",
        "/v1/plugins/reload",
        "Have each tool-worker import its plug-ins anew, one after the other: calls under way finish on the old code, "
        f"and a worker whose new code does not import keeps the old; {ADMIN}",
        query("wait", "number", "seconds to wait for the workers; 30 when missing, 600 at most", minimum=0),
        problems=(422,),
        _200=gives("all have carried it out, or failed", _SHOWN),
        _202=gives("it goes on: `GET /v1/plugins` says how far it is", _SHOWN),
    )
    async def reload_plugins(self, request: "Request") -> "Response":
        """Ask for a reload, and return what became of it, or how far it is after the wait."""
        admin_only(request)
        wait_s = wait_of(request)
        asked = await ask_for_reload(self._store)
        limit = monotonic() + (_WAIT_S if wait_s is None else wait_s)
        shown = _shown(asked, await reported_plugins(self._store))
        while not shown["done"] and monotonic() < limit and not self._closing.is_set():
            await asyncio.sleep(_LOOK_S)
            shown = _shown(asked, await reported_plugins(self._store))
        return answer(shown, 200 if shown["done"] else 202)


def _shown(asked: ReloadRequest | None, reports: dict[str, WorkerPlugins]) -> dict[str, Any]:
    workers = [
        {"worker": name, "state": _state(asked, each), "modules": list(each.modules), "error": each.error}
        for name, each in reports.items()
    ]
    return {
        "reload": None if asked is None else asked.word,
        "done": all(each["state"] in ("done", "failed") for each in workers),
        "workers": workers,
        "warning": None if workers else _NO_WORKER,
    }


def _state(asked: ReloadRequest | None, report: WorkerPlugins) -> str:
    if report.running:
        return "running"
    if asked is not None and report.word != asked.word:
        return "waiting"
    return "done" if report.error is None else "failed"
