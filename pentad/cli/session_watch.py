"""Keeps what a pane shows of a session current: its tasks, and the tool calls that wait for a person."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from pentad.cli.side_pane import SidePane
from pentad.client.inspection import Inspection
from pentad.contracts.approvals import PendingApproval
from pentad.contracts.events import (
    ApprovalEvent,
    ApprovalRequest,
    MessageMoved,
    MessageRouted,
    SessionEvent,
    TaskEnd,
    TaskStart,
    TaskStatusEvent,
    ToolCallEvent,
    ToolResultEvent,
)
from pentad.errors import ClientError, NotFound

_IDLE_S = 3.0
"""Seconds between two looks while nothing is heard: others may decide, and time goes on."""
_PAUSE_S = 0.3
"""Seconds between two looks at least, however much happens."""
_TASKS_SHOWN = 50
_TELLING = (
    *(ApprovalEvent, ApprovalRequest, MessageMoved, MessageRouted, TaskEnd, TaskStart, TaskStatusEvent),
    *(ToolCallEvent, ToolResultEvent),
)
"""Events after which there is something else to be shown."""


class SessionWatch:
    """Looks at a session as long as it runs. ``redraw`` is called after each look."""

    def __init__(self, inspection: Inspection, session_id: str, pane: SidePane, redraw: Callable[[], None]) -> None:
        self._inspection, self._session, self._pane, self._redraw = inspection, session_id, pane, redraw
        self._news = asyncio.Event()

    def hear(self, event: SessionEvent) -> None:
        """Look soon if this event has changed what is shown."""
        if isinstance(event, _TELLING):
            self._news.set()

    async def run(self) -> None:
        """Look for ever."""
        while True:
            self._news.clear()
            try:
                tasks = await self._inspection.tasks(session_id=self._session, limit=_TASKS_SHOWN)
                self._pane.show(tasks, await waiting_in(self._inspection, self._session))
            except ClientError as error:
                self._pane.trouble = f"may be old: {error}"
            self._redraw()
            await asyncio.sleep(_PAUSE_S)
            with suppress(TimeoutError):
                async with asyncio.timeout(_IDLE_S):
                    await self._news.wait()


async def waiting_in(inspection: Inspection, session_id: str) -> list[PendingApproval]:
    """Return the tool calls of a session that wait for a person; none where the gateway knows no approvals.

    Raises ``ClientError``.
    """
    try:
        found = await inspection.approvals(limit=None)
    except NotFound:
        return []
    return [each for each in found if each.session_id == session_id]
