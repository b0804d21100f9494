"""The test's side of `gated_tools`, and the scripted model that asks for what a message says."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.models.replies import Reply, call, say

PLUGIN = "tests.support.plugins.gated_tools"


@dataclass(frozen=True)
class Started:
    """A line of the ledger."""

    word: str
    tag: str
    pid: int
    attempt: int
    call: str


class Gates:
    """The folder of gates."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def environment(self) -> dict[str, str]:
        """What the services need to run the tools."""
        return {"GATES": str(self.folder), "PENTAD_PLUGINS": PLUGIN, "PENTAD_TOOL_ENV": "GATES"}

    def open(self, gate: str) -> None:
        """Let everybody through who waits for this gate, now and later."""
        (self.folder / gate).touch()

    def ledger(self, word: str = "start", tag: str = "") -> list[Started]:
        """Starts (or ends), of one tag or all."""
        path = self.folder / "ledger"
        lines = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
        read = [Started(w, t, int(pid), int(attempt), c) for w, t, pid, attempt, c in lines]
        return [s for s in read if s.word == word and tag in ("", s.tag)]


def plan(*steps: list[tuple[str, dict[str, Any]]], answer: str = "done") -> str:
    """A message that makes `planned` ask for these tool calls, step by step, and then answer."""
    return json.dumps({"steps": steps, "answer": answer})


def planned(request: dict[str, Any]) -> Reply:
    """Plays the plan in the last user message; a message that holds none is answered with ``ok``."""
    messages = request["messages"]
    last = max(i for i, m in enumerate(messages) if m["role"] == "user")
    try:
        wanted = json.loads(messages[last]["content"])
        steps, answer = wanted["steps"], wanted["answer"]
    except (ValueError, TypeError, KeyError):
        return say("ok")
    done = sum(1 for m in messages[last:] if m["role"] == "assistant")
    return call(*((name, args) for name, args in steps[done])) if done < len(steps) else say(answer)
