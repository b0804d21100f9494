"""A person who sends a message in a session of its own and erases it, again if a failover brings it back."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

from httpx2 import AsyncClient, HTTPError, Response

from tests.support.chaos.facts import Fact, sentence_of
from tests.support.chaos.plan import Model
from tests.support.clients.follower import Follower

ERASED_SESSIONS = "erased-"
"""Beginning of the names of sessions that are erased."""
_FIRST = 100_000
"""Number of the first sentence to be erased; kept sentences have the numbers of their sessions."""
_LOOK_S, _AGAIN_S = 0.1, 1.0
_REMEMBERED_S = 3.0
"""Seconds that every second eraser waits at most until its sentence is remembered, before it erases it."""


class Eraser:
    """Erases its task by name or with its session, before or after it is remembered. ``number``: from 0."""

    def __init__(self, number: int, gateways: Callable[[], Sequence[str]], model: Model) -> None:
        self._number, self._gateways, self.session = number, gateways, f"{ERASED_SESSIONS}{number}"
        self.fact = Fact(sentence_of(_FIRST + number), "user-1" if number % 2 else None, self.session, erased=True)
        self.tasks: set[str] = set()
        """Names of all tasks that were ever seen."""
        self._asked, self._turn = 0.0, number
        model.plan(self.fact.sentence, _FIRST + number, [])

    async def hold(self) -> None:
        """Send the sentence, wait for the answer, and erase it until it is gone."""
        fields = {} if self.fact.user is None else {"user_id": self.fact.user}
        async with Follower(self._gateways, self.session, first=self._number) as follower:
            await follower.send(self.fact.sentence, f"m-{self.session}", **fields)
            while not follower.seen("task_end"):
                await asyncio.sleep(_LOOK_S)
        if self._number % 4 < 2:
            await self._remembered(fields)
        await self.settle()

    async def settle(self) -> None:
        """Erase again until there is no task: a new primary may lack the erasure."""
        while await self._tasks() != []:
            if time.monotonic() - self._asked > _AGAIN_S:
                self._asked = time.monotonic()
                await self._erase()
            await asyncio.sleep(_LOOK_S)

    async def _remembered(self, fields: dict[str, str]) -> None:
        limit = time.monotonic() + _REMEMBERED_S
        while time.monotonic() < limit:
            found = await self._ask(
                "GET", "/v1/memory/search", {"q": self.fact.sentence, "session_id": self.session, **fields}
            )
            if found is not None and self.fact.sentence in found.text:
                return
            await asyncio.sleep(_LOOK_S)

    async def _tasks(self) -> list[str] | None:
        """Return the tasks that exist now; None if no gateway can say."""
        found: list[str] = []
        page: dict[str, Any] = {}
        while True:  # a page may be empty, and more behind it: those of before a step back lie ahead of all since then
            told = await self._ask("GET", "/v1/tasks", {"session_id": self.session, **page})
            if told is None or told.status_code != 200:
                return None
            found += [task["task_id"] for task in told.json()["items"]]
            self.tasks.update(found)
            if (following := told.json()["next"]) is None:
                return found
            page = {"cursor": following}

    async def _erase(self) -> None:
        if self._number % 4 in (1, 2):
            await self._ask("DELETE", f"/v1/sessions/{self.session}")
        else:
            for task in self.tasks:
                await self._ask("DELETE", f"/v1/tasks/{task}")

    async def _ask(self, method: str, path: str, params: dict[str, Any] | None = None) -> Response | None:
        """Send a request to the next gateway."""
        urls = self._gateways()
        self._turn += 1
        try:
            async with AsyncClient(base_url=urls[self._turn % len(urls)], timeout=3, trust_env=False) as client:
                return await client.request(method, path, params=params)
        except HTTPError:
            return None
