"""The settings of a chaos run: the system, and the faults."""

import json
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.chaos.plan import MOST_MS
from tests.support.chaos.troubles import EVERYTHING, STEP_S, Kind, Troubles
from tests.support.processes.clocks import VARIABLES
from tests.support.processes.up import ROOT

ONE_OF_EACH = {"gateway": 1, "router": 1, "task-runner": 1, "tool-worker": 1, "embedding": 1, "archiver": 1}
SEVERAL = {"gateway": 2, "router": 2, "task-runner": 3, "tool-worker": 3, "embedding": 1, "archiver": 2}
_LONG_S = 600
"""Seconds that no run takes."""
_LIMIT_S = 3 * STEP_S
"""Time limit of a step if clocks step: after a step forward, all timers of the next ten minutes fire at once."""


@dataclass(frozen=True, slots=True)
class Fire:
    """The faults of a run, and how often they happen."""

    kinds: Mapping[Kind, float] = field(default_factory=lambda: EVERYTHING)
    every_s: float = 2.0
    first: Sequence[Callable[[Troubles], Awaitable[None]]] = ()
    """Faults that come first, one after another and before all random ones, even if the tasks are done sooner."""
    victims: Sequence[str] = ()
    """Services that are killed and stopped; all if empty."""
    aimed: bool = False
    """Whether a runner is killed only during a model call, and other services only during an unsafe tool call."""
    most: int = sys.maxsize
    """Number of faults after which the system is left alone: tasks that are open in the end would stay so."""
    calm_s: float = 0.0
    """Seconds without faults for tasks that are open when the time is up: on a slow machine that is no fault yet."""


@dataclass(frozen=True, slots=True)
class Setup:
    """The settings with which the system is started."""

    counts: Mapping[str, int]
    shards: int = 1
    lease_s: float = 2.0
    replicas: int = 0
    """Number of replicas that must have a message before it is accepted."""
    launcher: Sequence[str] = ()
    deadly: float = 0.08
    """Share of the tool calls whose first run kills its process."""
    tool_ms: int = MOST_MS
    """Milliseconds that a tool call takes at most."""
    remembers: bool = True
    """Whether the memory is searched in the end for all stated facts, and for the erased ones."""
    grace_s: float | None = None
    """Seconds after their end when tasks are archived and learned from; None: not before the end of the run."""
    full_s: float = 0.0
    """Seconds for which a disk is full: the memory, the records and Redis have small disks then. 0: no disk is full."""
    clocks: bool = False
    """Whether every process has a wall clock of its own that can step; times are then measured by the clients'
    clock."""
    hands: bool = False
    """Whether calls are made that a person has to allow, calls of an MCP server, and scripts; of sessions with one
    task."""
    outside: bool = False
    """Whether there are webhooks, whose receiver fails now and then, and schedules."""
    silent: bool = False
    """Whether that receiver is also silent for longer than gateways wait."""
    each: int = 1
    """Number of simultaneous tasks of a session; if there are several, messages are routed, and people pause and
    move."""

    def environment(self, model_url: str, ledger: Path) -> dict[str, str]:
        """Return the settings of all services as environment variables. ``ledger``: file into which tools write."""
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
            **({"PENTAD_CODE": "on", "PENTAD_MCP": _server_file(ledger.with_name("mcp.json"))} if self.hands else {}),
        }


def _server_file(path: Path) -> str:
    """Write the file of MCP servers, and return its path."""
    server = {"command": sys.executable, "args": ["-m", "tests.support.chaos.mcp_server"], "cwd": str(ROOT)}
    path.write_text(json.dumps({"mcpServers": {"chaos": server}}))
    return str(path)
