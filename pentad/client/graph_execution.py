"""A run of a graph that a program has begun: looked at, controlled, and followed to its result."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Literal

from pentad.client.callbacks import RunCallbacks, RunTelling, called
from pentad.client.client_tools import BroughtToolRuns
from pentad.client.feed import Feed, Received
from pentad.client.inspection import Inspection
from pentad.client.management import Management
from pentad.client.text import answer_in
from pentad.client.turns import identifier
from pentad.contracts.events import MessageEvent, SessionEvent, Snapshot, TaskEnd, TaskStatusEvent
from pentad.contracts.graphs import GraphSpec
from pentad.contracts.paths import NodeVisit
from pentad.contracts.records import Task
from pentad.contracts.runs import RunCall
from pentad.contracts.turns import ASKED, NEEDS_CLIENT
from pentad.errors import Conflict, NotAuthorized, NotFound, Refused, RunWaits
from pentad.shared.instructions.instruction_list import version_of

ExecutionStatus = Literal["PENDING", "RUNNING", "COMPLETED", "CANCELLED", "ERROR"]
"""Status of a run. One that waits for a person, or is paused, is ``RUNNING``."""
_STATUS: Mapping[str, ExecutionStatus] = {
    "pending": "PENDING",
    "completed": "COMPLETED",
    "cancelled": "CANCELLED",
    "failed": "ERROR",
}
_PAUSED = "paused"
_REGISTERED_S = 2.0
"""Seconds after which all services know of a graph that was registered in the place of another."""
MAX_TASKS = 1_000
"""Tasks of one run whose tool calls are listed."""
OpenFeed = Callable[[str | None], Feed]
"""Opens the events of the run's session after a cursor."""
Say = Callable[[str, str], Awaitable[None]]
"""Says a text to a task, and returns when the task has it."""


@dataclass(frozen=True, slots=True)
class GraphResult:
    """The result of a graph's run, after its end."""

    final_state: Mapping[str, Any]
    """State at the end."""
    execution_path: tuple[NodeVisit, ...]
    """Nodes that the run has come to, in order, each with its times, outcome and the tasks that it started."""
    success: bool
    """Whether the run has completed: not if it has failed or was cancelled."""
    final_message: str | None
    """Text with which the run has completed; None for any other end."""
    iterations: int
    """Number of nodes that the run has come to."""
    error: str | None = None
    """Reason why the run has not completed; None if it has."""


class GraphExecution:
    """A run of a graph. Its methods may be called at any time, in any order, also after its end.

    Iterate over it for the events of the run and of the tasks that it starts, from the beginning to the end.
    """

    def __init__(
        self,
        task: Task,
        begun_at: str | None,
        open_feed: OpenFeed,
        say: Say,
        inspection: Inspection,
        management: Management,
        callbacks: RunCallbacks,
        tools: BroughtToolRuns,
    ) -> None:
        """``begun_at``: cursor of the session's events before the run. ``tools``: runs the program's own."""
        self.execution_id = task.task_id
        """Id of the task that runs the graph."""
        self.session_id = task.session_id
        self.start_time = task.created_at
        """Time at which the run began: RFC 3339."""
        self._begun_at, self._open_feed, self._say = begun_at, open_feed, say
        self._inspection, self._management = inspection, management
        self._callbacks, self._telling, self._tools = callbacks, RunTelling(callbacks), tools
        self._tree = _Tree(self.execution_id)
        self._cursor = begun_at
        """Place in the session's events up to which `result` has followed the run."""
        self._waits: RunWaits | None = None
        self._given_up = False
        """Whether the run is being cancelled: what it asks needs no answer any more."""
        self._completed = False
        """Whether ``on_complete`` was called."""

    async def status(self) -> ExecutionStatus:
        """Return the status of the run. Raises ``ClientError``."""
        return _STATUS.get((await self._task()).status, "RUNNING")

    async def iteration_count(self) -> int:
        """Return the number of nodes that the run has come to. Raises ``ClientError``."""
        return (await self._inspection.path(self.execution_id)).iterations

    async def pause(self) -> None:
        """Pause the run with all tasks that it has started. Raises ``Conflict`` after its end, and ``ClientError``."""
        await self._management.pause_task(self.execution_id)

    async def resume(self) -> None:
        """Let a paused run go on where it was. Raises ``Conflict`` after its end, and ``ClientError``."""
        await self._management.resume_task(self.execution_id)

    async def abort(self) -> None:
        """Cancel the run with all tasks that it has started. Raises ``Conflict`` after its end, and ``ClientError``."""
        await self._management.cancel_task(self.execution_id)
        self._given_up = True

    async def get_tool_calls(self) -> list[RunCall]:
        """Return the tool calls of the run and of the tasks that it has started, in the order in which they were made.

        Raises ``ClientError``.
        """
        calls: list[RunCall] = []
        waiting = [self.execution_id]
        for looked_at in range(MAX_TASKS):
            if looked_at >= len(waiting):
                break
            try:
                steps = await self._inspection.steps(waiting[looked_at], limit=None)
            except NotFound:  # erased since
                continue
            calls += [call for step in steps for call in step.calls]
            waiting += await self._started_by(waiting[looked_at])
        return sorted(calls, key=lambda call: call.at or "")

    async def add_message(self, text: str, *, task_id: str | None = None) -> None:
        """Say something to the run: the answer to its question, or words that its next step sees.

        ``task_id``: a task that the run has started, whose question is answered. Raises ``Refused`` for what cannot be
        sent or is not taken, and ``ClientError``.
        """
        waits, named = self._waits, None if task_id is None else identifier("task_id", task_id)
        asks = waits.task_id if waits is not None and waits.question is not None else self.execution_id
        await self._say(text, named or asks)
        if (named or asks) == self.execution_id:
            self._tree.over = False  # a message to a run that has ended begins another
        if waits is not None and (named or asks) == waits.task_id:
            self._waits = None

    async def result(self) -> GraphResult:
        """Wait for the end of the run, and return its result, also of one that has failed or was cancelled.

        The callbacks and the functions that were given to ``execute`` are called meanwhile; when this is left before
        its end, calls of functions are given up, and begin anew when it is called again. Raises ``RunWaits`` when it
        cannot go on without a person, with the question: answer by `add_message`, and call this again. A paused run is
        waited for. Raises ``ClientError``.
        """
        if self._waits is not None and await self._still_waits(self._waits.task_id):
            raise self._waits
        self._waits = None
        self._tools.resume()
        try:
            await self._come_to_the_end()
        finally:
            await self._tools.stop()
        result = await self._result()
        if result.success and not self._completed:
            self._completed = True
            await called(self._callbacks.on_complete, result)
        return result

    async def _come_to_the_end(self) -> None:
        """Follow the run to its end, with its callbacks and functions. Raises ``RunWaits`` and ``ClientError``."""
        async with aclosing(self._follow(self._cursor, self._tree, self._tools)) as events:
            async for received in events:
                self._cursor = received.cursor or self._cursor
                self._tools.follow(received.event)
                await self._telling.tell(received.event)
                if (waits := await self._needs(received.event, self._tree)) is not None:
                    self._waits = waits
                    raise waits

    async def __aiter__(self) -> AsyncGenerator[SessionEvent, None]:
        """Iterate over the events of the run and of the tasks that it has started, as far as they are kept."""
        async with aclosing(self._follow(self._begun_at, _Tree(self.execution_id))) as events:
            async for received in events:
                yield received.event

    async def _follow(
        self, after: str | None, tree: "_Tree", tools: BroughtToolRuns | None = None
    ) -> AsyncGenerator[Received, None]:
        """Iterate over the run's events after a cursor, up to the end of the run. Raises ``ClientError``."""
        if tree.over:
            return
        async with aclosing(self._open_feed(after).received()) as feed:
            while True:
                received = await (anext(feed) if tools is None else tools.beside(anext(feed)))
                event = received.event
                if isinstance(event, Snapshot):  # events are gone, perhaps the end, too
                    tree.over = (await self._task()).completed_at is not None
                elif not tree.takes(event):
                    continue
                yield received
                if tree.over:
                    return

    async def _needs(self, event: SessionEvent, tree: "_Tree") -> RunWaits | None:
        """Return what the run needs of a person, if the event says so and it is still so."""
        for task, reason, said in tree.waiting_in(event):
            is_answered = reason == NEEDS_CLIENT and self._tools.answer_all and not isinstance(event, Snapshot)
            if is_answered or reason == _PAUSED:
                continue
            await self._tools.finish()  # it waits for somebody else as well
            if await self._still_waits(task):
                return RunWaits(self.execution_id, task, reason, said if reason == ASKED else None)
        return None

    async def _still_waits(self, task_id: str) -> bool:
        if self._given_up:
            return False
        try:
            return (await self._inspection.task(task_id)).status == "waiting"
        except NotFound:
            return False

    async def _started_by(self, task_id: str) -> Sequence[str]:
        try:
            path = await self._inspection.path(task_id)
        except (NotFound, Conflict):  # it runs an instruction
            return ()
        return [task.task_id for visit in path.path for task in visit.tasks]

    async def _task(self) -> Task:
        return await self._inspection.task(self.execution_id)

    async def _result(self) -> GraphResult:
        task, path = await self._task(), await self._inspection.path(self.execution_id)
        success = task.status == "completed"
        return GraphResult(
            final_state=path.state,
            execution_path=tuple(path.path),
            success=success,
            final_message=path.final_message,
            iterations=path.iterations,
            error=None if success else ": ".join(filter(None, (task.reason or task.status, task.detail))),
        )


class _Tree:
    """The run and the tasks that it has started, as far as events have told."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._tasks = {root}
        self.said: dict[str, str] = {}
        """The last text of each task."""
        self.over = False

    def takes(self, event: SessionEvent) -> bool:
        """Process the session's next event, and return whether it is of the run."""
        task = event.task_id
        if task is None or not (task in self._tasks or event.parent_task_id in self._tasks):
            return False
        self._tasks.add(task)
        if isinstance(event, MessageEvent):
            self.said[task] = event.content
        if isinstance(event, TaskEnd):
            self.said.pop(task, None)
            self.over = task == self._root
        return True

    def waiting_in(self, event: SessionEvent) -> list[tuple[str, str, str]]:
        """Return the tasks that wait for a person by this event, each with the reason and its last text."""
        if isinstance(event, TaskStatusEvent) and event.status == "waiting":
            task = event.task_id or self._root
            return [(task, event.reason, self.said.get(task, ""))]
        if not isinstance(event, Snapshot):
            return []
        ours = [task for task in event.tasks if {task.get("task_id"), task.get("parent_task_id")} & self._tasks]
        waiting = [task for task in ours if task.get("status") == "waiting"]
        reasons = [(str(task["task_id"]), ", ".join(map(str, task.get("waiting_for") or ()))) for task in waiting]
        return [(task, reason, answer_in(event, task)) for task, reason in reasons]


async def register_anew(inspection: Inspection, management: Management, spec: GraphSpec) -> None:
    """Register a graph unless the system has this very version of it. Raises ``Refused`` and ``ClientError``."""
    try:
        known = (await inspection.graph(spec.name))["version"]
    except NotFound:
        known = None
    if known == version_of(spec):
        return
    try:
        await management.register_graph(spec)
    except (Refused, NotAuthorized) as error:
        raise Refused(
            f"graph {spec.name!r} is not registered in this version, and cannot be: {error}. Have it registered by "
            "whoever has the admin key, or connect with admin_key="
        ) from None
    if known is not None:  # until all services know of it, the version before would run
        await asyncio.sleep(_REGISTERED_S)


def content_of(
    content: str | None, initial_state: Mapping[str, Any] | None, description: str
) -> tuple[str, dict[str, Any]]:
    """Return the message and the state with which a run begins.

    ``history`` and ``context`` of an initial state are no values: they are messages. Raises ``Refused`` for messages
    that a new run cannot have.
    """
    state = dict(initial_state or {})
    history, context = [_messages(name, state.pop(name, None)) for name in ("history", "context")]
    earlier = [*history, *context[:-1]]
    if earlier:
        raise Refused(
            "initial_state: a new run has no earlier messages: name in session_id= the conversation that has them, put "
            "them into the state under another key, and give in context the one message that the run is about"
        )
    if not context:
        return content or description or "Begin.", state
    if context[0].get("role") != "user" or not isinstance(context[0].get("content"), str):
        raise Refused('initial_state: context has one message of a user: {"role": "user", "content": "..."}')
    if content is not None:
        raise Refused("give content= or a message in initial_state['context'], not both")
    return context[0]["content"], state


def _messages(name: str, given: Any) -> list[Mapping[str, Any]]:
    """Return messages of an initial state. Raises ``Refused``."""
    if given is None:
        return []
    if not isinstance(given, Sequence) or isinstance(given, str) or not all(isinstance(m, Mapping) for m in given):
        raise Refused(f"initial_state: {name} is a list of messages, as {{'role': 'user', 'content': '...'}}")
    return list(given)
