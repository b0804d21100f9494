"""Nobody holds a service's event loop for long, whatever one client, model, tool or document does."""

import asyncio
import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from websockets.asyncio.client import ClientConnection, connect

from pentad.contracts.streams import EXTRACT
from pentad.shared.embedder.vectors import TEXTS_PER_REPLY
from pentad.shared.instructions.builtin import MEMORY_ARCHIVER, MEMORY_RETRIEVER, ROUTER
from pentad.shared.models.embeddings import MAX_DIMENSIONS
from tests.support.loop_delay import (
    ADMIN,
    ERASED_NODES,
    ERASED_USER,
    GREEDY,
    Case,
    DenseEmbedding,
    Holds,
    World,
    held_by,
    known_node,
    system,
)
from tests.support.models.replies import MODEL, Reply, call, raw, say
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.acceptance

ANSWER = 4 << 20
BODY = 1 << 20
AS_JSON = {"content-type": "application/json"}
CASES: dict[str, Case] = {}
OWN_QUESTIONS: dict[str, Case] = {}
"""Cases of a system that asks models by itself: what to learn, how to search, which vectors texts have."""


def case(name: str, of: dict[str, Case] = CASES) -> Callable[[Case], Case]:
    """One thing that somebody does at his worst."""

    def add(it: Case) -> Case:
        of[name] = it
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


@case("a model's large events")
async def _model_events(world: World) -> None:
    size = (9 << 20) - 4096
    for text in (
        b'{"a":' * (size // 5),
        b"[" * size,
        b'{"choices":[' + b'",' * (size // 2) + b"]}",
        b'{"choices":["' + b"\xff" * size + b'"]}',
        b'{"choices":["' + b"\\n" * (size // 2) + b'"]}',
        b'{"choices":["' + b"\\ud800" * (size // 6) + b'"]}',
        b'{"choices":["' + b'\\",' * (size // 3) + b'"]}',
        b'{"choices":[' + b"0.12345678," * 99_000 + b"1]}",
    ):
        await world.turn(raw(b"data: " + text + b"\n\n" + _event({"content": "a"}) + _event({}, "stop")), say("done"))


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


_NUMBERS = [1] * 2_000
_METADATA: tuple[dict[str, Any], ...] = (
    {"numbers": _NUMBERS},
    {"lists": [[]] * 1_350},
    {f"k{n}": "n" * 50 for n in range(64)},
    {"a": {"b": {"c": {"d": {"e": {"f": [_NUMBERS]}}}}}},
)
"""Metadata of many values, at the bounds of what is kept."""


@case("documents of many small values")
async def _small_values(world: World) -> None:
    for number, metadata in enumerate(_METADATA):
        for each in range(12):
            text = f"topic {each} of metadata {number} " + _filled("1, ", 1_900)
            node = {"kind": "fact", "text": text, "metadata": metadata, "user_id": "doc"}
            answer = await world.http.post("/v1/memory/nodes", json=node, headers=GREEDY)
            assert answer.status_code == 201, answer.text[:300]
            ends = {"source": answer.json()["id"], "target": world.hubs[each], "type": "related_to"}
            edge = {**ends, "text": _filled("a, ", 1_900), "metadata": metadata, "user_id": "doc"}
            answer = await world.http.post("/v1/memory/edges", json=edge, headers=GREEDY)
            assert answer.status_code == 201, answer.text[:300]
    for many in ('{"a":[' + "[]," * 300_000 + "[]]}", '{"a":[' + "1," * 500_000 + "1]}", '{"a":' * 150_000):
        body = '{"kind":"fact","text":"a","metadata":' + many + "}"
        answer = await world.http.post("/v1/memory/nodes", content=body, headers=GREEDY | AS_JSON)
        assert answer.status_code in (400, 413, 422), answer.text[:300]
    await _search(world, "topic 1 of metadata 1", user_id="doc", depth=6, limit=100)
    asked: dict[str, str | int] = {"user_id": "doc", "depth": 6, "limit": 200}
    answer = await world.http.get(f"/v1/memory/nodes/{world.hubs[0]}/neighbours", params=asked, headers=GREEDY)
    assert answer.status_code == 200, answer.text[:300]
    metadata = {f"k{n}": "n" * 250 for n in range(64)}
    await world.turn(metadata=metadata)


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
    ids = [
        known_node(ERASED_USER, n).id for n in (ERASED_NODES[0], ERASED_NODES[len(ERASED_NODES) // 2], ERASED_NODES[-1])
    ]
    asked = [world.http.get(f"/v1/memory/nodes/{each}", params={"user_id": "many"}, headers=GREEDY) for each in ids]
    return [answer.status_code for answer in await asyncio.gather(*asked)] == [404, 404, 404]


# Models that the system itself asks.


def _facts(count: int, chars: int) -> str:
    """Return an answer to `memory_archiver` with so many facts, each of so many characters."""
    node = {"kind": "fact", "text": "Ada " * (chars // 4), "importance": 1, "segments": [1] * 16}
    edge = {"from": "n0", "to": "n1", "type": "related_to", "weight": 1, "segments": [1] * 16}
    nodes = [{"id": f"n{n}", **node, "text": f"{n} {node['text']}"} for n in range(count)]
    return json.dumps({"nodes": nodes, "edges": [edge] * count})


_MOST_READ = (1 << 17) - 64
"""Characters of an answer that is read as JSON at all."""
_HOSTILE = {
    "line ends": say("\n" * ANSWER, chunks=64),
    "line ends in one piece": say("\n" * ANSWER),
    "brackets": say("{" * ANSWER, chunks=64),
    "fences": say(_filled("```json\n"), chunks=64),
    "thoughts": say("{}", thinking=_filled("think. "), chunks=64),
    "facts": say(_facts(100_000, 4), chunks=64),
    "nested": say('{"nodes":' * 100_000 + "1" + "}" * 100_000, chunks=64),
    "short line ends": say("\n" * _MOST_READ),
    "short brackets": say(_filled("{ [", _MOST_READ)),
    "short fences": say(_filled("```json\n", _MOST_READ)),
    "short objects": say("[" + _filled("{},", _MOST_READ) + "{}]"),
    "short nested": say("[" * (_MOST_READ // 2) + "]" * (_MOST_READ // 2)),
    "many facts": say(_facts(400, 8)),
    "long facts": say(_facts(60, 480)),
    "many problems": say(json.dumps({"nodes": [{"id": "n" * 99}] * 6_000, "edges": []})),
    "calls": call(*(("echo", {"text": "a"}) for _ in range(500))),
}
"""Answers that a model may give to any question whose answer must be JSON."""


@case("a model that says where messages belong", OWN_QUESTIONS)
async def _router_answers(world: World) -> None:
    for reply in _HOSTILE.values():
        session, before = f"s-{uuid4().hex[:8]}", world.asked[ROUTER.name]
        for opening in ("Find me a flight to Lisbon.", "Please book a table for four.", "Write a poem about leaves."):
            await world.turn(say("Which time suits you?"), said=opening, session_id=session, task_id="new")
        world.instructed[ROUTER.name] = reply
        await world.turn(said="Thursday at eleven would be better.", session_id=session)
        assert world.asked[ROUTER.name] > before


@case("a model that says how to search", OWN_QUESTIONS)
async def _retriever_answers(world: World) -> None:
    for number, reply in enumerate(_HOSTILE.values()):
        before = world.asked[MEMORY_RETRIEVER.name]
        world.instructed[MEMORY_RETRIEVER.name] = reply
        await world.turn(said=f"What do you know of topic {number % len(world.hubs)}?")
        assert world.asked[MEMORY_RETRIEVER.name] > before


@case("a model that says what to learn", OWN_QUESTIONS)
async def _archiver_answers(world: World) -> None:
    for reply in _HOSTILE.values():
        before = world.asked[MEMORY_ARCHIVER.name]
        world.instructed[MEMORY_ARCHIVER.name] = reply
        task = await world.turn(say("Ada lives in Oslo. " * 200), said="Where does Ada live?")
        answer = await world.http.post(f"/v1/tasks/{task}/archive", headers=GREEDY)
        assert answer.status_code < 300, answer.text[:300]
        await wait_until("what was learned to be written", partial(_is_learned, world, before))


async def _is_learned(world: World, before: int) -> bool:
    """Whether the model was asked more often than ``before``, and nothing is left to be learned."""
    groups = await world.bus.redis.xinfo_groups(EXTRACT.key(0))
    idle = all(group["pending"] == 0 and group["lag"] == 0 for group in groups)
    return idle and world.asked[MEMORY_ARCHIVER.name] > before


_VECTORS = 12 << 20
"""Bytes of an answer, more than are read of the vectors of as many texts as one request has."""


def _rows(*vectors: str) -> bytes:
    rows = ",".join(f'{{"index":{number},"embedding":{vector}}}' for number, vector in enumerate(vectors))
    return f'{{"data":[{rows}]}}'.encode()


def _embeddings() -> dict[str, bytes]:
    packed = "A" * (1 << 16)
    return {
        "blanks": b" " * _VECTORS,
        "brackets": b"[" * _VECTORS,
        "objects": b'{"a":' * (_VECTORS // 5),
        "quotation marks": b'{"data":[' + b'",' * (_VECTORS // 2 - 8),
        "line ends": b'{"data":"' + b"\\n" * (_VECTORS // 2 - 8) + b'"}',
        "no UTF-8": b'{"data":"' + b"\xff" * (_VECTORS - 16) + b'"}',
        "halves": b'{"data":"' + b"\\ud800" * (_VECTORS // 6 - 4) + b'"}',
        "numbers": _rows("[" + "0.12345678," * 100_000 + "1]"),
        "fewer numbers": _rows("[" + "0.12345678," * 40_000 + "1]"),
        "nested": _rows("[" * 100_000 + "]" * 100_000),
        "large numbers": _rows("[" + "9" * 400_000 + "]"),
        "rows": _rows(*["[]"] * 15_000),
        "base64": _rows(f'"{packed * 7}"'),
        "much base64": _rows(*[f'"{packed * 7}"'] * 64),
        "right count of long vectors": _rows(*["[" + "0.5," * 1_400 + "1]"] * 64),
        "unlike vectors": _rows(*["[" + "0.5," * n + "1]" for n in range(64)]),
    }


@case("an embedding server's bodies", OWN_QUESTIONS)
async def _embedding_bodies(world: World) -> None:
    try:
        for body in _embeddings().values():
            reply = Reply(error=body)
            world.model.refuses = lambda _, reply=reply: reply  # type: ignore[misc]
            keys = [await world.bus.ask_to_embed(_fresh(count), uuid4().hex) for count in (1, TEXTS_PER_REPLY)]
            for key in keys:
                await world.bus.answer(key)
            await world.http.get("/v1/memory/search", params={"q": f"topic {uuid4().hex}"}, headers=GREEDY)
    finally:
        world.model.refuses = lambda _: None
    await wait_until("texts to be embedded again", lambda: _is_searched(world))


def _fresh(count: int) -> list[str]:
    """Return texts that nobody has embedded yet."""
    return [uuid4().hex for _ in range(count)]


async def _is_searched(world: World) -> bool:
    answer = await world.http.get("/v1/memory/search", params={"q": f"topic {uuid4().hex}"}, headers=GREEDY)
    return answer.status_code == 200


@case("an embedding model of long vectors", OWN_QUESTIONS)
async def _long_vectors(world: World) -> None:
    keys = [await world.bus.ask_to_embed(_fresh(TEXTS_PER_REPLY), uuid4().hex) for _ in range(4)]
    for key in keys:
        assert len((await world.bus.answer(key))["vectors"]) == TEXTS_PER_REPLY
    for _ in range(3):
        await _search(world, f"topic {uuid4().hex}")
    text = "\n\n".join(f"{uuid4().hex} is one of many things." for _ in range(1_000))
    said = {"text": text, "user_id": "doc"}
    answer = await world.http.post("/v1/memory/episodes", json=said, headers=GREEDY)
    assert answer.status_code == 202, answer.text[:300]
    await _until_remembered(world)


@pytest.mark.slow
async def test_no_loop_is_held_for_long_whatever_one_client_model_or_tool_does(tmp_path: Path) -> None:
    async with system(tmp_path) as world:
        await _check(world, CASES)


@pytest.mark.slow
async def test_no_loop_is_held_for_long_whatever_a_model_answers_that_the_system_asks(tmp_path: Path) -> None:
    embedding = DenseEmbedding(MAX_DIMENSIONS)
    asks = {"EMBED_MODEL_TYPE": "openai", "EMBED_MODEL_NAME": embedding.name, "EMBED_BASE_URL": "{base_url}"}
    learns = {"PENTAD_EXTRACT": "auto", "PENTAD_RETRIEVE": "auto"}
    async with system(tmp_path, embedding, **asks, **learns) as world:
        await _check(world, OWN_QUESTIONS)


async def _check(world: World, cases: Mapping[str, Case]) -> None:
    await world.turn()
    holds = Holds(world.team)
    held = {name: await held_by(name, do, holds, world) for name, do in cases.items()}
    assert not {name: services for name, services in held.items() if services}
