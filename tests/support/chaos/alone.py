"""The sessions of a chaos run that have one task with one message each."""

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence

from tests.support.chaos.approver import Approver
from tests.support.chaos.checks import faults_of
from tests.support.chaos.facts import Fact, sentence_of
from tests.support.chaos.plan import HANDS, TOOLS, Model, make_plan
from tests.support.chaos.report import Report
from tests.support.chaos.setup import Setup
from tests.support.clients.follower import Follower, NextEntry

_USERS = 3


class Alone:
    """Runs sessions of one task each. ``tasks``: the number of sessions."""

    def __init__(self, rng: random.Random, tasks: int, setup: Setup, gateways: Callable[[], Sequence[str]]) -> None:
        self.sessions, self.plays = tasks, Model()
        tools = HANDS if setup.hands else TOOLS
        self._plans = [make_plan(rng, number, setup.deadly, setup.tool_ms, tools) for number in range(tasks)]
        self._approver = Approver(gateways)
        self.facts = [Fact(sentence_of(number), _user(number), f"chaos-{number}") for number in range(tasks)]
        """Facts that users state, in the order of the sessions."""
        for number, steps in enumerate(self._plans):
            self.plays.plan(self.facts[number].sentence, number, steps)
        self._followers: dict[int, Follower] = {}

    async def hold(self, number: int, follower: Follower) -> None:
        """Hold one session until its task has ended."""
        self._followers[number] = follower
        fact = self.facts[number]
        fields = {} if fact.user is None else {"user_id": fact.user}
        await follower.send(fact.sentence, f"m-{number}", **fields)
        while not follower.seen("task_end"):
            await self._approver.allow(follower)
            await asyncio.sleep(0.05)

    async def settle(self) -> None:
        """Wait until no task is open again: a new primary may lack an end that clients have seen."""
        while self.ended < len(self._followers):
            for follower in self._followers.values():
                await self._approver.allow(follower)
            await asyncio.sleep(0.05)

    @property
    def ended(self) -> int:
        """Return the number of ended tasks."""
        return sum(1 for follower in self._followers.values() if follower.seen("task_end"))

    async def faults(self, gateway: str, report: Report) -> list[str]:
        """Return the faults of the sessions."""
        found = self._followers.items()
        return [f for number, follower in found for f in faults_of(follower, self._plans[number], report)]

    def tasks(self) -> Iterator[tuple[str, Sequence[NextEntry], Sequence[int]]]:
        """Return each task's name, the events that its client saw, and the numbers of its work."""
        for number, follower in self._followers.items():
            yield follower.session, follower.news, [number]


def _user(number: int) -> str | None:
    """Return the user of a session: every third session has none, the others share a few users."""
    return f"user-{number % _USERS}" if number % _USERS else None
