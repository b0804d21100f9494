"""Comparisons of two tasks, live or archived. Nothing here writes."""

from collections.abc import AsyncIterator

from pentad.contracts.comparisons import ComparedStep, TaskComparison
from pentad.contracts.errors import ErrorCode
from pentad.contracts.records import Task, TaskStep
from pentad.services.gateway.domain.comparison import compared, comparison
from pentad.services.gateway.edge.problems import missing
from pentad.services.gateway.tasks.queries import Queries
from pentad.services.gateway.tasks.step_list import StepList
from pentad.shared.event_loop import turn_after

MAX_COMPARED_STEPS = 1_000
"""Steps of each task that are compared."""
_PER_PAGE = 100
_COST_CHARS = 4_096
"""Characters that count for the comparison of two steps, after which others in the event loop have a turn."""


class Comparisons:
    """Compares tasks of one tenant. Raises ``ProblemError``, ``DamagedError`` and ``OutageError``."""

    def __init__(self, queries: Queries) -> None:
        self._queries, self._steps = queries, StepList(queries)

    async def compare(self, tenant: str, a: str, b: str) -> TaskComparison:
        """Compare two tasks step by step."""
        first, second = await self._task(tenant, a), await self._task(tenant, b)
        steps: list[ComparedStep] = []
        mine, others = self._read(tenant, a), self._read(tenant, b)
        for number in range(1, MAX_COMPARED_STEPS + 1):
            one, other = await anext(mine, None), await anext(others, None)
            if one is None and other is None:
                return comparison(first, second, steps, more=False)
            steps.append(compared(number, one, other))
            await turn_after(_COST_CHARS)
        more = await anext(mine, None) is not None or await anext(others, None) is not None
        return comparison(first, second, steps, more=more)

    async def _task(self, tenant: str, name: str) -> Task:
        task = await self._queries.task(tenant, name)
        if task is None:
            raise missing(f"there is no task {name[:128]!r}", ErrorCode.UNKNOWN_TASK)
        return task

    async def _read(self, tenant: str, name: str) -> AsyncIterator[TaskStep]:
        """Yield the steps of a task, a page at a time."""
        after: int | None = 0
        while after is not None:
            page = await self._steps.page(tenant, name, _PER_PAGE, after)
            if page is None:
                return
            for item in page.items:
                yield TaskStep.model_validate(item)
            after = None if page.next is None else int(page.next)
