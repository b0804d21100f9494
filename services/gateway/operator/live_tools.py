"""Models, tools and MCP servers as an operator watches them: how many are well, and which are in trouble."""

from collections.abc import Sequence
from typing import Any

from pentad.contracts.operations import ModelLoad, ToolsState, TroubledServer, TroubledTool
from pentad.contracts.tools import ToolSpec
from pentad.services.gateway.operator.models import ModelRegistry
from pentad.shared.keys import BREAKER_CHANGES, TOOL_BREAKER, model_places
from pentad.shared.presence.published import TOOLS, Beaten
from pentad.shared.presence.server_reports import reported_servers, worst_report
from pentad.shared.presence.tool_states import refusal_text
from pentad.shared.registries.registrations import REGISTERED_SERVERS
from pentad.shared.store.store import Command, Store

MAX_MODELS, MAX_TROUBLED = 200, 50
"""Rows of each list."""
_MAX_BREAKERS = 200
"""Breakers that are looked at, those that have changed last."""
_MAX_WHY_CHARS = 300
_NO_WORKER = "no living tool-worker has it"


class LiveTools:
    """Reads models, tools and servers. Raises ``OutageError``. ``now`` is Redis's time in ms."""

    def __init__(self, store: Store, models: ModelRegistry) -> None:
        self._store, self._models = store, models

    async def queues(self, now: int) -> set[str]:
        """Return the queues of the published tools."""
        return {each.item.queue for each in (await self._beaten(now)).values()}

    async def _beaten(self, now: int) -> dict[str, Beaten[ToolSpec]]:
        return TOOLS.beats(await TOOLS.fetch(self._store), now)

    async def models(self, now: int, left_out: dict[str, int]) -> list[ModelLoad]:
        """Return the models of the registry."""
        listed = await self._models.listing()
        if len(listed) > MAX_MODELS:
            left_out["models"] = len(listed) - MAX_MODELS
        listed = listed[:MAX_MODELS]
        limited = [str(model["id"]) for model in listed if model["concurrency"] is not None]
        commands: list[Command] = []
        for name in limited:
            under_way, waiting, _ = model_places(name)
            commands += [("ZCOUNT", under_way, f"({now}", "+inf"), ("ZCARD", waiting)]
        found = await self._store.calls(commands) if commands else []
        calls = dict(zip(limited, zip(found[::2], found[1::2], strict=True), strict=True))
        return [_load(model, *calls.get(str(model["id"]), (None, None))) for model in listed]

    async def tools(self, now: int, left_out: dict[str, int]) -> ToolsState:
        """Return how many tools and servers there are, and which are in trouble."""
        tools = await self._beaten(now)
        silent = [TroubledTool(name=name, why=_NO_WORKER) for name, each in tools.items() if not each.alive(now)]
        troubled = [*await self._refused(now), *silent]
        reports = await reported_servers(self._store)
        names = reports.keys() | {each.name for each in (await REGISTERED_SERVERS.read(self._store)).entries}
        worst = {name: worst_report(reports[name]) if name in reports else None for name in sorted(names)}
        away = [
            TroubledServer(
                name=name,
                condition=None if report is None else report.condition,
                error=None if report is None else (report.error or "")[:_MAX_WHY_CHARS] or None,
            )
            for name, report in worst.items()
            if report is None or report.condition != "ready"
        ]
        for what, found in (("troubled_tools", troubled), ("troubled_servers", away)):
            if len(found) > MAX_TROUBLED:
                left_out[what] = len(found) - MAX_TROUBLED
        return ToolsState(
            total=len(tools),
            alive=len(tools) - len(silent),
            troubled=troubled[:MAX_TROUBLED],
            servers=len(worst),
            servers_ready=len(worst) - len(away),
            troubled_servers=away[:MAX_TROUBLED],
        )

    async def _refused(self, now: int) -> list[TroubledTool]:
        """Return the tools whose calls are refused for a while, each with the tenant whose calls are."""
        changed: Sequence[bytes] = await self._store.call("ZREVRANGE", BREAKER_CHANGES, 0, _MAX_BREAKERS - 1)
        names = [name.decode(errors="replace") for name in changed]
        states = await self._store.calls(
            [("HMGET", f"{TOOL_BREAKER}{name}", "until", "row", "reason") for name in names]
        )
        found = list[TroubledTool]()
        for name, (until, row, reason) in zip(names, states, strict=True):
            if until is not None and until.isdigit() and int(until) > now:
                tool, _, tenant = name.rpartition(":")
                why = refusal_text(tool, int(row or 0), (reason or b"").decode(errors="replace"), int(until))
                found.append(TroubledTool(name=tool, tenant_id=tenant, why=why[:_MAX_WHY_CHARS]))
        return found


def _load(model: dict[str, Any], under_way: int | None, waiting: int | None) -> ModelLoad:
    health = model["health"]
    unwell = health["state"] not in ("ok", "unknown")
    return ModelLoad(
        id=model["id"],
        kind=model["kind"],
        default=model["default"],
        state=None if health["state"] == "unknown" else health["state"],
        since=health["since"],
        error=str(health["error"] or "")[:_MAX_WHY_CHARS] or None if unwell else None,
        processes=health["processes"],
        limit=model["concurrency"],
        under_way=under_way,
        waiting=waiting,
    )
