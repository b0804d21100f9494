"""Says what the other services would: events on a session's stream, in the shapes that router and runner write."""

import json
from secrets import token_hex
from typing import Any

from pentad.contracts.events import event_adapter
from pentad.shared.actors.session_header import recent_field
from pentad.shared.keys import SessionKeys, TaskKeys, bell, session_index, task_index
from pentad.shared.store.store import Store

AT = "2030-01-01T00:00:00.000Z"
TASK = "task-0-abc"


class Speaker:
    """A session's router and runner in one."""

    def __init__(self, store: Store, session: str = "s1", tenant: str = "default", maxlen: int = 10_000) -> None:
        self.store, self.maxlen = store, maxlen
        self.keys = SessionKeys(0, tenant, session)

    async def say(self, kind: str, *, ring: bool = True, mark: str = "", task: str | None = TASK, **fields: Any) -> str:
        """Append one event; returns its id."""
        about = {"event_id": "e", "at": AT, "tenant_id": self.keys.tenant, "session_id": self.keys.session}
        event = event_adapter.validate_python(about | {"type": kind, "task_id": task} | fields)
        if ring and not mark:
            names = [f"{self.keys.events}:told:{token_hex(8)}", self.keys.events, bell(0)]
            await self.store.run("tell_once", names, [60, event.to_json(), self.maxlen, 3600, self.keys.actor])
            ((last, _),) = await self.store.call("XREVRANGE", self.keys.events, "+", "-", "COUNT", 1)
            return str(last.decode())
        head = ("XADD", self.keys.events, "MAXLEN", "~", self.maxlen, "*", "data", event.to_json())
        entry: bytes = await self.store.call(*head, *(("d", mark) if mark else ()))
        if ring:
            await self.ring()
        return entry.decode()

    async def ring(self) -> None:
        """The doorbell."""
        await self.store.call("XADD", bell(0), "MAXLEN", "~", 1000, "*", "s", self.keys.actor)

    async def delta(self, text: str, offset: int, *, step: int = 1, attempt: int = 1, ring: bool = True) -> str:
        """A piece of an answer."""
        mark = f"content {TASK} {step} {attempt} {offset} {len(text)}"
        return await self.say("content", ring=ring, mark=mark, step=step, attempt=attempt, offset=offset, content=text)

    async def routed(self, message_id: str, decision: str = "new", **fields: Any) -> str:
        """The router's word."""
        about: dict[str, Any] = {"message_id": message_id, "decision": decision, "confidence": 1.0, "reason": "test"}
        return await self.say("message_routed", **(about | fields))

    async def turn(self, message_id: str, answer: str = "42", status: str = "completed") -> None:
        """A whole turn: routed, started, streamed, answered, ended."""
        await self.routed(message_id)
        await self.say("task_start", goal="the question")
        await self.delta(answer, 0)
        await self.say("message", step=1, attempt=1, content=answer)
        await self.say("task_end", status=status, steps=1)

    async def task(self, task: str = TASK, status: str = "active", created: int = 1_000, **fields: Any) -> TaskKeys:
        """A task's header and its place in the index."""
        keys = TaskKeys(0, self.keys.tenant, task)
        header: dict[str, Any] = {
            "status": status,
            "session": self.keys.session,
            "goal": "g",
            "created": created,
            "updated": created,
        }
        await self.store.call("HSET", keys.header, *(word for pair in (header | fields).items() for word in pair))
        await self.store.call("ZADD", task_index(0, self.keys.tenant), created, task)
        return keys

    async def session(self, *turns: dict[str, Any], at: int = 1_000) -> None:
        """A session's header, last turns and place in the index."""
        await self.store.call("HSET", self.keys.header, recent_field(TASK), 1, "last_in", f"{at}-0")
        for turn in turns:
            await self.store.call("RPUSH", self.keys.turns, json.dumps({"task_id": TASK, "at": AT} | turn))
        await self.store.call("ZADD", session_index(0, self.keys.tenant), at, self.keys.session)
