"""The programs of ``examples/`` that bring their own system run as they stand, with the offline model."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes.up import ROOT
from tests.support.waiting import SLOW_START

OURS = ("PENTAD_", "LLM_", "EMBED_", "REDIS_", "PYTHONPATH")
SAYS = {
    "run_loop": [
        "start: weather in Shanghai?",
        "calling weather {'city': 'Shanghai'}",
        "result: Shanghai: 21 degrees, clear",
        "weather: Shanghai: 21 degrees, clear",
        "end: completed, 2 steps",
        "weather: Beijing: 21 degrees, clear",
        "transcript: user, assistant, tool, assistant, user, assistant, tool, assistant",
    ],
    "memory_kinds": [
        "working: my cat is called Ada",
        "working: 1 task",
        "episodic: We met Mimi Solberg in Tromso. (2026-07-01T12:00:00.000Z)",
        "opened: We met Mimi Solberg in Tromso.",
        "semantic: The ferry to Tromso leaves at nine. (rests on 1 statement)",
        "together: ['episodic', 'semantic', 'working']",
        "nodes: True",
        "cleared: 1 task",
        "said now: []",
        "known: []",
        "said: []",
    ],
    "simple_agent": [
        "calling calculator {'expression': '(15+27)*3-42/6'}",
        "result: 119",
        "complete: (15+27)*3-42/6 = 119",
        "streamed in pieces: True",
        "get_weather: 22 degrees in Beijing",
        "get_weather: 28 degrees in Shanghai",
        "1/0 could not be calculated: division by zero",
        "  user: get_weather in Beijing",
        "  assistant: calls a tool",
        "  tool: 22 degrees in Beijing",
        "  assistant: get_weather: 22 degrees in Beijing",
        "  user: and in Shanghai?",
        "  assistant: calls a tool",
        "  tool: 28 degrees in Shanghai",
        "  assistant: get_weather: 28 degrees in Shanghai",
        "  user: and what is 1/0?",
        "  assistant: calls a tool",
        "  tool: error: calculator: division by zero",
        "  assistant: 1/0 could not be calculated: division by zero",
    ],
    "agents": [
        "simple: I am Pentad's offline model",
        'simple: You said: "my cat is called Tom hello"',
        "history: ['user', 'assistant', 'user', 'assistant']",
        "cleared: []",
        "react: 119",
        "plan and solve: plan -> act -> summary",
        "known: ['Tom the cat likes fish.']",
    ],
    "handed_over": ["the shop opens", "shop_price: 4.5", "stock: 0", "the shop closes: 1 asked"],
    "graph": [
        "unknown: []",
        "asked: Print TEA with 3 words?",
        "status: RUNNING after 5 nodes",
        "path: draft -> draft -> draft -> look -> approve",
        "branches: ['words', 'title']",
        "calls: ['ask_user', 'count_words', 'improve', 'improve', 'improve', 'shout']",
        "end: COMPLETED True yes tea, draft 3",
    ],
    "tasks": [
        "what is 6*7? -> new (rule)",
        "By the way, please tell me the current time in Tokyo. -> new (similarity)",
        "and times 2? -> reopen (similarity)",
        "moved: 42*2 = 84",
        "Please write a report about green tea. -> new (similarity)",
        "meanwhile: 2**10 = 1024",
        "statuses: ['cancelled', 'completed', 'completed']",
        "what is 6*7? -> new (rule)",
        "By the way, please tell me the current time in Tokyo. -> reopen (rule)",
    ],
}


@pytest.mark.parametrize("name", SAYS)
async def test_an_example_runs_as_it_stands(name: str, tmp_path: Path) -> None:
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, str(ROOT / "examples" / f"{name}.py")],
        cwd=tmp_path,
        env={key: value for key, value in os.environ.items() if not key.startswith(OURS)} | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    told = [line for line in done.stderr.splitlines() if not line.startswith(SLOW_START)]
    assert (done.returncode, told) == (0, [])
    assert done.stdout.splitlines() == SAYS[name]


def test_every_example_is_run() -> None:
    assert {path.stem for path in (ROOT / "examples").glob("*.py")} == {*SAYS, "instructions"}
