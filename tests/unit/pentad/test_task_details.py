"""The lines of `pentad task` about what a task has used."""

import pytest

from pentad.cli.render import Style
from pentad.cli.tasks import _details
from pentad.contracts.events import TaskUsage
from pentad.contracts.records import Task

AT = "2030-01-31T12:00:00.000Z"


@pytest.mark.parametrize(
    ("usage", "line"),
    [
        (TaskUsage(input_tokens=300, output_tokens=6), "tokens      300 in, 6 out"),
        (TaskUsage(input_tokens=300, output_tokens=6, cached_tokens=145), "tokens      300 in (48% cached), 6 out"),
        (TaskUsage(input_tokens=0, output_tokens=6, cached_tokens=145), "tokens      0 in (100% cached), 6 out"),
        (
            TaskUsage(input_tokens=10, output_tokens=6, usd=0.5, cached_tokens=10),
            "tokens      10 in (100% cached), 6 out, 0.5000 USD",
        ),
    ],
)
def test_the_part_of_the_input_that_was_cached_is_told_where_there_is_any(usage: TaskUsage, line: str) -> None:
    task = Task(
        task_id="t", session_id="s", status="completed", goal="g", instruction="executor", created_at=AT, updated_at=AT,
        steps=1, usage=usage,
    )  # fmt: skip
    assert line in _details(task, Style(False))
