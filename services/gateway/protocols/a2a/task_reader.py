"""Reads tasks for clients of A2A."""

from collections.abc import Mapping

from a2a.types.a2a_pb2 import Artifact, Part, Task, TaskState, TaskStatus

from pentad.contracts.approvals import PendingApproval
from pentad.contracts.records import Task as PentadTask
from pentad.services.gateway.protocols.a2a.task_view import (
    ENDED_STATES,
    TranscriptTail,
    artifact_id,
    state_of,
    status_of_task,
    task_of,
    timestamp_of,
)
from pentad.services.gateway.tasks.approvals import Approvals
from pentad.services.gateway.tasks.queries import Queries

_MAX_ENTRIES = 400
"""Entries of a transcript, the newest, of which a task is shown."""


class TaskReader:
    """Reads tasks of a tenant. Raises ``OutageError`` and ``DamagedError``. ``address``: that of the gateway."""

    def __init__(self, queries: Queries, approvals: Approvals) -> None:
        self._queries, self._approvals = queries, approvals

    async def read(self, tenant: str, task: PentadTask, address: str, history: int | None) -> Task:
        """Return a task as it is now. ``history``: messages that the client wants; None: as many as there are."""
        return task_of(
            task, await self._transcript(tenant, task.task_id), await self.asked(tenant, task), address, history
        )

    async def outline(self, tenant: str, task: PentadTask, address: str) -> Task:
        """Return a task without what was said in it."""
        return task_of(task, TranscriptTail(0, ()), await self.asked(tenant, task), address, 0)

    async def status(self, tenant: str, task: PentadTask) -> TaskStatus:
        """Return the status of a task as it is now, with what it waits for."""
        return status_of_task(task, await self._transcript(tenant, task.task_id), await self.asked(tenant, task))

    async def as_begun(
        self, tenant: str, task: str, address: str, history: int | None, message_id: str | None
    ) -> Task | None:
        """Return a task as it is when a turn of it begins: with what was said before, up to the turn's message."""
        found = await self._queries.task(tenant, task)
        if found is None:
            return None
        transcript = (await self._transcript(tenant, task)).until(message_id)
        shown = task_of(found, transcript, (), address, history)
        state = TaskState.TASK_STATE_SUBMITTED if found.status == "pending" else TaskState.TASK_STATE_WORKING
        shown.status.CopyFrom(TaskStatus(state=state, timestamp=timestamp_of(found.updated_at)))
        return shown

    async def as_followed(self, tenant: str, task: str, address: str, texts: Mapping[int, str]) -> Task | None:
        """Return a task for who follows it from now on. ``texts``: those of steps as far as they were streamed."""
        found = await self._queries.task(tenant, task)
        if found is None:
            return None
        shown = await self.read(tenant, found, address, None)
        if state_of(found.status) in ENDED_STATES:
            return shown
        known = {artifact.artifact_id: artifact for artifact in shown.artifacts}
        for step, text in texts.items():
            known[artifact_id(step)] = Artifact(artifact_id=artifact_id(step), parts=[Part(text=text)])
        del shown.artifacts[:]
        shown.artifacts.extend(known.values())
        return shown

    async def asked(self, tenant: str, task: PentadTask) -> list[PendingApproval]:
        """Return the calls of a task that wait for a decision."""
        if task.status not in ("waiting", "stale"):
            return []
        return await self._approvals.of_task(tenant, task.task_id)

    async def _transcript(self, tenant: str, task: str) -> TranscriptTail:
        return TranscriptTail(*await self._queries.last_entries(tenant, task, _MAX_ENTRIES))
