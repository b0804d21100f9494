"""Recall for a new task: memories about its first messages, quoted in one text that is stored with the task.

Failures of the memory cost the recall and nothing else: a recall has little time, and while recalls keep failing the
memory is not asked.
"""

import asyncio
import logging
from collections.abc import Sequence
from time import monotonic, perf_counter
from typing import Protocol

from pentad.contracts.recalls import RecallOutcome, RecallWalk
from pentad.shared import metrics
from pentad.shared.embedder.vectors import Requester
from pentad.shared.errors import MemoryRefusedError, PentadError
from pentad.shared.immutable import immutable
from pentad.shared.memory.quotes import hits_about, quotation_of
from pentad.shared.memory.ranking import MemoryHit, MemoryQuestion
from pentad.shared.memory.search import MemorySearch
from pentad.shared.memory.tenant_memories import TenantMemories
from pentad.shared.memory.walk_choice import ChosenWalk, chosen_by_rule
from pentad.shared.memory.walks import HitWalks
from pentad.shared.models.circuit import Circuit
from pentad.shared.models.ports import ModelFailed, ModelRefused
from pentad.shared.owners import Owner
from pentad.shared.recall.relevance import has_subject
from pentad.shared.telemetry import ThrottledLog

_say = ThrottledLog(logging.getLogger(__name__))

TIMEOUT_S = 2.0
_MOST_UNDER_WAY = 64
"""Concurrent recalls of one process: more would only wait for each other."""
MOST_CANDIDATES = 40
"""Hits that a search returns; the best of those that are about the question and fit are quoted."""


@immutable
class RecallQuestion:
    """The first messages of a task."""

    owner: Owner
    """User and session that said them: memories of other users and other sessions are not recalled."""
    said: Sequence[str]
    """The messages."""
    known: Sequence[str]
    """Texts that the prompt contains besides: they are not quoted again."""
    task: str
    now_ms: int


@immutable
class Recall:
    """The outcome of a recall."""

    outcome: RecallOutcome
    text: str = ""
    """The quotation; '' when nothing is quoted."""
    anchors: tuple[str, ...] = ()
    """Anchors of the quotes."""
    walk: RecallWalk | None = None
    """How the graph was walked for it."""


class WalkChooser(Protocol):
    """Chooses how the graph is walked from the hits of a search."""

    async def chosen(self, asked: RecallQuestion, hits: Sequence[MemoryHit], requester: Requester) -> ChosenWalk:
        """Return the chosen walk in bounded time. Raises ``OutageError`` of Redis."""
        ...


RECALL_OFF = Recall("off")


class TaskRecall:
    """Recalls for all tasks of a process.

    ``tokens``: about how many the quotation may have; 0 recalls nothing. ``timeout_s`` bounds the search. ``chooser``:
    None lets the rule choose walks.
    """

    def __init__(
        self,
        memory: MemorySearch,
        walks: HitWalks,
        tenants: TenantMemories,
        tokens: int,
        timeout_s: float = TIMEOUT_S,
        chooser: WalkChooser | None = None,
    ) -> None:
        self._memory, self._walks, self._tenants = memory, walks, tenants
        self._tokens, self._timeout_s, self._chooser = tokens, timeout_s, chooser
        self._circuit = Circuit(monotonic())
        self._under_way = 0

    def at_once(self, tenant: str) -> Recall | None:
        """Return the outcome where nothing is recalled for a reason known without I/O; None: call `recall`."""
        known: RecallOutcome | None = None
        if not self._tokens:
            known = "off"
        elif self._tenants.known(tenant) is False:
            known = "no_memory"
        elif not self._circuit.may_ask(monotonic()):
            known = "away"
        elif self._under_way >= _MOST_UNDER_WAY:
            known = "busy"
        return None if known is None else _count_outcome(Recall(known))

    async def recall(self, asked: RecallQuestion, requester: Requester) -> Recall:
        """Search within the time limit, unless there is nothing to search for. Raises ``OutageError`` of Redis."""
        if not has_subject("\n".join(asked.said)):
            return _count_outcome(Recall("nothing"))
        told = self._tenants.known(asked.owner.tenant)
        if told is None:
            told = await self._tenants.look(asked.owner.tenant)
        return _count_outcome(await self._sparing(asked, requester, told) if told is not False else Recall("no_memory"))

    async def _sparing(self, asked: RecallQuestion, requester: Requester, told: bool | None) -> Recall:
        """Ask the memory, and record the result in the circuit breaker.

        ``told``: whether the tenant has memories; None: not known.
        """
        probe = not self._circuit.closed
        if probe:
            self._circuit.probe()
        self._under_way += 1
        begun = perf_counter()
        try:
            found = await self._in_time(asked, requester, told)
        except BaseException:
            if probe:
                self._circuit.probe_given_up()
            raise
        finally:
            self._under_way -= 1
        metrics.recall_seconds.labels().observe(perf_counter() - begun)
        if found.outcome in ("away", "late"):
            # Where nobody has told there may be no memory at all: one task waits to find that out, not three.
            self._circuit.failed(monotonic(), found.outcome, hopeless=told is None, probe=probe)
        else:
            self._circuit.answered(monotonic(), probe)
        return found

    async def _in_time(self, asked: RecallQuestion, requester: Requester, told: bool | None) -> Recall:
        try:
            async with asyncio.timeout(self._timeout_s):
                if not (told or await self._has_any(asked.owner.tenant, requester)):
                    return Recall("no_memory")
                wanted = MemoryQuestion(asked.owner, "\n".join(asked.said), MOST_CANDIDATES, asked.now_ms, hurried=True)
                hits = await self._memory.search(wanted, requester)
            return await self._quoted(asked, wanted, hits, requester)
        except TimeoutError:
            _say.warning("late", "nothing is recalled: the long-term memory did not answer in %g s", self._timeout_s)
            return Recall("late")
        except (MemoryRefusedError, ModelRefused) as error:
            _say.warning("refused", "nothing is recalled: %s", error)
            return Recall("failed")
        except (PentadError, ModelFailed) as error:
            _say.warning("away", "nothing is recalled: %s", error)
            return Recall("away")
        except Exception as error:
            _say.error("failed", "nothing is recalled: %s", error, exc=error)
            return Recall("failed")

    async def _has_any(self, tenant: str, requester: Requester) -> bool:
        there = await self._memory.has_any(Owner(tenant), requester)
        await self._tenants.looked(tenant, there=there)
        return there

    async def _quoted(
        self, asked: RecallQuestion, wanted: MemoryQuestion, hits: Sequence[MemoryHit], requester: Requester
    ) -> Recall:
        """Quote the hits that are about the question, with what a walk from them reaches."""
        chooser = self._chooser if hits_about(wanted.text, hits, (), asked.task) else None
        walk = await chooser.chosen(asked, hits, requester) if chooser is not None else chosen_by_rule(hits)
        walked = await self._walks.walked(wanted, hits, walk.choice)
        about = hits_about(wanted.text, walked.hits, [*asked.said, *asked.known], asked.task)
        text, anchors = quotation_of(about, self._tokens)
        return Recall("recalled" if anchors else "nothing", text, anchors, walk.told)


def _count_outcome(found: Recall) -> Recall:
    metrics.recalls.labels(found.outcome).inc()
    return found
