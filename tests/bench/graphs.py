"""What graphs cost beside single steps, routing and tool hops, against a scripted model without delay."""

import json
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from tests.bench.common import Effort, Row, middle
from tests.bench.processes import model, six, up

BRANCHES = 2
_ANYTHING = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def _llm(key: str) -> dict[str, Any]:
    return {"key": key, "kind": "llm", "system_prompt": "Answer.", "tools": []}


def _line(name: str, *nodes: Mapping[str, Any]) -> dict[str, Any]:
    """A graph of nodes that follow each other."""
    keys = [node["key"] for node in nodes]
    edges = [{"from": a, "to": b} for a, b in pairwise(keys)]
    return {"name": name, "nodes": list(nodes), "edges": edges, "entry": keys[0], "ends": [keys[-1]]}


def _fan() -> dict[str, Any]:
    branches = [f"b{n}" for n in range(BRANCHES)]
    fan = {"key": "fan", "kind": "parallel", "branches": branches, "join": "all", "then": "last"}
    nodes = [fan, *map(_llm, branches), _llm("last")]
    return {"name": "fan", "nodes": nodes, "edges": [], "entry": "fan", "ends": ["last"]}


def _asked_again(repairs: int) -> dict[str, Any]:
    """An instruction whose answer never fits: it makes so many steps more."""
    form = {"output": "json", "output_schema": _ANYTHING, "repairs": repairs}
    return {"name": f"again{repairs}", "system_prompt": "Answer.", "tools": [], **form}


MORE = 4
"""Steps that the longer of the two instructions makes more."""
RUNNABLES = {
    "instructions": [{"name": "one", "system_prompt": "Answer.", "tools": []}, _asked_again(0), _asked_again(MORE)],
    "graphs": [
        _line("three", _llm("a"), _llm("b"), _llm("c")),
        _line("tool", {"key": "t", "kind": "tool", "tool": "echo", "args": {"text": "x"}}, _llm("last")),
        _fan(),
    ],
}
NAMES = ("one", "again0", f"again{MORE}", "three", "tool", "fan")


async def run(effort: Effort) -> list[Row]:
    """The rows of graphs."""
    rows: list[Row] = []
    with TemporaryDirectory(prefix="pentad-bench-") as folder:
        (file := Path(folder) / "graphs.json").write_text(json.dumps(RUNNABLES))
        async with model() as (pid, url):
            for name, start in (("six processes", six), ("up", up)):
                async with start(pid, url, PENTAD_INSTRUCTIONS=str(file)) as running:
                    rows += _rows(name, await _measured(running.url, effort))
    return rows


async def _measured(url: str, effort: Effort) -> Mapping[str, float]:
    """Milliseconds of a turn of each kind, the medians of turns that take turns with each other."""
    times: dict[str, list[float]] = {name: [] for name in NAMES}
    for number in range(effort(80, 12) + 3):
        for name in NAMES:
            session = f"bench-{name}-{number}"
            address = f"{url.replace('http', 'ws', 1)}/v1/ws?session_id={session}"
            async with connect(address, proxy=None, max_size=None) as socket:
                await socket.recv()
                spent = await _turn(socket, name)
            if number >= 3:  # the first warm everything up
                times[name].append(spent * 1e3)
    return {name: middle(found) for name, found in times.items()}


async def _turn(socket: ClientConnection, name: str) -> float:
    begun = time.perf_counter()
    await socket.send(json.dumps({"type": "message", "content": "go", "instruction": name}))
    while True:
        told = json.loads(await socket.recv())
        if told["type"] == "task_end" and not told.get("parent_task_id"):
            return time.perf_counter() - begun


def _rows(where: str, ms: Mapping[str, float]) -> Sequence[Row]:
    step = (ms[f"again{MORE}"] - ms["again0"]) / MORE
    nodes, hop = ms["three"] - ms["one"], ms["tool"] - ms["one"]
    branch = ms["fan"] - ms["one"] - step
    return (
        Row(
            f"graph: three nodes, {where}",
            f"{ms['three']:.1f} ms, {nodes:.1f} more than one step",
            f"one step {ms['one']:.1f} ms, two more {2 * step:.1f}",
            "routing and three single steps",
            ms["three"] <= ms["one"] + 2 * step * 1.25,
            {"three_ms": ms["three"], "one_ms": ms["one"], "step_ms": step},
        ),
        Row(
            f"graph: {BRANCHES} branches at once, {where}",
            f"{branch:.1f} ms beside their own step",
            f"a tool hop {hop:.1f} ms",
            "1.5 tool hops",
            branch <= 1.5 * hop,
            {"branch_ms": branch, "hop_ms": hop, "fan_ms": ms["fan"]},
        ),
    )
