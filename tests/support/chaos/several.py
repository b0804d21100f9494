"""The sessions of a chaos run with several simultaneous tasks, each session with a person who talks to all of them."""

import random
from collections.abc import Callable, Iterator, Sequence

from tests.support.chaos.facts import Fact
from tests.support.chaos.person import Person, Situation
from tests.support.chaos.report import Report
from tests.support.chaos.setup import Setup
from tests.support.chaos.several_checks import faults_of_person
from tests.support.chaos.several_model import SeveralModel
from tests.support.chaos.talk import make_talk, user_of
from tests.support.clients.api import Api
from tests.support.clients.follower import Follower, NextEntry


class Several:
    """Runs sessions of several tasks. ``setup.each``: tasks of one session; ``tasks``: tasks of all sessions."""

    def __init__(
        self,
        rng: random.Random,
        tasks: int,
        setup: Setup,
        gateways: Callable[[], Sequence[str]],
    ) -> None:
        self.sessions, self._each, self._gateways = -(-tasks // setup.each), setup.each, gateways
        self._talks = [make_talk(rng, number, setup) for number in range(self.sessions)]
        said = [saying for talk in self._talks for saying in talk.all]
        self.facts = [Fact(s.content, user_of(n)) for n, talk in enumerate(self._talks) for s in talk.all]
        """Facts that users state, each session's by a user of its own."""
        self.plays = SeveralModel(random.Random(rng.random()), said)
        self._people: dict[int, Person] = {}

    async def hold(self, number: int, follower: Follower) -> None:
        """Hold one session until all messages are sent and answered."""
        person = Person(number, self._talks[number], follower, self._gateways, self.plays)
        self._people[number] = person
        await person.converse()

    async def settle(self) -> None:
        """Wait until no session has work again: a new primary may lack some of it."""
        while left := [person for person in self._people.values() if not person.settled]:
            for person in left:
                await person.converse()

    @property
    def ended(self) -> int:
        """Return the number of tasks in sessions whose messages are all answered."""
        return self._each * sum(1 for person in self._people.values() if person.settled)

    async def faults(self, gateway: str, report: Report) -> list[str]:
        """Return the faults of the sessions."""
        found: list[str] = []
        async with Api(gateway) as api:
            for person in self._people.values():
                found += await faults_of_person(person, api, report)
                report.put_right += len(person.put_right)
                report.moved += len(person.follower.seen("message_moved"))
                report.paused += len(Situation(person.follower.events).paused)
                calls = person.follower.seen("tool_call")
                report.questions += sum(1 for event in calls if event["tool"] == "ask_user")
        report.asked_where = self.plays.asked_where
        return found

    def tasks(self) -> Iterator[tuple[str, Sequence[NextEntry], Sequence[int]]]:
        """Return each task's name, the events that its client saw, and the numbers of its work."""
        for person in self._people.values():
            numbers = {s.message_id: s.number for s in (*person.talk.all, *person.extra)}
            for task in Situation(person.follower.events).state:
                news, held = _news_of(task, person.follower.news)
                yield f"{person.follower.session} {task}", news, [numbers[message] for message in held]


def _news_of(task: str, news: Sequence[NextEntry]) -> tuple[list[NextEntry], list[str]]:
    """Return the entries about a task, with the acceptance of its messages, and the messages that it had."""
    held = [n.about["message_id"] for n in news if n.what == "message_routed" and n.about["task_id"] == task]
    mine = [n for n in news if task in (n.about.get("task_id"), n.about.get("to_task_id"))]
    mine += [n for n in news if n.what == "accepted" and n.about["message_id"] in held]
    given = [n.about["message_id"] for n in mine if n.about.get("to_task_id") == task]
    return mine, [*held, *given]
