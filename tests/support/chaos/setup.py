"""How a chaos run is set up: the system, and what happens to it."""

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.chaos.plan import MOST_MS
from tests.support.chaos.troubles import EVERYTHING, STEP_S, Kind, Troubles
from tests.support.processes.clocks import VARIABLES

ONE_OF_EACH = {"gateway": 1, "router": 1, "task-runner": 1, "tool-worker": 1, "embedding": 1, "archiver": 1}
SEVERAL = {"gateway": 2, "router": 2, "task-runner": 3, "tool-worker": 3, "embedding": 1, "archiver": 2}
_LONG_S = 600
"""No run takes so long."""
_LIMIT_S = 3 * STEP_S
"""A step's time limit where clocks step: when they step on, whatever is due within ten minutes is due at once."""


@dataclass(frozen=True, slots=True)
class Fire:
    """What happens to the system, and how often."""

    kinds: Mapping[Kind, float] = field(default_factory=lambda: EVERYTHING)
    every_s: float = 2.0
    first: Sequence[Callable[[Troubles], Awaitable[None]]] = ()
    """What happens before anything does by chance, one after another, even when the tasks are quicker."""
    victims: Sequence[str] = ()
    """The services to kill and stop; all when empty."""
    aimed: bool = False
    """Kill a runner only while it asks the model, others only while an unsafe call runs: however long that takes."""
    most: int = sys.maxsize
    """So many faults; then the system is left alone, and what is not done in the end never will be."""
    calm_s: float = 0.0
    """Without faults, for what is not done when the time is up: on a slow machine that is not yet a fault."""


@dataclass(frozen=True, slots=True)
class Setup:
    """How the system is started."""

    counts: Mapping[str, int]
    shards: int = 1
    lease_s: float = 2.0
    replicas: int = 0
    """That must have a message before it is accepted."""
    launcher: Sequence[str] = ()
    deadly: float = 0.08
    """Share of the tool calls whose first run kills its process."""
    tool_ms: int = MOST_MS
    """That a tool call takes at most."""
    remembers: bool = True
    """In the end memory is asked for all that was said, and for what was erased meanwhile."""
    grace_s: float | None = None
    """Tasks are archived and learned from so long after their end; None: not before the run is over."""
    full_s: float = 0.0
    """How long a disk is full: the memory, the records and Redis have small ones then. 0: they have not."""
    clocks: bool = False
    """Every process has a wall clock of its own, which can step; what is measured is measured by the clients' clock."""
    each: int = 1
    """Tasks that a session has at once; several: each message finds its task, and people ask, pause and move."""

    def environment(self, model_url: str, ledger: Path) -> dict[str, str]:
        """The settings of all services. ``ledger``: what tools write into."""
        return {
            "LLM_BASE_URL": model_url,
            "PENTAD_PLUGINS": "tests.support.chaos.tools",
            "PENTAD_TOOL_ENV": ",".join(("CHAOS_LEDGER", *(VARIABLES if self.clocks else ()))),
            "CHAOS_LEDGER": str(ledger),
            "PENTAD_GRACE_S": str(self.grace_s or _LONG_S),
            "PENTAD_EXTRACT": "auto",
            "PENTAD_SHARDS": str(self.shards),
            "PENTAD_LEASE_S": str(self.lease_s),
            "PENTAD_REDIS_REPLICAS": str(self.replicas),
            **({"PENTAD_STEP_TIMEOUT_S": str(_LIMIT_S)} if self.clocks else {}),
        }
