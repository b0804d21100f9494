"""A session of the JavaScript client, driven from Python."""

import asyncio
import json
from collections.abc import Callable
from typing import Any, Self

from tests.support.javascript.node_tests import NODE
from tests.support.processes.up import ROOT
from tests.support.waiting import in_time, wait_until

_DRIVER = ROOT / "tests" / "support" / "javascript" / "session_driver.mjs"
_MAX_LINE = 64 << 20
WEBSOCKET = ("--experimental-websocket", "--no-warnings")
"""Options with which node has the WebSocket of browsers."""
Event = dict[str, Any]


class DrivenSession:
    """A node process with one session, for ``async with``: what it has seen, and what it is told to do."""

    def __init__(self, url: str, session: str, **options: Any) -> None:
        self._about = {"url": url, "session": session, "transport": "websocket", **options}
        self.events: list[Event] = []
        self.statuses: list[str] = []
        self.turns: list[dict[str, Any]] = []
        self.told: list[dict[str, Any]] = []
        """All else that the process has written."""
        self._answers: dict[int, dict[str, Any]] = {}
        self._number = 0

    async def __aenter__(self) -> Self:
        program = [str(NODE), *WEBSOCKET, str(_DRIVER), json.dumps(self._about)]
        self._process = await asyncio.create_subprocess_exec(
            *program, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=_MAX_LINE
        )
        self._listening = asyncio.create_task(self._listen())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()
        await self._listening

    async def _listen(self) -> None:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            [(kind, value)] = json.loads(line).items()
            match kind:
                case "event":
                    self.events.append(value)
                case "status":
                    self.statuses.append(value)
                case "turn":
                    self.turns.append(value)
                case "answer":
                    self._answers[value["number"]] = value
                case _:
                    self.told.append({kind: value})

    def ask(self, command: str, **options: Any) -> "asyncio.Task[dict[str, Any]]":
        """Tell the process to do something; the task has its answer, or its error."""
        self._number += 1
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"number": self._number, "command": command, **options}).encode() + b"\n")
        return asyncio.create_task(self._answered(self._number))

    async def do(self, command: str, **options: Any) -> Any:
        """Tell the process to do something, and return what came of it."""
        answered = await self.ask(command, **options)
        assert "error" not in answered, answered
        return answered["value"]

    async def refused(self, command: str, **options: Any) -> str:
        """Tell the process to do what is refused, and return the name of the error."""
        answered = await self.ask(command, **options)
        name: str = answered["error"]["name"]
        return name

    async def until(self, kind: str, enough: Callable[[Event], bool] = lambda _: True, turn: str = "") -> Event:
        """Wait for an event of this kind, of the turn of a message where one is named; return the newest."""

        def found() -> list[Event]:
            ours = (e for e in self.events if e["type"] == kind and turn in ("", e.get("correlation_id")))
            return [event for event in ours if enough(event)]

        return (await wait_until(f"{kind} {turn}", found))[-1]

    async def more_told(self) -> None:
        """Wait until the process writes something that is neither an event nor an answer."""
        before = len(self.told)
        await wait_until("more to be told", lambda: len(self.told) > before)

    async def _answered(self, number: int) -> dict[str, Any]:
        await wait_until(f"the answer to command {number}", lambda: number in self._answers)
        return self._answers.pop(number)

    async def ended(self) -> None:
        """Wait until the process has ended by itself."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        async with in_time():
            await self._process.wait()
