"""Records what a version of Pentad leaves behind, for `tests/acceptance/test_older_versions.py`. Run by hand:

    git worktree add ../older COMMIT && make -C ../older setup
    python -m tests.support.recording ../older > tests/acceptance/recorded/COMMIT.json

The file holds the keys of its Redis (`tests/support/redis/keyspace.py`), its records, and its tasks by the names of
their sessions. It is without what processes say of themselves, the bell, and keys that end within a minute.
"""

import asyncio
import json
import os
import re
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

from redis import Redis

from tests.support.models.model_server import ScriptedModel
from tests.support.models.replies import Reply, fail
from tests.support.processes.gates import Gates, plan, planned
from tests.support.processes.up import ROOT, Up
from tests.support.redis.bus_client import Bus
from tests.support.redis.keyspace import read_keys, relative
from tests.support.redis.redis_server import RedisServer
from tests.support.waiting import wait_until

_PLUGINS = ROOT / "tests" / "support" / "plugins"
_PRESENCE = re.compile(r"pentad:(tools|in-use:.*|\{0\}:bell)")
_QUEUE, _SESSION_UNROUTED = "pentad:{0}:tools:default", "pentad:{0}:session:default:unrouted"
_LEAST_MS = 60_000
_PORT = re.compile(r"127\.0\.0\.1:\d+")


def _answer(request: dict[str, Any]) -> Reply:
    said = [m["content"] for m in request["messages"] if m["role"] == "user"]
    return fail(400, message="this model does not like it") if said[-1] == "please fail" else planned(request)


def _gate(name: str, tool: str = "gate_pure") -> tuple[str, dict[str, Any]]:
    return tool, {"gate": name, "tag": name}


def _sum(expression: str) -> tuple[str, dict[str, Any]]:
    return "calculator", {"expression": expression}


class Scene:
    """What is said to the older version, and what happens to it."""

    def __init__(self, bus: Bus, gates: Gates) -> None:
        self._bus, self._gates = bus, gates
        self._said = 0
        self.tasks: dict[str, str] = {}

    async def say(self, session: str, content: str, **fields: Any) -> None:
        """Send a message under an id of its own."""
        self._said += 1
        await self._bus.send(content, session, message_id=f"m-{self._said}-{session}", **fields)

    async def begun(self, session: str, number: int = 1) -> str:
        """The task of a session, of its so many."""
        started = await self._bus.until(session, "task_start", number)
        task: str = started[number - 1]["task_id"]
        return task

    async def archived(self) -> None:
        """A task that ends, and whose grace time is over at once."""
        await self.say("archived", plan([_sum("5*5")], answer="it is 25"))
        self.tasks["archived"] = await self.begun("archived")
        await self._bus.until("archived", "task_end")

        async def gone() -> bool:
            return not await self._bus.redis.exists(self._key("archived"))

        await wait_until("the record", gone)

    def _key(self, session: str, part: str = "") -> str:
        return f"pentad:{{0}}:task:default:{self.tasks[session]}{part}"

    async def ended_and_live(self) -> None:
        """Tasks that have ended, that wait for a person, and whose calls are open."""
        await self.say("ended", plan([_sum("6*7")], answer="it is 42"))
        for session in ("failed", "two"):
            await self.say(session, "please fail")
            await self._bus.until(session, "task_end")
        self.tasks["two-failed"] = await self.begun("two")
        await self.say("unrouted", plan(answer="first"))
        await self.say("waiting", plan([_sum("8*8")], answer="it is 64"), budget={"steps": 1})
        for session in ("live", "two", "result", "spoilt", "call"):
            await self.say(session, plan([_gate(session)], answer=f"{session} is done"))
        for session in ("mail", "half"):
            await self.say(session, plan([_sum("3*3"), _gate(session)], answer=f"{session} is done"))
        await self.say("unsafe", plan([_gate("unsafe", "gate_unsafe")], answer="unsafe is done"))
        for session in ("ended", "failed", "live", "result", "spoilt", "call", "mail", "half", "unsafe", "waiting"):
            self.tasks[session] = await self.begun(session)
        self.tasks["two"] = await self.begun("two", 2)
        running = {"live", "two", "result", "spoilt", "call", "mail", "half", "unsafe"}
        await wait_until("the open calls", lambda: {started.tag for started in self._gates.ledger()} >= running)
        for session in ("mail", "half"):
            await self._bus.until(session, "tool_result")
        for session in ("unrouted", "ended"):
            await self._bus.until(session, "task_end")
        await self._bus.until("waiting", "task_status")
        await self.say("mail", "and another thing")
        await self._bus.until("mail", "message_routed", 2)

    async def set_aside(self) -> None:
        """An inbound entry, a call, the mail of a session and of two tasks: one has a message, the other a result."""
        redis = self._bus.redis
        await self._bus.add("pentad:inbound", '{"session_id":"refused","message_id":"m-refused","text":"no content"}')
        commands = [json.loads(fields["data"]) for _, fields in await redis.xrange(_QUEUE)]
        (command,) = (each for each in commands if each["session_id"] == "call")
        await self._bus.add(_QUEUE, json.dumps(command | {"args": "spoilt"}))
        await redis.hset(_SESSION_UNROUTED, "done_at", "junk")
        await self.say("unrouted", plan(answer="said again"))
        for session in ("spoilt", "result"):
            await redis.rpush(self._key(session, ":log"), "junk")
        await self.say("spoilt", "go on, please")
        self._gates.open("result")
        await self._bus.until_letters("pentad:dead", 1)
        await self._bus.until_letters("pentad:{0}:dead", 4, 40)
        await redis.hdel(_SESSION_UNROUTED, "done_at")
        for session in ("spoilt", "result"):
            await redis.lrem(self._key(session, ":log"), 0, "junk")
        for session in ("call", "spoilt", "result"):
            await self._bus.until(session, "task_end")

    async def unread(self) -> None:
        """What comes while nobody reads."""
        await self.say("late", plan([_sum("7*8")], answer="it is 56"))


async def record(older: Path, folder: Path) -> dict[str, Any]:
    """Everything that an older checkout leaves behind."""
    gates = Gates(folder / "gates")
    environment = {"GATES": str(gates.folder), "PENTAD_PLUGINS": "gated_tools", "PYTHONPATH": str(_PLUGINS)}
    environment |= {"PENTAD_TOOL_ENV": "GATES"}
    command = (str(older / ".venv" / "bin" / "pentad"), "up", "--port", "0")
    async with RedisServer() as server, ScriptedModel(_answer, record=False) as model, Bus(server.url) as bus:
        environment |= {"REDIS_URL": server.url, "PENTAD_LEASE_S": "1"}
        environment |= {"LLM_BASE_URL": model.base_url, "LLM_MODEL_ID": "scripted"}
        scene = Scene(bus, gates)
        with Up(folder, environment | {"PENTAD_GRACE_S": "0.5"}, command) as up:
            await up.ready()
            await scene.archived()
        with Up(folder, environment, command) as up:
            await up.ready()
            await scene.ended_and_live()
            await scene.set_aside()
            for pid in (up.pid, *up.descendants()):
                os.kill(pid, signal.SIGSTOP)
            await scene.unread()
        with Redis.from_url(server.url, protocol=2, decode_responses=True) as redis:
            keys = read_keys(redis, lambda key: bool(_PRESENCE.fullmatch(key)) or 0 < redis.pttl(key) < _LEAST_MS)
    files = sorted((folder / "data" / "records").rglob("*.json"))
    records = {str(file.relative_to(folder / "data")): file.read_text() for file in files}
    return {"tasks": scene.tasks, "records": records, "keys": keys}


def main() -> None:
    """Print the recording, its times relative to now."""
    with tempfile.TemporaryDirectory(prefix="pentad-recording-") as folder:
        made = asyncio.run(record(Path(sys.argv[1]).resolve(), Path(folder)))
    at = max(int(i.partition("-")[0]) for i in made["keys"]["pentad:inbound"]["value"]["entries"])
    print(_PORT.sub("127.0.0.1:1", relative(json.dumps(made, indent=1, ensure_ascii=False), at)))


if __name__ == "__main__":
    main()
