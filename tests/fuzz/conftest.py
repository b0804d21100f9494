"""How much is tried: little with the other tests, as much as ``make fuzz EXAMPLES=...`` says by hand."""

import os

from hypothesis import HealthCheck, settings

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
