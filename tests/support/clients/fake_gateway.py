"""A small gateway on a real socket that speaks the outside protocol, and misbehaves when told to.

It keeps one list of events per session with growing cursors, deduplicates messages by id, and answers each message with
the events of a script. Connections can be cut, refused, closed with a code; events repeated; cursors expired.
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.accepting import close_port, connections_settled
from tests.support.clients.fake_wire import AT, Json, Plan, Script, Wire
from tests.support.ports import free_port


def turn_events(task_id: str = "task-0-a", answer: str = "42", decision: str = "new", **routed: Any) -> Script:
    """A turn that answers in two deltas and a message."""

    def events(message: Json) -> list[Json]:
        half = len(answer) // 2
        step = {"task_id": task_id, "step": 1, "attempt": 1}
        return [
            {"type": "message_routed", "task_id": task_id, "message_id": message["message_id"], "decision": decision}
            | {"confidence": 1.0, "reason": "nothing else is going on", "candidates": []}
            | routed,
            {"type": "task_start", "task_id": task_id, "goal": message["content"]},
            {"type": "content", "offset": 0, "content": answer[:half], **step},
            {"type": "content", "offset": half, "content": answer[half:], **step},
            {"type": "message", "content": answer, **step},
            {"type": "task_end", "task_id": task_id, "status": "completed", "steps": 1},
        ]

    return events


def endless(message: Json) -> list[Json]:
    """A turn that stops only when it is cancelled."""
    return list(turn_events()(message))[:3]


def cancelled(about: Json) -> list[Json]:
    """Return the events after a cancel."""
    return [{"type": "task_end", "task_id": about["task_id"], "status": "cancelled"}]


def task(task_id: str, status: str = "completed", session_id: str = "s1", goal: str = "6 * 7?") -> Json:
    """A task as inspection shows it."""
    about = {"task_id": task_id, "session_id": session_id, "status": status, "goal": goal, "instruction": "executor"}
    return about | {"created_at": AT, "updated_at": AT, "steps": 1, "usage": {"input_tokens": 3, "output_tokens": 5}}


@dataclass
class FakeGateway(Plan):
    """A ``Plan`` and the HTTP around it."""

    script: Script = field(default_factory=turn_events)
    port: int = field(default_factory=free_port)
    key: str | None = None
    refuse: deque[tuple[int, dict[str, str]]] = field(default_factory=deque)
    """Statuses with headers for the next requests, whatever they are."""
    tasks: dict[str, Json] = field(default_factory=dict)
    transcripts: dict[str, list[Json]] = field(default_factory=dict)
    prompts: dict[tuple[str, int], Json] = field(default_factory=dict)
    """Prompts of steps, by task and step."""
    ready: Json = field(default_factory=lambda: {"status": "ready", "checks": {}})
    ready_status: int = 200
    memory: tuple[int, Json] | None = None
    """Status and body of answers about long-term memory; None: there is none."""
    listed: dict[str, list[Json]] = field(default_factory=dict)
    """Items of lists, such as tools and models; the gateway does not know any other list."""
    operations: Json | None = None
    """The live system; None: the gateway does not tell of it."""
    runs: deque[tuple[int, Json]] = field(default_factory=deque)
    """Answers to the next requests to run an instruction."""
    run_requests: list[tuple["Request", Json]] = field(default_factory=list)
    """Requests to run an instruction, with their bodies."""
    decided: list[Json] = field(default_factory=list)
    """Decisions about tool calls."""
    results: list[tuple[str, Json]] = field(default_factory=list)
    """Results of clients' tools, with the ids of their calls, repeats too."""
    result_answers: deque[tuple[int, Json]] = field(default_factory=deque)
    """Statuses and bodies for the next results; without an entry each is taken."""
    on_result: Script | None = None
    """Events that a result which is taken adds to the task's session; it gets the body, the task and the call."""
    values: dict[str, str] = field(default_factory=dict)
    """Values that events name by their ``ref``."""
    cancelled: list[str] = field(default_factory=list)
    moved: list[tuple[str, Json]] = field(default_factory=list)
    """Tasks that were asked to move a message, with the bodies of the requests."""
    on_move: Script | None = None
    """Events that a move adds to the message's session; it gets the body, and the task that was asked."""
    asked: list[tuple[str, str]] = field(default_factory=list)
    """Other control requests with the ids of their tasks."""
    on_cancel: Script | None = None
    """Events that a cancel adds to the task's session."""
    held: int = 0
    """Requests that wait for ``answering``."""
    answering: asyncio.Event = field(default_factory=asyncio.Event)
    """While it is clear, requests of REST are not answered."""
    _server: asyncio.Server | None = None
    _open: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        self.answering.set()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def stop(self) -> None:
        """Close the port and cut every connection."""
        if self._server is not None:
            await close_port(self._server)
        for task in [*self._open]:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        await connections_settled()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            await self._request(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._open.discard(task)
            writer.transport.abort()

    async def _request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            request = Request.parse(head)
            if self.refuse:
                status, headers = self.refuse.popleft()
                return await respond(writer, status, {"title": "refused"}, headers)
            if self.key is not None and request.headers.get("authorization") != f"Bearer {self.key}":
                return await respond(writer, 401, {"title": "unauthorized"})
            if "upgrade" in request.headers:
                return await Wire(self, head, request.query, reader, writer).run()
            said = await reader.readexactly(int(request.headers.get("content-length", 0)))
            self.held += 1
            await self.answering.wait()
            self.held -= 1
            if request.path.endswith("/run") and self.runs:
                self.run_requests.append((request, json.loads(said)))
                status, body = self.runs.popleft()
            else:
                status, body = self._rest(request, said)
            await respond(writer, status, body)

    def _rest(self, request: "Request", sent: bytes) -> tuple[int, Json]:
        match request.method, request.path.strip("/").split("/"):
            case "GET", ["readyz"]:
                return self.ready_status, self.ready
            case "GET", ["v1", "memory", "stats"] if self.memory is not None:
                return self.memory
            case "POST", ["v1", "tasks", name, "approvals", call]:
                return self._decide(name, call, json.loads(sent))
            case "POST", ["v1", "tasks", name, "calls", call, "result"]:
                return self._result(name, call, json.loads(sent))
            case "GET", ["v1", "tasks", _, "values", ref] if ref in self.values:
                return 200, {"content": self.values[ref]}
            case "GET", ["v1", "tools" | "models" | "approvals" as what] if what in self.listed:
                return 200, {"items": self.listed[what], "next": None}
            case "GET", ["v1", "operations"] if self.operations is not None:
                return 200, self.operations
            case "GET", ["v1", "tasks"]:
                return 200, self._page(request.query)
            case "GET", ["v1", "tasks", name] if name in self.tasks:
                return 200, self.tasks[name]
            case "GET", ["v1", "tasks", name, "transcript"] if name in self.tasks:
                return 200, {"task_id": name, "messages": self.transcripts.get(name, [])}
            case "GET", ["v1", "tasks", name, "steps", step, "prompt"] if (name, int(step)) in self.prompts:
                return 200, self.prompts[name, int(step)]
            case "POST", ["v1", "tasks", name, "cancel"]:
                return self._cancel(name)
            case "POST", ["v1", "tasks", name, "move"]:
                return self._move(name, json.loads(sent))
            case "POST", ["v1", "tasks", name, "pause" | "resume" | "complete" | "archive" as what]:
                self.asked.append((what, name))
                return 202, {}
            case "GET", ["v1", "sessions", name, "messages"]:
                return 200, {"items": self._said(name), "next": None}
            case "GET", ["v1", "sessions"]:
                return 200, {"items": [{"session_id": s} for s in self.events], "next": None}
        return 404, {"title": "not found", "detail": f"there is no {request.path}"}

    def _page(self, query: dict[str, str]) -> Json:
        wanted = [
            task
            for task in self.tasks.values()
            if all(query.get(name) in (None, task[name]) for name in ("status", "session_id"))
        ]
        begin, size = int(query.get("cursor", 0)), int(query.get("limit", 100))
        end = begin + size
        return {"items": wanted[begin:end], "next": str(end) if end < len(wanted) else None}

    def _said(self, session: str) -> list[Json]:
        """The session's messages with the tasks that have them now."""
        found: dict[str, Json] = {}
        for event in self.events.get(session, []):
            task_id = event.get("to_task_id") or event.get("task_id")
            if event["type"] in ("message_routed", "message_moved") and task_id:
                name = event["message_id"]
                found[name] = {"role": "user", "content": "said", "message_id": name, "task_id": task_id}
        return [*found.values()]

    def _move(self, name: str, body: Json) -> tuple[int, Json]:
        self.moved.append((name, body))
        if body["to"] == name:
            return 409, {"title": "conflict", "detail": "the message is in this task already"}
        if self.on_move is not None:
            session = next(s for s, events in self.events.items() if any(e.get("task_id") == name for e in events))
            self.say(session, *self.on_move({**body, "task_id": name}))
        return 202, {}

    def _decide(self, name: str, call: str, body: Json) -> tuple[int, Json]:
        """Take the first decision about a call, as the gateway does: it waits no more, and its session is told."""
        decided = {"task_id": name, "tool_call_id": call, "at": AT, "by": "key:default", "reason": "", "args": None}
        waiting = next((each for each in self.listed.get("approvals", []) if each["tool_call_id"] == call), None)
        if waiting is None:
            first = next((each for each in self.decided if each["tool_call_id"] == call), None)
            if first is None or first["task_id"] != name:
                return 404, {"title": "not found", "detail": f"task {name} has no call {call!r} that waits"}
            if first["approved"] == body["approved"]:
                return 200, first
            return 409, {"title": "conflict", "detail": f"{call} was decided by key:default before"}
        self.listed["approvals"].remove(waiting)
        self.decided.append(decided | {name: body[name] for name in ("approved", "args", "reason") if name in body})
        said = {"task_id": name, "tool_call_id": call, "approved": body["approved"], "by": "key:default"}
        self.say(waiting["session_id"], {"type": "approval", **said})
        return 200, self.decided[-1]

    def _result(self, name: str, call: str, body: Json) -> tuple[int, Json]:
        self.results.append((call, body))
        if self.result_answers:
            return self.result_answers.popleft()
        if self.on_result is not None:
            session = next(s for s, events in self.events.items() if any(e.get("task_id") == name for e in events))
            self.say(session, *self.on_result({**body, "task_id": name, "tool_call_id": call}))
        return 200, {}

    def _cancel(self, name: str) -> tuple[int, Json]:
        known = self.tasks.get(name)
        if known is not None and known["status"] in ("completed", "failed", "cancelled"):
            return 409, {"title": "conflict", "detail": f"{name} has ended"}
        self.cancelled.append(name)
        if self.on_cancel is not None:
            session = next(s for s, events in self.events.items() if any(e.get("task_id") == name for e in events))
            self.say(session, *self.on_cancel({"task_id": name}))
        return 202, {}


@dataclass(frozen=True)
class Request:
    """The head of an HTTP request."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]

    @classmethod
    def parse(cls, head: bytes) -> "Request":
        first, *lines = head.decode().strip().split("\r\n")
        method, target, _ = first.split(" ")
        url = urlsplit(target)
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        return cls(method, url.path, {k: v[0] for k, v in parse_qs(url.query).items()}, headers)


async def respond(writer: asyncio.StreamWriter, status: int, body: Json, headers: dict[str, str] | None = None) -> None:
    """Answer with a JSON document; a refusal is a problem document, as the real gateway's are."""
    data = json.dumps(body).encode()
    kind = "application/problem+json" if status >= 400 and "title" in body else "application/json"
    fields = {"Content-Type": kind, "Content-Length": str(len(data))} | (headers or {})
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", *(f"{k}: {v}" for k, v in fields.items())]
    writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + data)
    await writer.drain()


@asynccontextmanager
async def fake_gateway(**options: Any) -> AsyncIterator[FakeGateway]:
    """A running fake gateway on a free port of 127.0.0.1."""
    gateway = FakeGateway(**options)
    await gateway.start()
    try:
        yield gateway
    finally:
        await gateway.stop()
