"""Operators: people who redrive dead letters, again and again until they are gone."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import to_json

from pentad.contracts.dead_letters import DeadLetter
from pentad.services.gateway.domain.redrive import Redrive, UnfitError, proposal
from pentad.services.gateway.edge.problems import ProblemError
from pentad.services.gateway.operator.dead_letters import LetterName, Letters, parse_name
from pentad.services.gateway.operator.redrives import Redrives
from pentad.services.gateway.tasks.queries import Queries
from pentad.shared.errors import OutageError
from pentad.shared.records.record_store import Records
from tests.support.interleave.processes import Parts, Process

_PAUSE_S = 0.15


@dataclass(slots=True)
class Ledger:
    """The common knowledge of a run's operators, by the letters' ids."""

    letters: dict[str, DeadLetter] = field(default_factory=dict)
    """All letters that were ever seen; nobody else removes any."""
    plans: dict[str, list[Redrive]] = field(default_factory=dict)
    """Plans by which an operator began to send a letter."""
    answered: dict[str, set[bytes]] = field(default_factory=dict)
    """Edits whose redrive was confirmed to an operator; ``null`` for no edit."""
    discarded: set[str] = field(default_factory=set)
    """Letters whose removal was confirmed to an operator."""
    moved: list[tuple[str, str]] = field(default_factory=list)
    """Messages with the tasks that were asked to move them away."""

    def keep_sent(self, sent: Callable[[str], bool]) -> None:
        """Forget the plans of operators that were killed before they sent anything, and that nobody continued."""
        self.plans = {name: plans for name, plans in self.plans.items() if sent(name)}


class _NotedRedriving(Redrives):
    """The real redrives, which also record each plan before it is carried out."""

    ledger: Ledger

    async def _send(self, name: LetterName, plan: Redrive, now: int) -> None:
        plans = self.ledger.plans.setdefault(str(name), [])
        plans.append(plan)
        try:
            await super()._send(name, plan, now)
        except ProblemError:  # nothing was sent
            plans.remove(plan)
            raise


class Operator(Process):
    """An operator who redrives letters without edits."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._outside, self._ledger = parts.outside, parts.ledger
        queries = Queries(parts.store, Records(parts.settings.records_url), 1)
        self._letters = Letters(parts.store, queries, 1)
        self._redriving = _NotedRedriving(parts.store, self._letters, queries, parts.settings)
        self._redriving.ledger = parts.ledger

    def start(self) -> None:
        self._spawn(self._work())

    def loops(self) -> tuple[Coroutine[Any, Any, None], ...]:
        return ()

    def stop(self) -> None:
        """They are killed in the middle, and by nothing else."""
        self.kill()
        self.stopped = True

    async def _work(self) -> None:
        own = self._outside.own
        while True:
            await asyncio.sleep(own.expovariate(1 / _PAUSE_S))
            try:
                found = (await self._letters.page(20, None)).items
                names = [name for item in found if (name := parse_name(str(item["id"]))) and name.place == "0"]
                if names:
                    await self._deal_with(own.choice(names))
            except (OutageError, ProblemError):
                continue

    async def _deal_with(self, name: LetterName) -> None:
        letter = await self._letters.read(name)
        if letter is None:
            return
        self._ledger.letters[str(name)] = letter
        try:
            edit = await self.edit(letter)
            said = await self._redriving.redrive(name, edit)
        except ProblemError as problem:
            if self._gives_up(str(problem.detail)):
                await self._redriving.discard(name)
                self._ledger.discarded.add(str(name))
            return
        if "repeated" not in said:
            self._ledger.answered.setdefault(str(name), set()).add(to_json(edit))

    def _gives_up(self, problem: str) -> bool:
        """Return whether to discard a letter; an impatient operator even discards one that another is redriving."""
        return "nobody waits" in problem or ("being redriven" in problem and self._outside.own.random() < 0.3)

    async def edit(self, letter: DeadLetter) -> Mapping[str, Any] | None:
        """Return the body to send instead, the same each time for the same letter."""
        return None


class Editor(Operator):
    """An operator who edits letters."""

    async def edit(self, letter: DeadLetter) -> Mapping[str, Any] | None:
        try:
            body = proposal(letter, await self._letters.context_of(letter))
        except UnfitError:
            return None
        if body is None:
            return None
        if "messages" in body:
            return {"messages": [_mended(message, "content") for message in body["messages"]]}
        if "calls" in body:
            return {"calls": [call | {"args": _mended(call["args"], "mark")} for call in body["calls"]]}
        return body | {"args": _mended(body["args"], "mark")} if "args" in body else _mended(body, "content")


def _mended(said: Mapping[str, Any], field_name: str) -> dict[str, Any]:
    """Return a message with another text and without its deadline, which may have passed."""
    return {name: value for name, value in said.items() if name != "deadline"} | {
        field_name: f"{said.get(field_name)}+"
    }


OPERATORS: tuple[type[Process], ...] = (Operator, Operator, Editor)
