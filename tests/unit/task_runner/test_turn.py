"""What a turn may use."""

import pytest

from pentad.contracts.envelope import Budget
from pentad.services.task_runner.domain.turn import exceeded_by, remaining


@pytest.mark.parametrize(
    ("budget", "used", "over", "left"),
    [
        (None, (9, 9.0, 9), False, None),
        (Budget(), (9, 9.0, 9), False, Budget()),
        (Budget(tokens=10), (9, 0.0, 0), False, Budget(tokens=1)),
        (Budget(tokens=10), (10, 0.0, 0), True, Budget(tokens=0)),
        (Budget(tokens=10), (50, 0.0, 0), True, Budget(tokens=0)),
        (Budget(usd=1.0), (0, 0.25, 0), False, Budget(usd=0.75)),
        (Budget(usd=1.0), (0, 1.0, 0), True, Budget(usd=0.0)),
        (Budget(steps=2, tokens=10), (1, 0.0, 2), True, Budget(steps=0, tokens=9)),
    ],
)
def test_a_budget_is_used_up_exactly_at_its_end(
    budget: Budget | None, used: tuple[int, float, int], over: bool, left: Budget | None
) -> None:
    assert exceeded_by(budget, *used) is over
    assert remaining(budget, *used) == left
