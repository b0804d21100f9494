"""What a rule of the scheme is: the change that drops it, what a run disturbs most then, how soon it is noticed."""

from dataclasses import dataclass
from typing import Literal, get_args

from tests.support.interleave.patches import Patch

Stress = Literal[
    "all", "inbound", "cancel", "tools", "archive", "runner", "lost", "clock", "redrive", "timeout", "life", "move",
    "queue", "interrupt", "limits", "moving-life",
]  # fmt: skip
"""What is disturbed most.

``redrive``: work is set aside and operators redrive it. ``timeout``: tasks sleep to their step's time limit, and the
server's clock steps. ``life``: tasks ask their users and say that they are done, and users pause and resume them.
``move``: people move messages between tasks. ``queue``, ``interrupt``: that is what a message does during a turn.
``limits``: few tasks may be active at once. ``moving-life``: people move messages of lively tasks."""
STRESSES: tuple[Stress, ...] = get_args(Stress)


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of one script: ``kept`` becomes ``dropped``."""

    script: str
    kept: str
    dropped: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule, or several that stand behind one another."""

    name: str
    edits: tuple[Edit, ...] = ()
    stress: Stress = "all"
    """What a run disturbs most: where the rule is needed only in a narrow window."""
    seeds: int = 150
    """Within so many seeds the checks must notice; 0: another rule stands behind it, so dropping it costs only work,
    or a test of the script itself looks into its narrow window."""
    first: int = 0
    """The seed to begin with: one that has noticed lately is found at once."""
    rare: bool = False
    """So few runs notice that only the long form looks for them; a test of the script itself stands beside."""
    patches: tuple[Patch, ...] = ()
    """Of a rule that is kept in Python."""

    @property
    def broken(self) -> bool:
        """Whether anything is dropped."""
        return bool(self.edits or self.patches)
