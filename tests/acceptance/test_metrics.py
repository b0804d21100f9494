"""Every metric moves: six services, a real Redis and a scripted model are driven through what each one counts."""

import asyncio
import json
import math
import re
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import pentad
from pentad.contracts.streams import (
    ARCHIVE,
    DEAD,
    EMBED,
    HOOKS,
    HOOKS_REPLY,
    MEMORY_REPLY,
    STREAMS,
    TASK_WAKE,
    TOOL_CALLS,
)
from pentad.contracts.tool_servers import ToolServer
from pentad.shared import metrics
from pentad.shared.instructions.builtin import MEMORY_ARCHIVER, MEMORY_RETRIEVER
from pentad.shared.keys import MEMORY_COUNTS, TOOLS_REGISTRY, TaskKeys
from pentad.shared.memory.memory_counts import VECTORS
from pentad.shared.metrics import METRICS, Metric
from tests.support.clients.line import Line
from tests.support.mcp.entries import file_entry, raw
from tests.support.models.model_server import ScriptedModel
from tests.support.models.replies import MODEL, Reply, cut, fail, say
from tests.support.outside.webhook_receiver import SECRET
from tests.support.ports import free_port
from tests.support.processes.gates import plan, planned
from tests.support.processes.up import Up
from tests.support.redis.bus_client import Bus
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.acceptance

_SAMPLE = re.compile(r"^(\w+?)(?:\{(.*)\})? (\S+)$", re.MULTILINE)
_MAIL = frozenset({"user", "result", "cancel", "deadline", "timeout", "retry", "wait"})
"""Kinds of mail: posted to actors, and no entries of a stream."""
GRACE_S = 6


class Page:
    """What ``/metrics`` says."""

    def __init__(self, text: str) -> None:
        self.samples = [(name, _labels(labels), float(value)) for name, labels, value in _SAMPLE.findall(text)]

    def of(self, metric: Metric[Any], **labels: str) -> float:
        """The sum of a metric's samples with these labels; of a histogram how many values it was given."""
        name = f"{metric.name}_count" if metric.kind == "histogram" else metric.name
        return sum(value for said, given, value in self.samples if said == name and labels.items() <= given.items())

    def kinds(self, metric: Metric[Any], label: str, **labels: str) -> dict[str, float]:
        """A metric's samples by one label; those that have not moved are left out."""
        found: dict[str, float] = {}
        for name, given, value in self.samples:
            if name == metric.name and labels.items() <= given.items():
                found[given[label]] = found.get(given[label], 0) + value
        return {value: count for value, count in found.items() if count}


def _labels(text: str) -> dict[str, str]:
    return dict(re.findall(r'(\w+)="([^"]*)"', text))


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as reply:
        text: str = reply.read().decode()
    return text


class System:
    """The running system, its model and the ways to it."""

    def __init__(self, up: Up, url: str, bus: Bus, model: ScriptedModel, folder: Path) -> None:
        self.up, self.url, self.bus, self.model, self.folder = up, url, bus, model, folder

    async def page(self) -> Page:
        return Page(await asyncio.to_thread(_get, f"{self.url}/metrics"))

    async def turn(self, session: str, content: str, ends: int = 1, **fields: Any) -> dict[str, Any]:
        """Say something and wait for the ``ends``-th end in the session; returns it."""
        await self.bus.send(content, session, **fields)
        return (await self.bus.until(session, "task_end", ends))[ends - 1]

    async def cancel(self, task: str) -> None:
        request = urllib.request.Request(f"{self.url}/v1/tasks/{task}/cancel", method="POST")
        await asyncio.to_thread(lambda: urllib.request.urlopen(request, timeout=PATIENCE_S).close())

    async def move(self, task: str, message_id: str) -> None:
        body = json.dumps({"message_id": message_id, "to": "new"}).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}/v1/tasks/{task}/move", body, headers, method="POST")
        await asyncio.to_thread(lambda: urllib.request.urlopen(request, timeout=PATIENCE_S).close())

    async def rebuild(self, method: str) -> str | None:
        """Begin to rebuild the memory (POST) or look how far it is (GET); returns what it is at."""
        request = urllib.request.Request(f"{self.url}/v1/memory/rebuild", method=method)
        request.add_header("Authorization", f"Bearer {self.up.admin_key}")
        with await asyncio.to_thread(urllib.request.urlopen, request, timeout=PATIENCE_S) as answer:
            stage: str | None = json.load(answer)["stage"]
        return stage

    async def register(self, server: ToolServer) -> None:
        """Register an MCP server."""
        body = json.dumps(file_entry(server) | {"name": server.name}).encode()
        headers = {"Authorization": f"Bearer {self.up.admin_key}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}/v1/tools/servers", body, headers, method="POST")
        await asyncio.to_thread(lambda: urllib.request.urlopen(request, timeout=PATIENCE_S).close())

    async def webhook(self, url: str) -> None:
        """Register a webhook."""
        body = json.dumps({"url": url, "events": ["task_end"], "secret": SECRET}).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}/v1/webhooks", body, headers, method="POST")
        await asyncio.to_thread(lambda: urllib.request.urlopen(request, timeout=PATIENCE_S).close())

    async def until(self, what: str, ask: Callable[[Page], bool], seconds: float = PATIENCE_S) -> None:
        """Wait until a page says so."""

        async def there() -> bool:
            return ask(await self.page())

        await wait_until(what, there, seconds)


def script(held: asyncio.Event) -> Callable[[dict[str, Any]], Reply]:
    """A model that does what the last user message says, once; a message of a plan is played."""
    replies: Mapping[str, Iterator[Reply]] = {
        "refuse": iter([fail(400)]),
        "come back": iter([fail(503, retry_after=3)]),
        "break off": iter([cut(2)]),
        "talk": iter([say("never said to its end", chunks=6, wait=asyncio.Event(), wait_after=3)]),
        "be robbed": iter([say("never said to its end", chunks=6, wait=asyncio.Event(), wait_after=3)]),
        "think": iter([say("at last", chunks=4, wait=held, wait_after=2, cached=4)]),
    }

    def answer(request: dict[str, Any]) -> Reply:
        system = request["messages"][0]["content"]
        if MEMORY_ARCHIVER.system_prompt in system:
            return say('{"nodes":[],"edges":[]}')
        if MEMORY_RETRIEVER.system_prompt in system:
            return say('{"strategy":"none","start_nodes":[]}')
        said = next(m["content"] for m in reversed(request["messages"]) if m["role"] == "user")
        return next(replies.get(said, iter(())), None) or planned(request)

    return answer


@asynccontextmanager
async def system(folder: Path, held: asyncio.Event) -> AsyncIterator[System]:
    port = free_port()
    address = f"http://127.0.0.1:{port}/v1"
    entry = {"id": "one", "endpoint": address, "model": MODEL, "default": True, "prices": {"input": 1.0, "output": 2.0}}
    (models := folder / "models.json").write_text(json.dumps({"models": [entry]}))
    (policies := folder / "policies.toml").write_text(
        '[[policies]]\nname = "no"\nthen = "deny"\ntool = "echo"\nargs.text.equals = "denied"\n'
    )
    environment = {
        "PENTAD_POLICIES": str(policies),
        "PENTAD_MODELS": str(models),
        "PENTAD_PLUGINS": "tests.support.plugins.counted_tools",
        "PENTAD_TOOL_PROCESSES": "1",
        "PENTAD_LEASE_S": "3",
        "PENTAD_MAX_ATTEMPTS": "2",
        "PENTAD_GRACE_S": str(GRACE_S),
        "PENTAD_EVAL_CASES": str(folder / "cases"),
        "PENTAD_MCP_COMMANDS": "on",
    }
    async with ScriptedModel(script(held), port=port) as model:
        with Up(folder, environment) as up:
            url = await up.ready()
            async with Bus(up.redis_url) as bus:
                yield System(up, url, bus, model, folder)


async def test_every_metric_moves_by_what_happened(tmp_path: Path) -> None:
    held = asyncio.Event()
    async with system(tmp_path, held) as running, Line(running.url, "line") as line:
        for metric in METRICS:
            moves_by_itself = metric in (metrics.websockets, metrics.loop_delay_seconds, metrics.loop_held_seconds)
            assert moves_by_itself or not (await running.page()).of(metric), f"{metric.name} at the start"
        await line.turn("hello")
        begun = await begin_what_waits(running)
        await asyncio.gather(calls(running), ends(running), models(running), poison(running), embedding(running))
        shown = await gauges(running)
        held.set()
        (running.folder / "go").touch()
        await running.bus.until("waits", "task_end")
        await running.cancel(begun)
        await running.bus.until("holds", "task_end")
        await running.until("the archive", lambda page: page.of(metrics.archived, outcome="ok") >= 1)
        await settled(running)
        page = await running.page()
        exact(page)
        await appended(running, page)
        await hooks(running)
        await servers(running)
        await webhooks(running)
        await denies(running)
        limited = await limits(running)
        await retrieves(running)
        await schedules(running)
        await corrects(running)
        await erases(running)
        await loses_memory(running)
        await running.bus.redis.client_kill_filter(_type="normal", skipme=True)
        await running.until("connections made again", lambda page: page.of(metrics.reconnects, store="redis") > 0)
        page = await running.page()
    for metric in METRICS:
        assert page.of(metric) or shown.of(metric) or limited.of(metric), f"{metric.name} has not moved"
    for name, labels, value in page.samples:
        assert math.isfinite(value) or labels.get("le") == "+Inf", (name, labels, value)


async def begin_what_waits(running: System) -> str:
    """A step that the model holds up, with a message waiting behind it, and a call that is held: for the gauges."""
    await running.bus.send("think", "waits")
    await running.bus.until("waits", "content")
    await running.bus.send("and then?", "waits")
    await running.bus.until("waits", "message_routed", 2)
    await running.bus.send(plan([("holds", {"path": str(running.folder / "never")})]), "holds")
    await running.bus.until("holds", "tool_progress")
    task: str = (await running.bus.events("holds", "task_start"))[0]["task_id"]
    return task


async def calls(running: System) -> None:
    """Calls end in every way."""
    every = [("echo", {"text": "x"}), ("fails", {}), ("takes_too_long", {}), ("gives_up", {}), ("unheard_of", {})]
    await running.turn("calls", plan([*every, ("echo", {"nothing": "that fits"})]))
    await running.turn("dying", plan([("dies", {}), ("dies", {})]))
    await running.turn("late", plan([("holds", {"path": str(running.folder / "never")})]), deadline=await soon(running))


async def webhooks(running: System) -> None:
    """An event is to be sent to a name that leads inside."""
    await running.webhook("http://localhost:1/hook")
    await running.turn("hooked", "hello")
    await running.until("an attempt", lambda page: page.of(metrics.webhook_attempts, outcome="failed") >= 1)


async def soon(running: System) -> str:
    from pentad.contracts.ids import rfc3339

    seconds, micros = await running.bus.redis.time()
    return rfc3339(seconds * 1000 + micros // 1000 + 1500)


async def ends(running: System) -> None:
    """Turns end in every way, and tasks go through every status."""
    await running.bus.send("x", "refused", instruction="none-such")
    await running.bus.until("refused", "error")
    task = (await running.turn("again", "one"))["task_id"]
    await running.turn("again", "two", 2, task_id=task)  # opens it again
    await running.bus.send(plan([("echo", {"text": "x"})]), "asks", budget={"steps": 1})
    await running.bus.until("asks", "task_status")
    await running.turn("asks", "go on")


async def models(running: System) -> None:
    """Models answer, refuse, are away, break off, and are stopped."""
    await running.turn("m1", "refuse")
    await running.turn("m2", "come back")
    await running.turn("m3", "break off")
    await running.bus.send("talk", "m4")
    (content, *_) = await running.bus.until("m4", "content")
    await running.cancel(content["task_id"])
    await running.bus.until("m4", "task_end")
    await running.bus.send("be robbed", "m5")
    (content, *_) = await running.bus.until("m5", "content")
    await running.bus.redis.hincrby(TaskKeys(0, "default", content["task_id"]).header, "token", 1)
    await running.bus.until("m5", "task_end")


async def poison(running: System) -> None:
    """What cannot be read, what its handler cannot work with, and what a dead worker left."""
    await running.bus.add("pentad:inbound", json.dumps({"session_id": "bad"}))
    await running.bus.until("bad", "error")
    damaged = TaskKeys(0, "default", "task-0-damaged").header
    await running.bus.redis.hset(damaged, mapping={"status": "completed", "open": "junk"})
    await running.bus.add(ARCHIVE.key(0), '{"type":"wake_up","version":1,"actor":"default/task-0-damaged"}')
    await running.bus.add(ARCHIVE.key(0), "no json")
    await running.bus.until_letters(DEAD.key(0), 2)
    await running.bus.redis.delete(damaged)
    key, group = EMBED.key(0), EMBED.group or ""
    body = json.dumps(_embed("left"))
    # In one go, so that the service is not the quicker.
    pipe = running.bus.redis.pipeline(transaction=True)
    pipe.xadd(key, {"data": body})
    pipe.xreadgroup(group, "dead", {key: ">"}, count=1)
    await pipe.execute()
    await running.bus.answer("pentad:{0}:embed:reply:left")


def _embed(reply: str) -> dict[str, Any]:
    head = {"type": "embed_command", "version": 1, "event_id": f"e-{reply}", "at": "2030-01-01T00:00:00.000Z"}
    whose = {"tenant_id": "default", "session_id": "embedding"}
    return head | whose | {"texts": [f"text of {reply}"], "reply_to": f"pentad:{{0}}:embed:reply:{reply}"}


async def embedding(running: System) -> None:
    """One text twice."""
    for reply in ("a", "b"):
        await running.bus.answer(await running.bus.ask_to_embed(["the same"], reply))


async def gauges(running: System) -> Page:
    """A page on which all that comes and goes is there; housekeeping looks every five seconds."""
    await running.bus.redis.xgroup_create(EMBED.key(0), "nobody", id="0")

    shown: list[float] = []

    def all_shown(page: Page) -> bool:
        shown[:] = [
            page.of(metrics.pending, stream=TOOL_CALLS.name, group="tool-worker"),
            page.of(metrics.pending, stream=TASK_WAKE.name, group="task-runner"),
            page.of(metrics.lag, stream=EMBED.name, group="nobody"),
            page.of(metrics.waiting_mail, shard="0"),
        ]
        # The call that is held; the step that the model holds up; what nobody reads; its message and the one behind it.
        return shown == [1, 1, 3, 2]

    try:
        await running.until("the gauges", all_shown)
    except AssertionError as error:
        raise AssertionError(f"{error}: {shown}") from None
    page = await running.page()
    assert page.of(metrics.websockets) == 1
    return page


async def hooks(running: System) -> None:
    """Hooks of one instruction run, and end in every way."""
    ends = [(await running.turn(f"hooks-{how}", how, instruction="simple"))["status"] for how in HOOKED]
    assert ends == ["completed", "failed", "failed", "failed"]
    page = await running.page()
    assert page.kinds(metrics.hooks, "outcome", kind="before_model") == dict.fromkeys(HOOKED, 1)
    assert page.of(metrics.hooks) == len(HOOKED)
    added = (await running.bus.redis.xinfo_stream(HOOKS.key(0)))["entries-added"]
    assert page.of(metrics.published, stream=HOOKS.name) == page.of(metrics.published, stream=HOOKS_REPLY.name) == added


async def denies(running: System) -> None:
    """A policy denies a call."""
    assert (await running.turn("denied", plan([("echo", {"text": "denied"})])))["status"] == "completed"
    page = await running.page()
    assert page.of(metrics.approvals, outcome="denied") == page.of(metrics.approvals) == 1


async def limits(running: System) -> Page:
    """Calls wait for their turn, for a worker of their queue, and are refused. Return a page of while they wait."""
    await running.turn("fails", plan([("keeps_failing", {})]))
    await running.until("the breaker", lambda page: page.of(metrics.tool_calls, tool="keeps_failing") == 1)
    await running.turn("refused", plan([("keeps_failing", {})]))
    go = running.folder / "turns"
    await running.bus.send(plan([("takes_turns", {"path": str(go)})] * 3), "turns")
    spec = {"name": "nowhere", "queue": "nowhere"}
    at = (await running.bus.redis.time())[0] * 1000
    await running.bus.redis.hset(TOOLS_REGISTRY, "nowhere", json.dumps({"spec": spec, "beat": at}))
    await running.bus.add(TOOL_CALLS.key(0, queue="nowhere"), "nobody reads this")

    def waits(page: Page) -> bool:
        backlog = page.of(metrics.queue_backlog, queue="nowhere") == page.of(metrics.queue_backlog) == 1
        return backlog and page.of(metrics.tool_waiting, tool="takes_turns") == 2

    await running.until("calls to wait", waits)
    page = await running.page()
    assert page.kinds(metrics.tool_refusals, "tool") == {"keeps_failing": 1}
    go.touch()
    await running.bus.until("turns", "task_end")
    await running.until("no call to wait", lambda page: not page.of(metrics.tool_waiting))
    await running.bus.redis.hdel(TOOLS_REGISTRY, "nowhere")
    await running.bus.redis.delete(TOOL_CALLS.key(0, queue="nowhere"))
    return page


async def schedules(running: System) -> None:
    """A message at a due time is sent, and one that was due in a pause is not."""
    async with pentad.connect(running.url) as agent:
        await agent.management.add_schedule("hello", at=await soon(running), session_id="due")
        await running.bus.until("due", "task_end")
        paused = await agent.management.add_schedule("hello", every=60)
        await agent.management.pause_schedule(paused.schedule_id)
    await running.until("the run", lambda page: page.kinds(metrics.schedule_runs, "outcome") == {"sent": 1})


async def corrects(running: System) -> None:
    """A person moves a message, which is kept as an evaluation case."""
    task = (await running.turn("moves", "to be moved", message_id="moved"))["task_id"]
    await running.move(task, "moved")
    await running.bus.until("moves", "message_moved")
    await running.until("the case", lambda page: page.of(metrics.eval_cases, outcome="kept") == 1)


async def retrieves(running: System) -> None:
    """Something is known about a new task, and the rule would leave a part of it aside."""
    for text in ("The ferry leaves at nine", "A ferry is a boat"):
        body = json.dumps({"kind": "fact", "text": text}).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{running.url}/v1/memory/nodes", body, headers, method="POST")
        (await asyncio.to_thread(urllib.request.urlopen, request, timeout=PATIENCE_S)).close()
    await running.turn("walks", "When does the ferry leave?")
    await running.until("the choice", lambda page: page.of(metrics.retriever_seconds) == 1)


async def erases(running: System) -> None:
    """A task is erased everywhere."""
    task = (await running.turn("erased", "to be erased"))["task_id"]
    request = urllib.request.Request(f"{running.url}/v1/tasks/{task}", method="DELETE")
    await asyncio.to_thread(lambda: urllib.request.urlopen(request, timeout=5).close())
    await running.until("the erasing", lambda page: page.of(metrics.erased) == 1)


async def loses_memory(running: System) -> None:
    """The memory is rebuilt; later there were a thousand points in a collection that is no more."""
    await running.rebuild("POST")

    async def ended() -> bool:
        return await running.rebuild("GET") == "ended"

    await wait_until("the memory to be rebuilt", ended)
    await running.bus.redis.hset(MEMORY_COUNTS, "points gone", json.dumps({"found": 1_000, "removed": 0}))
    await running.until("the loss to be noticed", lambda page: page.of(metrics.memory_damaged, store=VECTORS) == 1)


async def settled(running: System) -> None:
    """Nothing is on its way any more."""
    last: list[str] = []

    async def quiet() -> bool:
        now = await asyncio.to_thread(_get, f"{running.url}/metrics")
        if Page(now).of(metrics.extractions) != Page(now).of(metrics.archived, outcome="ok"):
            return False
        shown = "\n".join(line for line in now.splitlines() if line.startswith("pentad_") and "_total" in line)
        last.append(shown)
        await asyncio.sleep(0.3)
        return len(last) > 3 and len(set(last[-3:])) == 1

    await wait_until("the counts to stay", quiet)


HOOKED = ("ok", "error", "timeout", "cancelled")
"""Outcomes of hooks, each of which is what a message says."""
MESSAGES = 17
"""Users' messages that were accepted; one more could not be read."""


def exact(page: Page) -> None:
    """What is known to have happened so often and no oftener."""
    assert page.of(metrics.consumed, stream="inbound") == MESSAGES
    assert page.kinds(metrics.decisions, "decision") == {"new": 13, "append": 2, "reopen": 1, "rejected": 1}
    turns = {"completed": 10, "failed": 2, "cancelled": 2, "waiting": 1, "rejected": 1}
    for outcome, count in turns.items():
        assert page.of(metrics.turn_seconds, outcome=outcome) == count, outcome
    statuses = {"active": 13 + 1 + 1, "completed": 10, "failed": 2, "cancelled": 2, "waiting": 1}
    assert page.kinds(metrics.tasks, "status") == statuses
    outcomes = {
        "echo": {"ok": 2, "error": 1},
        "fails": {"error": 1},
        "takes_too_long": {"timeout": 1},
        "gives_up": {"cancelled": 1},
        "unknown": {"error": 1},
        "dies": {"unknown": 2},
        "holds": {"cancelled": 1, "timeout": 1},
    }
    assert {tool: page.kinds(metrics.tool_calls, "outcome", tool=tool) for tool in outcomes} == outcomes
    assert page.of(metrics.tool_calls) == sum(sum(counts.values()) for counts in outcomes.values())
    for tool, count in {"echo": 3, "takes_too_long": 1, "fails": 1, "gives_up": 1, "dies": 0}.items():
        assert page.of(metrics.tool_seconds, tool=tool) == count, tool
    for outcome, count in {"refused": 1, "unavailable": 1, "cut_off": 1, "cancelled": 2}.items():
        assert page.of(metrics.model_seconds, outcome=outcome) == count, outcome
    assert page.of(metrics.step_seconds, outcome="failed") == 3
    assert page.of(metrics.step_seconds, outcome="interrupted") == 1
    assert page.of(metrics.step_seconds, outcome="lost") == page.of(metrics.lease_losses, service="task-runner") == 1
    extracted = page.of(metrics.extraction_tasks)
    assert page.of(metrics.extractions, outcome="answered") == page.of(metrics.archived, outcome="ok") >= extracted > 0
    assert (
        page.of(metrics.step_seconds, outcome="committed") == page.of(metrics.model_seconds, outcome="ok") - extracted
    )
    internal = {way: page.of(metrics.internal_tokens, direction=way) for way in ("input", "output")}
    assert internal == {
        way: page.of(metrics.internal_tokens, instruction="memory_archiver", direction=way) for way in internal
    }
    assert page.of(metrics.internal_usd) == pytest.approx((internal["input"] + 2 * internal["output"]) / 1e6)
    assert page.of(metrics.first_delta_seconds) == 9, "turns whose first step says something"
    assert page.kinds(metrics.dead, "stream") == {"archive": 2, "inbound": 1}
    assert page.kinds(metrics.failed, "stream") == {"archive": 2}
    assert page.of(metrics.redelivered, stream="embed") == 1
    assert page.kinds(metrics.embed_cache, "outcome") == {"miss": 2, "hit": 1}
    assert page.of(metrics.embed_batch) in (1, 2)
    for stream in (EMBED, ARCHIVE, TOOL_CALLS, TASK_WAKE):
        assert page.of(metrics.attempts, stream=stream.name) >= 1, stream.name
    spent = page.of(metrics.model_tokens, direction="input") + 2 * page.of(metrics.model_tokens, direction="output")
    assert page.of(metrics.model_tokens, direction="cached") == 4
    assert page.of(metrics.model_usd) == pytest.approx(spent / 1e6)
    assert page.of(metrics.model_state, service="task-runner", model="one") == 1, (
        "two of its calls failed, not enough to leave it alone"
    )
    assert page.of(metrics.model_tokens, direction="input") > page.of(metrics.model_tokens, direction="output") > 0


async def servers(running: System) -> None:
    """An MCP server is there, and another one ends whenever it is started."""
    await running.register(raw("there", "old"))
    await running.register(raw("gone", "exits"))
    await running.until("a server that is ready", lambda page: page.of(metrics.mcp_ready, server="there") == 1)
    await running.until("one that is not", lambda page: page.of(metrics.mcp_losses, server="gone") > 1)
    page = await running.page()
    assert (page.of(metrics.mcp_ready, server="gone"), page.of(metrics.mcp_losses, server="there")) == (0, 0)


async def appended(running: System, page: Page) -> None:
    """What the streams say was added to them is what was counted, and what the test has added itself."""
    ours = {"embed": 3, "archive": 2, "inbound": MESSAGES}
    for stream in STREAMS.values():
        pattern = re.sub(r"\{(?:tenant|session|queue|reply)\}", "*", stream.template).replace("{shard}", "{0}")
        added = 0
        async for key in running.bus.redis.scan_iter(match=pattern, _type="stream"):
            added += (await running.bus.redis.xinfo_stream(key))["entries-added"]
        if stream is MEMORY_REPLY:  # ends when nobody waits for an answer
            continue
        kinds = page.kinds(metrics.published, "type", stream=stream.name)
        counted = sum(count for kind, count in kinds.items() if kind not in _MAIL)
        assert counted + ours.get(stream.name, 0) == added, (stream.name, kinds)
    results = page.of(metrics.published, stream=TASK_WAKE.name, type="result")
    # Its task gives up a call that is cancelled; at the deadline it may be its worker.
    assert page.of(metrics.tool_calls) - results in (1, 2)
    assert page.of(metrics.published, stream=TASK_WAKE.name, type="user") == MESSAGES - 1
