"""Nobody holds a service's event loop for long, whatever one client, model, tool or document does.

The promise is about time, and a test machine has neighbours who take time from it. So what counts here is
`pentad_loop_held_seconds`: of each delay of a loop the part in which its own process worked, in processor time. While
the machine gives a process no turn its processor time stands still, so a busy neighbour adds nothing to it. What is
left are caches and cores that a neighbour makes slower: a case that held a loop for too long is tried again, and only
what holds it each time is a fault.
"""

import asyncio
import json
import re
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest
from websockets.asyncio.client import ClientConnection, connect

from pentad.contracts.records import Anchor, SegmentType
from pentad.shared import metrics
from pentad.shared.graph.knowledge import EdgeType, MemoryEdge, MemoryNode, NodeKind, Support
from pentad.shared.graph.merging import node_id
from pentad.shared.graph.sqlite_graph import SqliteGraph
from pentad.shared.memory.nodes import node_point
from pentad.shared.memory.true_times import times_of
from pentad.shared.owners import Owner
from pentad.shared.segments.anchors import anchor_text, quote_digest
from pentad.shared.vectors.edge_vectors import EdgeVectors
from pentad.shared.vectors.limits import MOST_POINTS
from tests.support.models.model_server import ScriptedModel
from tests.support.models.replies import MODEL, Reply, call, raw, say
from tests.support.ports import free_port
from tests.support.processes.crew import Crew, crew
from tests.support.processes.system import MODULES, Process
from tests.support.redis.bus_client import Bus
from tests.support.redis.redis_server import RedisServer
from tests.support.remembering import COLLECTION
from tests.support.remembering import MODEL as EMBEDDING
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.acceptance

BOUND_S = 0.1
"""What no loop is held for."""
TRIES = 3
ANSWER = 4 << 20
BODY = 1 << 20
AS_JSON = {"content-type": "application/json"}
GREEDY = {"authorization": "Bearer greedy-key"}
ADMIN = {"authorization": "Bearer admin-key"}
NODES, HUBS, POINTS = 2_000, 12, 400
MANY = Owner("greedy", "many")
_MANYS = range(15, NODES, 5)
"""The nodes of a user who is erased."""
"""Of the memory that is searched: nodes, those that all others lead to, nodes that searches find; nodes of the user who
is erased at the end, at least.
"""


@dataclass
class World:
    """The running system, and the model's next answers by what is said."""

    team: Crew
    url: str
    bus: Bus
    http: httpx2.AsyncClient
    replies: dict[str, list[Reply]]
    hubs: list[str]
    """Ids of nodes of the greedy tenant to which all others lead."""

    async def turn(self, *replies: Reply, **fields: Any) -> str:
        """Say something that the model answers so, step by step, and wait for the turn's end; returns its task."""
        content = f"say {uuid4().hex}"
        self.replies[content] = list(replies) or [say("ok")]
        body = {"content": content, "session_id": f"s-{uuid4().hex[:12]}", **fields}
        answer = await self.http.post("/v1/messages?wait=60", json=body, headers=GREEDY)
        assert answer.status_code == 200, answer.text[:500]
        return str(answer.json()["task_id"])


Case = Callable[[World], Awaitable[None]]
CASES: dict[str, Case] = {}


def case(name: str) -> Callable[[Case], Case]:
    """One thing that somebody does at his worst."""

    def add(it: Case) -> Case:
        CASES[name] = it
        return it

    return add


# A client.


def _bodies() -> dict[str, bytes]:
    many = {f"field-{n}": "a" for n in range(60_000)}
    return {
        "many fields": json.dumps({"content": "hi", "metadata": many}).encode()[:BODY],
        "many metadata": json.dumps({"content": "hi", "metadata": dict(list(many.items())[:40_000])}).encode(),
        "brackets": b"[" * BODY,
        "arrays": b'{"content":"hi","x":[' + b"[]," * 300_000 + b"[]]}",
        "objects": b'{"content":"hi","x":[' + b'{"a":1},' * 120_000 + b"1]}",
        "numbers": b'{"content":"hi","x":[' + b"1e5," * 250_000 + b"1]}",
        "line ends": json.dumps({"content": "\n" * 65_536}).encode(),
        "cancelling": json.dumps({"content": ("cancel that, no, " * 4_096)[:65_536]}).encode(),
        "signs": json.dumps({"content": "!? " * 21_000}).encode(),
        "letters": json.dumps({"content": "我" * 65_536}).encode(),
        "names": json.dumps({"content": ("Ada Li of O'Hara " * 4_000)[:65_536]}).encode(),
    }


@case("a client's bodies")
async def _client_bodies(world: World) -> None:
    for body in _bodies().values():
        sent = (world.http.post("/v1/messages?wait=30", content=body, headers=GREEDY | AS_JSON) for _ in range(2))
        answers = await asyncio.gather(*sent)
        assert {each.status_code // 100 for each in answers} <= {2, 4}, [each.text[:200] for each in answers]


@case("a client's frames")
async def _client_frames(world: World) -> None:
    url = f"{world.url.replace('http', 'ws', 1)}/v1/ws?session_id=s-{uuid4().hex[:8]}"
    async with connect(url, additional_headers=GREEDY, max_size=None, proxy=None) as socket:
        listening = asyncio.create_task(_pongs(socket, 2_000))
        for body in _bodies().values():
            if len(body) <= BODY - 100:
                await socket.send(body.decode().replace("{", '{"type":"message",', 1))
        for _ in range(2_000):
            await socket.send('{"type":"ping"}')
        async with asyncio.timeout(PATIENCE_S):
            await listening


async def _pongs(socket: ClientConnection, left: int) -> None:
    while left:
        left -= json.loads(await socket.recv())["type"] == "pong"


@case("a client's many messages in one session")
async def _client_messages(world: World) -> None:
    session = f"s-{uuid4().hex[:8]}"
    bodies = [{"content": f"{n}: " + "word " * 1_000, "session_id": session} for n in range(150)]
    answers = await asyncio.gather(*(world.http.post("/v1/messages", json=body, headers=GREEDY) for body in bodies))
    assert {each.status_code for each in answers} <= {202, 429}
    last = await world.http.post(
        "/v1/messages?wait=60", json={"content": "and this", "session_id": session}, headers=GREEDY
    )
    assert last.status_code < 300, last.text[:300]


@case("a client that reads a long task")
async def _client_reads(world: World) -> None:
    session, task = f"s-{uuid4().hex[:8]}", ""
    for piece in ("\n", "word ", "我", '"'):
        about = {"session_id": session} | ({"task_id": task} if task else {})
        task = await world.turn(say(_filled(piece, ANSWER // len(piece.encode()) - 16), chunks=16), **about)
    for path in (f"tasks/{task}/transcript", f"sessions/{session}/messages", "tasks?limit=500", f"tasks/{task}"):
        answer = await world.http.get(f"/v1/{path}", headers=GREEDY)
        assert answer.status_code == 200, answer.text[:300]


# A model.


def _event(delta: Mapping[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: " + json.dumps({"id": "x", "model": MODEL, "choices": [choice]}).encode() + b"\n\n"


def _filled(piece: str, size: int = ANSWER) -> str:
    return piece * (size // len(piece))


_TEXTS = ("\n", "```\n", "{", '{"a":', "<think>", "<recalled>\n", '"', "我")


@case("a model's long answers")
async def _model_texts(world: World) -> None:
    for piece in _TEXTS:
        await world.turn(say(_filled(piece, ANSWER // len(piece.encode()) - 16), chunks=64))


@case("a model's answer in one piece")
async def _model_piece(world: World) -> None:
    for piece in ("word ", "\n", "<"):
        await world.turn(say(_filled(piece, ANSWER - 16)))


@case("a model's tiny pieces")
async def _model_tiny(world: World) -> None:
    piece = _event({"content": "a"})
    await world.turn(raw(_event({"role": "assistant"}) + piece * 20_000 + _event({}, "stop") + b"data: [DONE]\n\n"))
    await world.turn(raw(b": \n\n" * 200_000 + _event({"content": "a"}) + _event({}, "stop") + b"data: [DONE]\n\n"))


@case("a model's many calls")
async def _model_calls(world: World) -> None:
    await world.turn(call(*(("echo", {"text": "a"}) for _ in range(1_500))), say("done"))


@case("a model's large arguments")
async def _model_arguments(world: World) -> None:
    for args in (
        json.dumps({"text": "a" * (1 << 20)}),
        '{"text":"' + "\n" * (1 << 20) + '"}',
        '{"text":[' + "[]," * (1 << 19) + "[]]}",
        "[" * (3 << 20),
        '{"text":' * (1 << 17),
        '{"a":"b",' * 9_000 + '"text":"x",}',
        json.dumps({f"k{n}": n for n in range(100_000)}),
        json.dumps({"text": "\\'" * (1 << 19)}),
    ):
        await world.turn(call(("echo", args)), say("done"))


@case("a model's JSON answers")
async def _model_json(world: World) -> None:
    alternatives = [{"properties": {f"a{n}": {"type": "string", "pattern": "^(a+)+$"}}} for n in range(300)]
    schema = {"type": "array", "items": {"anyOf": alternatives}}
    made = {"name": "judge", "system_prompt": "Judge.", "output": "json", "output_schema": schema, "repairs": 0}
    answer = await world.http.post("/v1/instructions", json=made, headers=ADMIN)
    assert answer.status_code < 300, answer.text[:300]
    for text in (
        json.dumps([{f"a{n}": "a" * 30 + "!"} for n in range(300)]),
        "[" + "{}," * (1 << 20) + "{}]",
        "```json\n" * (1 << 18),
        "{ [" * (1 << 20),
        "[1] " * (1 << 18),
    ):
        await world.turn(say(text, chunks=16), instruction="judge")


# A tool.


@case("a tool's results")
async def _tool_results(world: World) -> None:
    for what in ("lines", "signs", "json"):
        await world.turn(call(("give_text", {"of": what})), say("done"))
    await world.turn(call(("give_image", {"of": "png"})), say("done"))
    await world.turn(call(*(("give_text", {"of": "lines"}) for _ in range(5))), say("done"))


@case("a tool's values")
async def _tool_values(world: World) -> None:
    for depth, width in ((90, 0), (5_000, 0), (1, 150_000)):
        await world.turn(call(("give_values", {"depth": depth, "width": width})), say("done"))


@case("a tool's progress")
async def _tool_progress(world: World) -> None:
    await world.turn(call(("say_progress", {"times": 20_000, "length": 10})), say("done"))
    await world.turn(call(("say_progress", {"times": 200, "length": 100_000})), say("done"))


# A document: what is remembered, and who asks for it.


async def _search(world: World, question: str, **asked: Any) -> None:
    answer = await world.http.get("/v1/memory/search", params={"q": question, **asked}, headers=GREEDY)
    assert answer.status_code in (200, 422, 429), answer.text[:300]


@case("a tenant's deep searches")
async def _deep_searches(world: World) -> None:
    ways = [(strategy, n) for n in range(5) for strategy in ("bfs", "dfs", "astar", "auto")]
    await asyncio.gather(
        *(_search(world, f"what is known of topic {n}?", strategy=way, depth=6, limit=100) for way, n in ways)
    )
    starts = [f"/v1/memory/nodes/{world.hubs[n]}/neighbours" for n in range(2)]
    for way in ("bfs", "dfs", "astar"):
        asked = {"depth": 6, "limit": 200, "strategy": way}
        answers = await asyncio.gather(*(world.http.get(start, params=asked, headers=GREEDY) for start in starts))
        assert {answer.status_code for answer in answers} == {200}, [answer.text[:200] for answer in answers]


@case("long questions")
async def _long_questions(world: World) -> None:
    for piece in ("a ", "Ada Li of ", "topic 1 ", "我", "1-1-1 ", "!?"):
        await _search(world, _filled(piece, 2_000), strategy="astar", depth=6, limit=100)


@case("long statements and episodes")
async def _long_documents(world: World) -> None:
    for piece in ("Ada Li of O'Hara. ", "\n", "a. ", "我们。", "1, 2; ", '"a" ', "I like Oslo. "):
        text = _filled(piece, 65_000) + "a"
        answer = await world.http.post("/v1/memory/episodes", json={"text": text, "user_id": "doc"}, headers=GREEDY)
        assert answer.status_code == 202, answer.text[:300]
    node = {"kind": "fact", "text": _filled("Ada Li ", 2_000), "user_id": "doc"}
    answer = await world.http.post("/v1/memory/nodes", json=node, headers=GREEDY)
    assert answer.status_code == 201, answer.text[:300]
    await _until_remembered(world)


async def _until_remembered(world: World) -> None:
    """Wait until the archiver has nothing more to remember."""

    async def done() -> bool:
        answer = await world.http.get("/v1/memory/stats", headers=GREEDY)
        assert answer.status_code == 200, answer.text[:300]
        return bool(answer.json()["lag_s"] == 0)

    await wait_until("all to be remembered", done)


@case("an erasure of much")
async def _erasure(world: World) -> None:
    assert not await _are_gone(world)
    for user in ("many", "doc"):
        assert (await world.http.delete(f"/v1/users/{user}", headers=GREEDY)).status_code == 202
    await wait_until("what was erased to be gone", lambda: _are_gone(world))


async def _are_gone(world: World) -> bool:
    """Whether nothing is there any more of the first, one in the middle and the last of the nodes that are erased."""
    ids = [_node(MANY, n).id for n in (_MANYS[0], _MANYS[len(_MANYS) // 2], _MANYS[-1])]
    asked = [world.http.get(f"/v1/memory/nodes/{each}", params={"user_id": "many"}, headers=GREEDY) for each in ids]
    return [answer.status_code for answer in await asyncio.gather(*asked)] == [404, 404, 404]


async def _fill(folder: Path) -> list[str]:
    """A memory of some thousand nodes and notes, some of which all others lead to; ids of these."""
    owner = Owner("greedy")
    hubs = [_node(owner, n, rests=500) for n in range(HUBS)]
    nodes = [_node(MANY if n in _MANYS else owner, n) for n in range(HUBS, NODES)]
    edges = [
        MemoryEdge(each.owner, each.id, hub.id, EdgeType.RELATED_TO, 0.5 + (n % 50) / 100, 1, each.supports)
        for n, each in enumerate(nodes)
        for hub in hubs
    ]
    graph = SqliteGraph(folder / "memory" / "graph" / "graph.db", timeout_s=60)
    for begin in range(0, NODES, 500):
        await graph.upsert_nodes([*hubs, *nodes][begin : begin + 500])
    for begin in range(0, len(edges), 1_000):
        await graph.upsert_edges(edges[begin : begin + 1_000])
    await graph.aclose()
    vectors = EdgeVectors(folder / "memory" / "vectors", timeout_s=60)
    await vectors.prepare(COLLECTION, EMBEDDING.dimensions)
    some = [*hubs, *nodes[:POINTS]]
    made = zip(some, await EMBEDDING.embed([node.text for node in some]), strict=True)
    points = [node_point(node, "s1", vector, times_of(node, ())) for node, vector in made]
    for begin in range(0, len(points), MOST_POINTS):
        await vectors.upsert(COLLECTION, points[begin : begin + MOST_POINTS])
    await vectors.aclose()
    return [hub.id for hub in hubs]


def _node(owner: Owner, number: int, rests: int = 1) -> MemoryNode:
    text = f"topic {number} is about Ada and Oslo " + "and more " * 10
    supports = tuple(
        Support(anchor_text(_anchor(number, place)), f"task-0-{number:020x}", owner.user, 1 + place)
        for place in range(rests)
    )
    name = node_id(owner, NodeKind.FACT, text)
    return MemoryNode(name, owner, NodeKind.FACT, text, 0.5, 1, supports)


def _anchor(number: int, place: int) -> Anchor:
    at, task = "2026-01-01T00:00:00.000Z", f"task-0-{number:020x}"
    return Anchor(
        task_id=task,
        step=0,
        position=place,
        part=0,
        segment=0,
        start=0,
        end=9,
        type=SegmentType.USER_MESSAGE,
        at=at,
        quote=quote_digest("topic"),
    )


@asynccontextmanager
async def system(folder: Path) -> AsyncIterator[World]:
    port = free_port()
    environment = {
        "LLM_BASE_URL": f"http://127.0.0.1:{port}/v1",
        "LLM_MODEL_ID": MODEL,
        "PENTAD_PLUGINS": "tests.support.plugins.heavy_tools",
        "PENTAD_API_KEYS": "greedy-key:greedy,modest-key:modest",
        "PENTAD_ADMIN_KEY": "admin-key",
        "PENTAD_STEP_TIMEOUT_S": "60",
    }
    replies: dict[str, list[Reply]] = {}

    def answer(request: dict[str, Any]) -> Reply:
        said = next((m["content"] for m in reversed(request["messages"]) if m["role"] == "user"), "")
        key = next((name for name in replies if name in said), "")
        left = replies.get(key, [])
        return (left.pop(0) if len(left) > 1 else left[0]) if left else say("ok")

    hubs = await _fill(folder)
    counts = dict.fromkeys(MODULES, 1)
    async with ScriptedModel(answer, port=port, record=False):
        with RedisServer() as redis:
            async with (
                crew(redis.url, folder, counts, **environment) as team,
                Bus(redis.url) as bus,
                httpx2.AsyncClient(base_url=team.named("gateway")[0].url, trust_env=False, timeout=90) as http,
            ):
                yield World(team, team.named("gateway")[0].url, bus, http, replies, hubs)


class Holds:
    """How often each service's loop was held for longer than the bound."""

    def __init__(self, team: Crew) -> None:
        self._team = team
        self._before: dict[str, dict[float, float]] = {}

    async def begin(self) -> None:
        """Count from now on."""
        self._before = {process.name: await _buckets(process) for process in self._team.processes}

    async def longest(self) -> dict[str, float]:
        """By service the bound under which the longest hold since then stayed."""
        found = {}
        for process in self._team.processes:
            now, before = await _buckets(process), self._before[process.name]
            since = {bound: count - before[bound] for bound, count in now.items()}
            found[process.name] = next(bound for bound, count in since.items() if count == since[float("inf")])
        return found


async def _buckets(process: Process) -> dict[float, float]:
    page = await asyncio.to_thread(_page, process.url)
    name = metrics.loop_held_seconds.name
    return {float(le): float(n) for le, n in re.findall(rf'^{name}_bucket{{le="(\S+?)"}} (\S+)$', page, re.MULTILINE)}


def _page(url: str) -> str:
    request = urllib.request.Request(f"{url}/metrics", headers=ADMIN)
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as reply:
        text: str = reply.read().decode()
    return text


async def _held(holds: Holds, world: World, name: str, do: Case) -> dict[str, float]:
    """The services that this case has held for too long each time, with the bound under which the shortest stayed."""
    shortest: dict[str, float] = {}
    for _ in range(TRIES):
        await holds.begin()
        await do(world)
        longest = await holds.longest()
        shortest = {service: min(bound, shortest.get(service, bound)) for service, bound in longest.items()}
        if max(longest.values()) <= BOUND_S:
            return {}
    return {service: bound for service, bound in shortest.items() if bound > BOUND_S}


@pytest.mark.slow
async def test_no_loop_is_held_for_long_whatever_one_client_model_or_tool_does(tmp_path: Path) -> None:
    async with system(tmp_path) as world:
        await world.turn()
        holds = Holds(world.team)
        held = {name: await _held(holds, world, name, do) for name, do in CASES.items()}
    assert not {name: services for name, services in held.items() if services}
