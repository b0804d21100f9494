"""The plans of a chaos run: the tool calls that the model makes for each user message."""

import json
import random
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from tests.support.models.replies import Reply, call, say

Step = list[tuple[str, dict[str, Any]]]
TOOLS = ("slow_pure", "slow_idempotent", "slow_unsafe")
ALLOWED, SERVED, SCRIPT = "slow_allowed", "chaos__slow", "run_python"
UNSAFE = ("slow_unsafe", ALLOWED)
HANDS = (*TOOLS, ALLOWED, SERVED, SCRIPT)
"""Tools of a run with calls that a person has to allow, calls of an MCP server, and scripts."""
MOST_MS = 2000
"""Milliseconds that a tool call takes at most."""
_UNSEEN_MS = 300
"""Milliseconds of a call that writes nothing into the ledger: its work counts as silence of the task."""
_DEADLY = 0.08
"""Share of the calls whose first run kills its process."""
_THINK_S, _CHUNKS, _CHUNK_S = 0.3, 8, 0.05


def make_plan(
    rng: random.Random, number: int, deadly: float = _DEADLY, most_ms: int = MOST_MS, tools: Sequence[str] = TOOLS
) -> list[Step]:
    """One to four tool calls in one to three model answers."""
    calls = [_call(rng, rng.choice(tools), f"{number}.{n}", deadly, most_ms) for n in range(rng.randint(1, 4))]
    steps: list[Step] = []
    for one in calls:
        if steps and rng.random() < 0.5:
            steps[-1].append(one)
        else:
            steps.append([one])
    return steps


def _call(rng: random.Random, tool: str, tag: str, deadly: float, most_ms: int) -> tuple[str, dict[str, Any]]:
    if tool == SERVED:
        return tool, {"ms": rng.randint(0, _UNSEEN_MS), "tag": tag}
    if tool == SCRIPT:
        seconds = rng.randint(0, _UNSEEN_MS) / 1000
        return tool, {"code": f"import time\ntime.sleep({seconds})\nprint({tag!r})"}
    return tool, _arguments(rng, tag, deadly, most_ms)


def _arguments(rng: random.Random, tag: str, deadly: float, most_ms: int) -> dict[str, Any]:
    arguments = {"ms": rng.randint(0, most_ms), "tag": tag}
    return arguments | ({"die": rng.choice(("exit", "kill"))} if rng.random() < deadly else {})


class Model:
    """Plays the plan of the last user message step by step, and records the times of its answers."""

    def __init__(self) -> None:
        self.thinking: dict[int, list[tuple[float, float]]] = defaultdict(list)
        """Spans in which an answer was due, by task and the monotonic clock."""
        self._plans: dict[str, tuple[int, Sequence[Step]]] = {}

    def plan(self, message: str, task: int, steps: Sequence[Step]) -> None:
        """Set the plan for a user message."""
        self._plans[message] = task, steps

    def script(self, request: dict[str, Any]) -> Reply:
        """Return the answer to a request."""
        messages = request["messages"]
        if messages[-1]["content"].startswith('{"segments":'):
            return self._learned(json.loads(messages[-1]["content"])["segments"])
        last = max(i for i, m in enumerate(messages) if m["role"] == "user")
        task, steps = self._plans[messages[last]["content"]]
        done = sum(1 for m in messages[last:] if m["role"] == "assistant")
        if done < len(steps):
            return self.asks(task, steps[done])
        return self.answers(task, f"task {task} is done, and this is what its answer looks like")

    def _learned(self, segments: Sequence[Mapping[str, Any]]) -> Reply:
        """Return the knowledge from a task: the user's own sentences."""
        said = [segment for segment in segments if segment["text"] in self._plans]
        nodes = [
            {"id": f"a{s['n']}", "kind": "fact", "text": s["text"], "importance": 0.8, "segments": [s["n"]]}
            for s in said
        ]
        return say(json.dumps({"nodes": nodes, "edges": []}))

    def asks(self, task: int, step: Sequence[tuple[str, Any]]) -> Reply:
        """Return an answer with the tool calls of a step."""
        self._thinks(task, _THINK_S)
        return call(*((name, args) for name, args in step), first_delay=_THINK_S)

    def answers(self, task: int, text: str) -> Reply:
        """Return a text answer in pieces."""
        self._thinks(task, _CHUNKS * _CHUNK_S)
        return say(text, chunks=_CHUNKS, delay=_CHUNK_S)

    def _thinks(self, task: int, seconds: float) -> None:
        self.thinking[task].append((time.monotonic(), time.monotonic() + seconds))
