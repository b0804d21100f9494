"""The tools that programs can call by their names: those that tool-workers publish."""

from collections.abc import Mapping, Sequence
from time import monotonic

from pentad.contracts.tools import FORMER_NAMES
from pentad.shared.presence.published import TOOLS
from pentad.shared.store.store import Store

_FRESH_S = 1.0
"""Seconds for which what was read stays in use."""


class CallableTools:
    """The published tools with the names of their parameters, read at most once a second.

    It only tells tools from misspelled names early: which of them a program may call, its task-runner decides.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._parameters: Mapping[str, Sequence[str]] = {}
        self._read_at = float("-inf")

    async def parameters_of(self, tool: str) -> Sequence[str] | None:
        """Return the names of a tool's parameters in their order; None for a name that no tool has.

        While Redis knows of no tool at all, any name may be one. Raises ``OutageError``.
        """
        if monotonic() - self._read_at > _FRESH_S:
            specs = await TOOLS.read(self._store)
            self._parameters = {name: tuple(spec.parameters.get("properties", ())) for name, spec in specs.items()}
            self._read_at = monotonic()
        found = self._parameters.get(FORMER_NAMES.get(tool, tool))
        return () if found is None and not self._parameters else found
