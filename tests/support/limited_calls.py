"""Calls of tools with limits, put straight into their queue, and what their tools have written of them."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pentad.contracts.commands import ToolCallCommand
from pentad.contracts.streams import TOOL_CALLS
from pentad.contracts.tools import Effect
from pentad.services.tool_worker.app import ToolWorker, build
from pentad.shared.actors.mail import ResultMail
from pentad.shared.keys import TaskKeys
from pentad.shared.settings import Settings
from pentad.shared.store.store import Store
from tests.support.waiting import wait_until

PLUGIN = "tests.support.plugins.limited_tools"
_EFFECTS = {"one_unsafe": Effect.UNSAFE, "flaky": Effect.PURE, "always_tried": Effect.PURE}


@dataclass(frozen=True)
class Ran:
    """One run of a tool, as it wrote it down itself."""

    call: str
    tenant: str
    start: float
    end: float
    """Infinite where it was killed."""
    worker: int
    """Id of the worker's process."""


class Calls:
    """The calls of a test: each tenant has one task."""

    def __init__(self, store: Store, ledger: Path, shard: int = 0) -> None:
        self.store, self.ledger, self.shard = store, ledger, shard
        self.asked: list[tuple[str, str]] = []

    def keys(self, tenant: str = "default") -> TaskKeys:
        return TaskKeys(self.shard, tenant, f"task-{self.shard}-{tenant}")

    async def ask(
        self, tool: str, count: int = 1, tenant: str = "default", queue: str = "default", **args: Any
    ) -> None:
        """Put so many calls into the queue, as a step does."""
        keys = self.keys(tenant)
        await self.store.call("HSET", keys.header, "status", "active", "session", "s1")
        commands: list[tuple[Any, ...]] = []
        for _ in range(count):
            call = f"call-{self.shard}-{tenant}-{len(self.asked)}"
            self.asked.append((tenant, call))
            given: dict[str, Any] = {"event_id": call, "at": "now", "tenant_id": tenant, "session_id": "s1", "step": 1}
            given |= {
                "task_id": keys.task,
                "tool_call_id": call,
                "tool": tool,
                "args": {"ledger": str(self.ledger)} | args,
            }
            command = ToolCallCommand(**given, effect=_EFFECTS.get(tool, Effect.IDEMPOTENT), timeout=60)
            stream = TOOL_CALLS.key(self.shard, queue=queue)
            commands += [("HSET", keys.calls, call, "open 0"), ("XADD", stream, "*", "data", command.to_json())]
        await self.store.calls(commands)

    async def results(self) -> dict[str, str]:
        """Return what the calls that have ended have told, by their ids."""
        told: dict[str, str] = {}
        for tenant in {tenant for tenant, _ in self.asked}:
            for mail in await self.store.call("ZRANGE", self.keys(tenant).signals, 0, -1):
                result = ResultMail.model_validate_json(mail.split(b" ", 2)[2])
                assert result.tool_call_id not in told, "a call has one result"
                told[result.tool_call_id] = result.content
        return told

    async def ended(self, count: int | None = None) -> dict[str, str]:
        """Wait until so many calls have their results, by default all."""
        wanted = len(self.asked) if count is None else count

        async def enough() -> dict[str, str]:
            told = await self.results()
            return told if len(told) >= wanted else {}

        return await wait_until(f"{wanted} results", enough)

    def runs(self) -> list[Ran]:
        """Return the runs so far, in the order of their starts."""
        if not self.ledger.exists():
            return []
        open_runs: dict[str, Ran] = {}
        found: list[Ran] = []
        for line in self.ledger.read_text().splitlines():
            word, at, tenant, call, worker = line.split(" ")
            if word == "start":
                if call in open_runs:
                    found.append(open_runs.pop(call))
                open_runs[call] = Ran(call, tenant, float(at), float("inf"), int(worker))
            else:
                begun = open_runs.pop(call)
                found.append(Ran(call, tenant, begun.start, float(at), int(worker)))
        return sorted([*found, *open_runs.values()], key=lambda ran: ran.start)


def with_kills(runs: Sequence[Ran], kills: Mapping[int, float]) -> list[Ran]:
    """Return the runs with the ends of those that were killed. ``kills``: times, by the id of the worker's process."""
    return [replace(ran, end=min(ran.end, kills.get(ran.worker, ran.end))) for ran in runs]


def most_at_once(runs: Sequence[Ran]) -> int:
    """Return how many ran at one instant at most."""
    return max((sum(other.start <= ran.start < other.end for other in runs) for ran in runs), default=0)


def most_within(runs: Sequence[Ran], seconds: float) -> int:
    """Return how many began within so many seconds at most."""
    return max((sum(0 <= other.start - ran.start < seconds for other in runs) for ran in runs), default=0)


def rounds_until(runs: Sequence[Ran], tenant: str) -> int:
    """Return how many runs of other tenants began before the first of this one."""
    return next(n for n, ran in enumerate(runs) if ran.tenant == tenant)


@asynccontextmanager
async def workers(store: Store, count: int, **settings: Any) -> AsyncIterator[list[ToolWorker]]:
    """So many tool-workers in this process, each with a child process for its tools."""
    made = [
        build(Settings(redis_url=store.url, pentad_plugins=(PLUGIN,), pentad_tool_processes=1, **settings))
        for _ in range(count)
    ]
    await asyncio.gather(*(worker.start() for worker in made))
    try:
        yield made
    finally:
        await asyncio.gather(*(worker.stop() for worker in made))


def by_tenant(runs: Sequence[Ran]) -> Counter[str]:
    """Count the runs of each tenant."""
    return Counter(ran.tenant for ran in runs)
