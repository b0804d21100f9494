"""Runs hooks: one request, one reply to the task-runner that waits for it; the end of a task is told without one."""

import asyncio
from dataclasses import replace

from pentad.contracts.hooks import MAX_SUBJECT_BYTES, HookCommand, HookReply
from pentad.contracts.ids import milliseconds
from pentad.contracts.streams import HOOKS_REPLY, split_key
from pentad.contracts.tools import ToolOutcome
from pentad.services.tool_worker.children.pool import ToolProcesses
from pentad.services.tool_worker.sources import ToolInvocation
from pentad.shared import metrics
from pentad.shared.clipping import clip
from pentad.shared.errors import PentadError, PoisonError
from pentad.shared.plugins.context import ToolContext
from pentad.shared.plugins.hooks import facts_of
from pentad.shared.store.store import Store
from pentad.shared.work.entry import Entry

HOOKS_AT_ONCE = 64
"""Hooks of one shard that run at once; more wait in the stream."""
_MAX_REQUEST_BYTES = 2 * MAX_SUBJECT_BYTES + 65_536
"""Bytes of a request: its subject is JSON within JSON."""
_HOLD_S = 0.1
"""Seconds for which a hook that is not here is held before another worker is offered it."""
_REPLY_TTL_S = 60
_MAX_ERROR = 4_000


class UntoldHookError(PentadError):
    """A hook that is told of a task's end has failed. It is told again, and set aside in the end."""


class HookServer:
    """Runs the hooks of the plug-ins in their child processes."""

    def __init__(self, store: Store, processes: ToolProcesses) -> None:
        self._store, self._processes = store, processes

    async def handle(self, entry: Entry) -> None:
        """Run the hook, unless nobody waits for it any more. A hook that is not here goes to another worker."""
        if len(entry.data) > _MAX_REQUEST_BYTES:
            raise PoisonError(f"a request for a hook of {len(entry.data)} bytes: {_MAX_REQUEST_BYTES} at most")
        command = entry.parse(HookCommand)
        place = split_key(entry.stream)
        prefix = HOOKS_REPLY.key(place[0] if place else 0, reply="")
        if command.reply_to is not None and not command.reply_to.startswith(prefix):
            raise PoisonError(f"reply_to must be a reply stream of this shard, not {command.reply_to!r}")
        left_ms = milliseconds(command.at) + command.wait_ms - await self._store.clock()
        if left_ms <= 0:
            if command.reply_to is None:
                raise PoisonError(f"no tool-worker has had hook {command.hook!r} for too long")
            return
        if command.hook not in self._processes.hooks:
            await asyncio.sleep(_HOLD_S)
            await self._store.call("XADD", entry.stream, "*", "data", entry.data)
            metrics.published.labels("hooks", HookCommand.__name__).inc()
            return
        outcome = await self._outcome(command)
        metrics.hooks.labels(command.kind, outcome.counted_as).inc()
        if command.reply_to is not None:
            await self._reply(command.reply_to, command, outcome)
        elif not outcome.ok:
            raise UntoldHookError(outcome.text)

    async def _outcome(self, command: HookCommand) -> ToolOutcome:
        """Run the hook; once more in a process of its own when a neighbour has brought its process down."""
        context = ToolContext(
            tool_call_id=command.request_id[:12],
            tenant_id=command.tenant_id,
            task_id=command.facts.task_id,
        )
        args = {"subject": command.subject, "facts": facts_of(command.facts)}
        invocation = ToolInvocation(command.hook, args, command.timeout, context, word="hook")
        outcome = await self._processes.run(invocation, _unheard)
        if outcome.kind == "interrupted":
            outcome = await self._processes.run(invocation, _unheard, alone=True)
        return outcome if outcome.ok else replace(outcome, text=clip(outcome.text, _MAX_ERROR))

    async def _reply(self, reply_to: str, command: HookCommand, outcome: ToolOutcome) -> None:
        value = outcome.text if outcome.ok and outcome.text != "null" else None
        reply = HookReply(request_id=command.request_id, value=value, error=outcome.error)
        await self._store.run("reply", [reply_to], [reply.to_json(), _REPLY_TTL_S])
        metrics.published.labels(HOOKS_REPLY.name, HookReply.__name__).inc()


def _unheard(_: str, __: float | None) -> None:
    """Discard progress: hooks report none."""
