"""The steps of a task for clients, a page at a time: of a live task from Redis, of an archived one from its record."""

from collections.abc import Awaitable, Callable
from typing import Any

from pentad.contracts.ids import is_identifier
from pentad.contracts.records import StepRecord, TaskRecord
from pentad.services.gateway.domain.task_steps import Entry, StepSpan, spans_of, step_of_span
from pentad.services.gateway.edge.pages import BadPageError, Page
from pentad.services.gateway.tasks.queries import Queries
from pentad.shared.event_loop import turn_after

MAX_PAGE_CHARS = 4 << 20
"""Characters of messages after which a page takes no further step: a step may have long ones."""
_MAX_CURSOR_DIGITS = 9
_MAX_LATE = 1_000
"""Entries behind the last answer that are searched for the results of its calls."""
Read = Callable[[int, int], Awaitable[list[dict[str, Any]]]]
"""Reads the entries of a transcript from a position on, the end exclusive."""


def parse_steps_cursor(cursor: str | None) -> int:
    """Return the number of steps before a page. Raises ``BadPageError``."""
    if cursor is None:
        return 0
    if not cursor.isascii() or not cursor.isdigit() or len(cursor) > _MAX_CURSOR_DIGITS:
        raise BadPageError("the cursor must be the `next` of an earlier page")
    return int(cursor)


class StepList:
    """Pages of tasks' steps, the first step first. Methods raise ``DamagedError`` and ``OutageError``."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries

    async def page(self, tenant: str, task: str, limit: int, after: int) -> Page | None:
        """Return at most ``limit`` steps behind the first ``after``; None if the tenant has no such task."""
        keys = self._queries.task_keys(tenant, task) if is_identifier(task) else None
        if keys is None:
            return None
        if await self._queries.in_redis(keys):
            records = await self._queries.step_records(keys, max(0, after - 1), after + limit + 1)
            page = await _page(records, limit, after, lambda start, end: self._queries.entries(keys, start, end))
            # Archived while it was read: then the record has all of it.
            if await self._queries.in_redis(keys):
                return page
        record = await self._queries.record(tenant, task)
        return None if record is None else await _page_of_record(record, limit, after)


async def _page_of_record(record: TaskRecord, limit: int, after: int) -> Page:
    async def read(start: int, end: int) -> list[dict[str, Any]]:
        return record.messages[start:end]

    return await _page(record.steps[max(0, after - 1) : after + limit + 1], limit, after, read)


async def _page(records: list[StepRecord], limit: int, after: int, read: Read) -> Page:
    """Return a page. ``records``: with one before the page and one behind it, where there are such."""
    before, records = (records[0], records[1:]) if after and records else (None, records)
    items: list[dict[str, Any]] = []
    size = 0
    spans = spans_of(records, before, more=len(records) > limit)
    for span in spans:
        entries = await read(span.start, span.end + _MAX_LATE if span.until is None else span.until)
        items.append(_shown(span, entries))
        size += sum(map(_length, entries))
        await turn_after(size)
        if size > MAX_PAGE_CHARS:
            break
    shown = after + len(items)
    is_last = len(items) == len(spans) and len(records) <= limit
    return Page([*items], None if is_last else str(shown))


def _shown(span: StepSpan, entries: list[dict[str, Any]]) -> dict[str, Any]:
    own = span.end - span.start
    return step_of_span(span, entries[:own], entries[own:]).model_dump(mode="json")


def _length(entry: Entry) -> int:
    """Return about how many characters an entry takes."""
    calls = entry.get("tool_calls") or ()
    return len(str(entry.get("content") or "")) + sum(len(str(call)) for call in calls)
