"""How much is tried: little with the other tests, as much as ``make fuzz EXAMPLES=...`` says by hand."""

import os
import random
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from pentad.shared import random_hex

_EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "60"))
settings.register_profile(
    "pentad",
    max_examples=_EXAMPLES,
    deadline=None,
    database=None,
    derandomize="FUZZ_EXAMPLES" not in os.environ,
    suppress_health_check=list(HealthCheck),
)
settings.load_profile("pentad")


@pytest.fixture(scope="session", autouse=True)
def _names_are_random() -> Iterator[None]:
    """Hypothesis seeds the generator of ``random`` for each example: requests of two examples would have one id, and a
    late answer to the one would be taken for the other's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(random_hex, "random", random.SystemRandom())
        yield
