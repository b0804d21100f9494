"""Rules of the commit scheme: the change that drops a rule, the stress of its runs, and how soon it is noticed."""

from dataclasses import dataclass
from typing import Literal, get_args

from tests.support.interleave.patches import Patch

Stress = Literal[
    "all", "inbound", "cancel", "tools", "archive", "runner", "lost", "clock", "redrive", "timeout", "life", "move",
    "queue", "interrupt", "limits", "moving-life", "graphs",
]  # fmt: skip
"""What is disturbed most.

``redrive``: work is set aside and operators redrive it. ``timeout``: tasks sleep to their step's time limit, and the
server's clock steps. ``life``: tasks ask their users and say that they are done, and users pause and resume them.
``move``: people move messages between tasks. ``queue``, ``interrupt``: that is what a message does during a turn.
``limits``: few tasks may be active at once. ``moving-life``: people move messages of lively tasks.
``graphs``: tasks run graphs with branches, items, a graph, a judged edge and a question."""
STRESSES: tuple[Stress, ...] = get_args(Stress)


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of one script: ``kept`` becomes ``dropped``."""

    script: str
    kept: str
    dropped: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule, or several that back each other up."""

    name: str
    edits: tuple[Edit, ...] = ()
    stress: Stress = "all"
    """Kind of stress of a run, for a rule that is needed only in a narrow window."""
    seeds: int = 150
    """Number of seeds within which the checks must notice the dropped rule; 0: another rule backs it up, so that
    dropping it costs only work, or a test of the script itself covers its narrow window."""
    first: int = 0
    """First seed: one that noticed the dropped rule lately."""
    rare: bool = False
    """Whether so few runs notice that only the long form tries; a test of the script itself exists besides."""
    patches: tuple[Patch, ...] = ()
    """Patches that drop a rule that is kept in Python."""

    @property
    def broken(self) -> bool:
        """Whether anything is dropped."""
        return bool(self.edits or self.patches)
