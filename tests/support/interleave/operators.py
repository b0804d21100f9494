"""Operators: they look at what was set aside, redrive it, and do so again and again until it is gone."""

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
    """What the operators of a run know together, by the letters' ids."""

    letters: dict[str, DeadLetter] = field(default_factory=dict)
    """Every letter that was ever seen: none is removed by anybody else."""
    plans: dict[str, list[Redrive]] = field(default_factory=dict)
    """What somebody set out to send."""
    answered: dict[str, set[bytes]] = field(default_factory=dict)
    """The edits of which somebody was told that they were sent; ``null`` for none."""
    discarded: set[str] = field(default_factory=set)
    """Those that somebody was told to be removed for good."""
    moved: list[tuple[str, str]] = field(default_factory=list)
    """Messages, and the tasks that were asked to give them away."""

    def keep_sent(self, sent: Callable[[str], bool]) -> None:
        """Forget the plans of those who were killed before they sent anything, and of whom nobody took over."""
        self.plans = {name: plans for name, plans in self.plans.items() if sent(name)}


class _NotedRedriving(Redrives):
    """Notes what it sends, before it does."""

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
    """One who redrives what was set aside as it is."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._outside, self._ledger = parts.outside, parts.ledger
        queries = Queries(parts.store, Records(parts.settings.records_url), 1)
        self._letters = Letters(parts.store, queries, 1)
        self._redriving = _NotedRedriving(parts.store, self._letters, queries, parts.settings.session_ttl_s, 1)
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
        """Whether to discard what cannot be redriven; an impatient one also what somebody else has in hand."""
        return "nobody waits" in problem or ("being redriven" in problem and self._outside.own.random() < 0.3)

    async def edit(self, letter: DeadLetter) -> Mapping[str, Any] | None:
        """What to send instead; the same whenever this letter is sent again."""
        return None


class Editor(Operator):
    """One who mends what was set aside."""

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
    """With another text, and without a deadline: it may have passed, and is refused then."""
    return {name: value for name, value in said.items() if name != "deadline"} | {
        field_name: f"{said.get(field_name)}+"
    }


OPERATORS: tuple[type[Process], ...] = (Operator, Operator, Editor)
