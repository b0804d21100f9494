"""What a turn may use. Pure."""

from pentad.contracts.envelope import Budget


def exceeded_by(budget: Budget | None, tokens: int, usd: float, steps: int) -> bool:
    """Whether a turn that has used this much may not go on."""
    if budget is None:
        return False
    return (
        (budget.tokens is not None and tokens >= budget.tokens)
        or (budget.usd is not None and usd >= budget.usd)
        or (budget.steps is not None and steps >= budget.steps)
    )


def remaining(budget: Budget | None, tokens: int, usd: float, steps: int) -> Budget | None:
    """What is left of a turn's budget."""
    if budget is None:
        return None
    return Budget(
        tokens=None if budget.tokens is None else max(0, budget.tokens - tokens),
        usd=None if budget.usd is None else max(0.0, budget.usd - usd),
        steps=None if budget.steps is None else max(0, budget.steps - steps),
    )
