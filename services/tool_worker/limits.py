"""Limits of tools over all workers: a call that may not run yet is laid aside, and nobody holds it meanwhile."""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from secrets import token_hex
from typing import Literal

from pentad.contracts.commands import ToolCallCommand
from pentad.contracts.ids import is_identifier
from pentad.contracts.streams import TOOL_CALLS, split_key
from pentad.contracts.tools import CallLimit, Rate, ToolSpec
from pentad.services.tool_worker.errands import Errands
from pentad.shared import metrics
from pentad.shared.errors import PoisonError
from pentad.shared.immutable import immutable
from pentad.shared.keys import TaskKeys, task_parts, tool_limit, waiting_calls
from pentad.shared.presence.published import TOOLS
from pentad.shared.store.beats import beat_s
from pentad.shared.store.store import Argument, Store
from pentad.shared.telemetry import ThrottledLog
from pentad.shared.work.entry import Entry

_say = ThrottledLog(logging.getLogger(__name__))

_PLACE_LEASES = 3
"""Leases for which a place is kept without a beat."""
_START_MARGIN_MS = 100
"""Milliseconds that a rate's window is longer here: a call is counted a moment before its function begins."""
_IDLE_S = 5.0
"""Seconds between two looks at a limit that nobody waits for, and at the calls that were laid aside."""
_MAX_LOOKED_AT = 100
"""Calls of a shard that one look at those that were laid aside reads."""
_QUEUE = "tools:"

Operation = Literal["enter", "line_up", "leave", "beat", "look"]
Verdict = Literal["runs", "waits", "closed", "taken"]
"""Answer to a call that wants to run: it does, it was laid aside, it was closed, or another worker has it."""


@immutable
class CallReference:
    """A call as the limits know it."""

    shard: int
    queue: str
    actor: str
    """The task that has asked for it, ``TENANT/TASK``."""
    call: str
    round: int
    """How often it was suspended: it then comes again."""

    @classmethod
    def of(cls, entry: Entry, command: ToolCallCommand) -> "CallReference":
        """Return the reference of the call of an entry."""
        shard, rest = split_key(entry.stream) or (0, f"{_QUEUE}default")
        actor = f"{command.tenant_id}/{command.task_id or ''}"
        if not is_identifier(command.tool_call_id):
            raise PoisonError("tool_call_id: it is no id of a tool call")
        return cls(shard, rest.removeprefix(_QUEUE), actor, command.tool_call_id, command.round)

    @classmethod
    def read(cls, text: str) -> "CallReference":
        """Return the reference that a text is. Raises ``ValueError``."""
        shard, queue, actor, call, round_ = text.split(" ")
        task_parts(actor)
        return cls(int(shard), queue, actor, call, int(round_))

    @property
    def text(self) -> str:
        return f"{self.shard} {self.queue} {self.actor} {self.call} {self.round}"

    @property
    def keys(self) -> TaskKeys:
        """Keys of its task."""
        return TaskKeys(self.shard, *task_parts(self.actor))

    @property
    def stream(self) -> str:
        """Key of its queue."""
        return TOOL_CALLS.key(self.shard, queue=self.queue)


class ToolLimits:
    """Keeps to the limits of this worker's tools, together with all other workers. Belongs to one event loop."""

    def __init__(self, store: Store, shards: Sequence[int], lease_ms: int, consumer_name: str) -> None:
        self._store, self._shards, self._lease_ms = store, shards, lease_ms
        self._consumer_name = consumer_name
        assert TOOL_CALLS.group is not None
        self._group = TOOL_CALLS.group
        self._worker = token_hex(16)
        self._tools: Mapping[str, CallLimit | None] = {}
        """Limits of the tools that are here, by the tool's name."""
        self._held: dict[str, CallLimit] = {}
        """Calls that have a place and run here, by their reference."""
        self._look_at: dict[str, float] = {}
        """Loop time of the next look at each limit, by its name."""
        self._changed = asyncio.Event()
        self._errands = Errands(store, "limits of tools")
        self._cursors: dict[int, Argument] = {}

    def use(self, specs: Iterable[ToolSpec]) -> None:
        """Keep to the limits of these tools from now on."""
        self._tools = {spec.name: spec.limit for spec in specs}
        names = {limit.name for limit in self._tools.values() if limit is not None}
        self._look_at = {name: self._look_at.get(name, 0.0) for name in names}
        self._changed.set()

    # A call

    async def admit(self, limit: CallLimit, entry: Entry, command: ToolCallCommand) -> Verdict:
        """Take a place for a call; one for which there is none is laid aside. Raises ``OutageError``."""
        ref = CallReference.of(entry, command)
        if await self._tell(limit, "enter", ref.text):
            self._held[ref.text] = limit
            return "runs"
        args: list[Argument] = [ref.call, entry.id, self._group, self._consumer_name, command.effect]
        names = [ref.keys.calls, entry.stream, waiting_calls(ref.shard)]
        parked = await self._store.run("call_park", names, [*args, f"{ref.queue} ".encode() + entry.data])
        if parked == b"ok":
            await self._tell(limit, "line_up", ref.text)
            return "waits"
        if parked == b"closed":
            return "closed"
        # One that has started and may not start twice is not made: what has become of it is found out.
        return "runs" if parked == b"started" else "taken"

    def leave(self, entry: Entry, command: ToolCallCommand, *, keep: bool = False) -> None:
        """Give the place of a call back. ``keep``: it may come again in a moment, and keeps its place for a lease."""
        ref = CallReference.of(entry, command).text
        limit = self._held.pop(ref, None)
        if limit is not None and not keep:
            self._errands.run(self._give_back(limit, ref))

    async def _give_back(self, limit: CallLimit, ref: str) -> None:
        await self._tell(limit, "leave", ref)

    async def finish(self) -> None:
        """Tell of the calls that have ended, before the worker stops."""
        await self._errands.finish("a place of a tool call")

    # Turns

    async def _tell(self, limit: CallLimit, operation: Operation, *refs: str, worker: str | None = None) -> bool:
        """Tell Redis, and serve the calls whose turn has come by that. Return whether the call that enters may run."""
        rate = Rate(0, 0) if limit.rate is None else Rate.parse(limit.rate)
        args: list[Argument] = [operation, limit.concurrency or 0, rate.calls, rate.window_ms + _START_MARGIN_MS]
        args += [_PLACE_LEASES * self._lease_ms, self._worker if worker is None else worker, *refs]
        runs, wait_ms, waiting, *told = await self._store.run("tool_limit", tool_limit(limit.name), args)
        self._plan(limit.name, wait_ms, looked=operation == "look")
        if waiting >= 0:
            metrics.tool_waiting.labels(limit.name).set(waiting)
        for ref in told:
            self._errands.run(self._serve(limit, ref.decode()))
        return bool(runs)

    def _plan(self, name: str, wait_ms: int, *, looked: bool) -> None:
        """Plan the next look at a limit; what is told between two looks can only make it sooner."""
        now = asyncio.get_running_loop().time()
        due = now + (_IDLE_S if wait_ms < 0 else wait_ms / 1000)
        if name in self._look_at and (looked or due < self._look_at[name]):
            self._look_at[name] = due
            self._changed.set()

    async def _serve(self, limit: CallLimit, ref: str) -> None:
        """Put a call back into its queue whose turn has come."""
        found = CallReference.read(ref)
        names = [waiting_calls(found.shard), found.keys.calls, found.stream]
        became = await self._store.run("call_unpark", names, [found.call])
        if became == b"ok":
            metrics.published.labels(TOOL_CALLS.name, ToolCallCommand.__name__).inc()
        elif became == b"closed":
            await self._tell(limit, "leave", ref, worker="")

    # Loops

    async def run(self) -> None:
        """Keep the places of running calls, and look for turns that nobody has told of. Runs for ever."""
        loop = asyncio.get_running_loop()
        beat_at = sweep_at = 0.0
        while True:
            now = loop.time()
            if now >= beat_at:
                await self._errands.quietly(self._beat())
                beat_at = now + beat_s(self._lease_ms)
            if now >= sweep_at:
                await self._errands.quietly(self._sweep())
                sweep_at = now + _IDLE_S
            for name in [name for name, due in self._look_at.items() if due <= now]:
                self._look_at[name] = now + _IDLE_S
                await self._errands.quietly(self._look(name))
            await self._sleep_until(min(beat_at, sweep_at, *self._look_at.values()))

    async def _sleep_until(self, due: float) -> None:
        self._changed.clear()
        pause = due - asyncio.get_running_loop().time()
        if pause > 0:
            try:
                await asyncio.wait_for(self._changed.wait(), pause)
            except TimeoutError:
                return

    async def _beat(self) -> None:
        by_limit: dict[CallLimit, list[str]] = {}
        for ref, limit in self._held.items():
            by_limit.setdefault(limit, []).append(ref)
        for limit, refs in by_limit.items():
            await self._tell(limit, "beat", *refs)

    async def _look(self, name: str) -> None:
        limit = next((each for each in self._tools.values() if each is not None and each.name == name), None)
        if limit is not None:
            await self._tell(limit, "look")

    async def _sweep(self) -> None:
        """Look at some of the calls that were laid aside: Redis may have lost that they wait for a turn."""
        for shard in self._shards:
            key = waiting_calls(shard)
            cursor, found = await self._store.call("HSCAN", key, self._cursors.get(shard, 0), "COUNT", _MAX_LOOKED_AT)
            self._cursors[shard] = cursor
            waiting = [
                each for each in map(_waiting_call, found[::2], found[1::2], [shard] * (len(found) // 2)) if each
            ]
            if waiting:
                await self._line_up_again(key, waiting)

    async def _line_up_again(self, key: str, waiting: "Sequence[tuple[str, CallReference]]") -> None:
        names = [key, *(ref.keys.calls for _, ref in waiting)]
        open_ones = await self._store.run("call_waits", names, [ref.call for _, ref in waiting])
        by_limit: dict[CallLimit, list[str]] = {}
        known: set[str] | None = None
        for (tool, ref), is_open in zip(waiting, open_ones, strict=True):
            limit = self._tools.get(tool)
            if limit is not None and is_open:
                by_limit.setdefault(limit, []).append(ref.text)
            elif is_open:
                known = known if known is not None else await TOOLS.names(self._store)
                if tool in self._tools or tool not in known:  # it has no limit any more, or nobody has it
                    await self._store.run("call_unpark", [key, ref.keys.calls, ref.stream], [ref.call])
        for limit, refs in by_limit.items():
            await self._tell(limit, "line_up", *refs)


def _waiting_call(call: bytes, value: bytes, shard: int) -> tuple[str, CallReference] | None:
    """Return the tool of a call that was laid aside, and its reference; None for one that cannot be read."""
    queue, _, data = value.partition(b" ")
    try:
        entry = Entry(TOOL_CALLS.key(shard, queue=queue.decode()), "", data)
        command = entry.parse(ToolCallCommand)
    except (PoisonError, ValueError):
        return None
    return command.tool, CallReference.of(entry, command)
