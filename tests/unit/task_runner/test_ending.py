"""What an end that a limit has brought says in words."""

import pytest

from pentad.services.task_runner.domain.ending import in_words
from pentad.services.task_runner.domain.plan import Bounds, End
from pentad.shared.actors.headers import TaskHeader

TASK = TaskHeader(tenant="default", task_id="task-0-a", session="s1", status="active", turn_steps=10, deadline=60_000)
BOUNDS = Bounds(10, 10_000, 50_000, 20_000)


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("step_limit", "10 steps since the last message have led to no answer; PENTAD_STEP_LIMIT is the limit"),
        ("deadline_exceeded", "the turn's deadline was 1970-01-01T00:01:00.000Z"),
        ("wait_expired", "nobody has answered for 50 s; PENTAD_WAIT_TTL_S is the limit"),
        ("cancelled", ""),
    ],
)
def test_a_limit_is_named_with_what_sets_it(reason: str, words: str) -> None:
    assert in_words(End("cancelled" if reason == "cancelled" else "failed", reason), TASK, BOUNDS) == words
