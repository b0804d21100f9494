"""The worker's tool processes: which child runs which call, and what becomes of a child that misbehaves."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from types import MappingProxyType

from pentad.contracts.graphs import GraphSpec
from pentad.contracts.hooks import HookSpec
from pentad.contracts.instructions import Instruction
from pentad.contracts.tools import ToolOutcome, ToolSpec
from pentad.services.tool_worker.children.call import ChildCall
from pentad.services.tool_worker.children.launch import launch
from pentad.services.tool_worker.children.process import ToolProcess
from pentad.services.tool_worker.sources import OnProgress, ToolInvocation
from pentad.shared.child_processes import Backoff
from pentad.shared.plugins.errors import PluginError

CHECK_S = 0.25
"""How often children that have calls are looked at."""
MOST_CHILDREN = 4
"""Children for each asked for, blocked and retiring ones included."""
MOST_OWN = 8
"""Single-call processes at once for each child asked for; more calls wait."""

_log = logging.getLogger("pentad.tools")


class ToolProcesses:
    """A source of tools: those of users, in child processes. Belongs to the event loop that called ``start``."""

    def __init__(
        self,
        plugins: Sequence[str],
        processes: int,
        threads: int,
        variables: Sequence[str] = (),
        *,
        changing: bool = False,
    ) -> None:
        """``changing``: `reload` is called when files of the plug-ins change."""
        self._changing = changing
        self._plugins, self._variables = tuple(plugins), tuple(variables)
        self._processes = processes
        self._threads = threads
        self._tools: dict[str, tuple[ToolSpec, bool]] = {}
        self._specs: Mapping[str, ToolSpec] = MappingProxyType({})
        self.instructions: tuple[Instruction, ...] = ()
        """Instructions that the plugins define, known after ``start``."""
        self.graphs: tuple[GraphSpec, ...] = ()
        """Graphs that the plugins define, known after ``start``."""
        self.hooks: Mapping[str, HookSpec] = MappingProxyType({})
        """Hooks that the plugins define, by name, known after ``start``."""
        self._async_hooks: frozenset[str] = frozenset()
        self._companions: Mapping[str, bool] = MappingProxyType({})
        self.files: tuple[str, ...] = ()
        """Files that the plugins were imported from, known after ``start``."""
        self._imports = 0
        """How often the plugins were to be imported anew."""
        self._children: set[ToolProcess] = set()
        self._calls: set[ChildCall] = set()
        self._openings: set[asyncio.Task[None]] = set()
        self._queues: tuple[deque[ChildCall], deque[ChildCall]] = (deque(), deque())
        self._numbers = count(1)
        self._backoff = Backoff()
        self._ticking = self._stopping = False

    quick = False

    @property
    def tools(self) -> Mapping[str, ToolSpec]:
        """Tools that the plugins define, known after ``start``. User code is never imported into the worker itself."""
        return self._specs

    async def start(self, changed: Callable[[], None]) -> None:
        """Starts the first child; others follow when there is work for them, none when there are no plugins.

        Raises ``PluginError`` with the plugin's own error.
        """
        self._loop, self._on_others = asyncio.get_running_loop(), changed
        self._room = asyncio.Semaphore(self._processes * MOST_OWN)
        if not self._plugins:
            return
        try:
            self._use(await self._open(own=False))
        except BaseException:
            await self.stop(0)
            raise

    def _use(self, child: ToolProcess) -> None:
        """Have the tools, hooks, instructions and graphs that this child has."""
        self._tools, self.instructions, self.graphs = child.tools, child.instructions, child.graphs
        self.files = child.files
        self.hooks = MappingProxyType({name: spec for name, (spec, _) in child.hooks.items()})
        self._async_hooks = frozenset(name for name, (_, is_async) in child.hooks.items() if is_async)
        self._companions = MappingProxyType(child.companions)
        self._specs = MappingProxyType({name: spec for name, (spec, _) in self._tools.items()})

    async def reload(self) -> None:
        """Import the plugins anew: new calls run what their files say now, calls under way finish as they began.

        Raises ``PluginError`` with the plugin's own error, and ``OSError`` when there is no room for a process; what
        was imported before stays in use then.
        """
        self._make_room()
        child = await self._open(own=False, imports=self._imports + 1)
        if self._stopping:
            child.leave()
            return
        self._imports += 1
        self._use(child)
        for old in [each for each in self._children if not each.own and each.imports < self._imports]:
            old.retire("the plug-ins have changed", logging.INFO)
        self._on_others()
        self._dispatch()

    async def run(self, invocation: ToolInvocation, on_progress: OnProgress, *, alone: bool = False) -> ToolOutcome:
        """Runs one call or hook, in a process of its own when it is ``alone`` or its tool is isolated.

        Never raises for what a tool does. Cancelling this coroutine cancels the tool: a task is cancelled, a thread
        abandoned with its process.
        """
        spec, is_async = self._tools.get(invocation.tool, (None, invocation.tool in self._async_hooks))
        is_async = self._companions.get(invocation.name, is_async)
        call = ChildCall(self._loop, next(self._numbers), invocation, not is_async, on_progress)
        if spec is None and invocation.tool not in self.hooks:
            call.finish("error", f"{invocation.title} is unknown here")
        elif self._stopping:
            self._refuse(call)
        elif alone or (spec is not None and spec.isolated):
            return await self._run_alone(call)
        else:
            self._queues[call.threaded].append(call)
            self._dispatch()
        return await self._outcome(call)

    async def stop(self, grace_s: float) -> None:
        """Lets calls finish for ``grace_s`` seconds, then ends every child; unfinished calls are ``interrupted``."""
        self._stopping = True
        if self._calls and grace_s > 0:
            await asyncio.wait([call.future for call in self._calls], timeout=grace_s)
        for opening in self._openings:
            opening.cancel()
        for call in self._calls:
            self._refuse(call)
        for child in list(self._children):
            child.leave()
        for child in list(self._children):
            await child.gone.wait()

    async def _outcome(self, call: ChildCall) -> ToolOutcome:
        self._calls.add(call)
        try:
            return await call.future
        except asyncio.CancelledError:
            if call.child is not None:
                call.child.give_up(call)
            raise
        finally:
            call.stop_timer()
            self._calls.discard(call)

    async def _run_alone(self, call: ChildCall) -> ToolOutcome:
        async with self._room:
            if self._stopping:
                self._refuse(call)
                return await self._outcome(call)
            try:
                child = await self._open(own=True)
            except (PluginError, OSError) as error:
                call.finish("error", f"{call.invocation.title}: no process could be started for it: {error}")
                return await self._outcome(call)
            try:
                child.start(call)
                self._watch()
                return await self._outcome(call)
            finally:
                child.leave()

    def _refuse(self, call: ChildCall) -> None:
        state = "finished" if call.child else "started"
        call.finish("interrupted", f"{call.invocation.title} was not {state}: the tool-worker stops")

    def _dispatch(self) -> None:
        """Hands waiting calls to children, and asks for another child when they have to wait or to share."""
        short = False
        for queue in self._queues:
            while queue:
                call = queue[0]
                child = None if call.over else self._pick(call.threaded)
                if child is None and not call.over:
                    short = True
                    break
                queue.popleft()
                if child is not None:
                    short = short or bool(child.calls)
                    child.start(call)
        self._watch()
        if short:
            self._grow()

    def _pick(self, threaded: bool) -> ToolProcess | None:
        able = [child for child in self._children if child.takes(threaded)]
        return min(able, key=lambda child: len(child.calls), default=None)

    def _changed(self, child: ToolProcess) -> None:
        """A call has ended, or a child's state has changed."""
        if child.gone.is_set():
            self._children.discard(child)
            if not (child.own or child.retired):
                self._backoff.lost(self._loop.time())
        if not child.own and not child.serves:
            self._grow()
        elif not child.calls and self._serving() > self._processes:
            child.leave()
        if any(self._queues):
            self._dispatch()

    def _serving(self) -> int:
        return sum(child.serves for child in self._children)

    def _grow(self) -> None:
        """Starts another child if fewer than asked for take calls, within a bound."""
        if self._stopping or self._serving() + len(self._openings) >= self._processes:
            return
        if not self._make_room():
            return
        opening = self._loop.create_task(self._add_child())
        self._openings.add(opening)
        opening.add_done_callback(self._openings.discard)

    def _make_room(self) -> bool:
        """Return whether there may be another child; if not, a retired one is ended."""
        shared = [child for child in self._children if not child.own]
        if len(shared) < self._processes * MOST_CHILDREN:
            return True
        retired = [child for child in shared if child.retired]
        if retired:
            least = min(retired, key=lambda child: child.served)
            least.kill("it was ended to make room: too many processes hold calls that do not end")
        return False

    async def _add_child(self) -> None:
        while True:
            await asyncio.sleep(self._backoff.delay(self._loop.time()))
            self._backoff.started(self._loop.time())
            try:
                child = await self._open(own=False)
                if child.imports == self._imports:
                    break
                child.leave()  # it has imported what was there before the last change
            except (PluginError, OSError) as error:
                self._backoff.lost(self._loop.time())
                _log.error("a process for tools could not be started: %s", error)
        self._dispatch()

    async def _open(self, *, own: bool, imports: int | None = None) -> ToolProcess:
        launched = launch(self._plugins, self._threads, self._variables, changing=self._changing)
        child = ToolProcess(launched, self._threads, self._changed, own)
        child.imports = self._imports if imports is None else imports
        self._children.add(child)
        try:
            await child.open()
        except PluginError:
            await child.gone.wait()
            raise
        return child

    def _watch(self) -> None:
        if not self._ticking:
            self._ticking = True
            self._loop.call_later(CHECK_S, self._tick)

    def _tick(self) -> None:
        busy = [child for child in self._children if child.calls]
        for child in busy:
            child.check()
        self._ticking = False
        if busy:
            self._watch()
