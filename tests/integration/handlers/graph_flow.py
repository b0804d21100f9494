"""Graphs in a `Flow`: nodes in few words, a model that answers by the node that asks it, and what came of a run."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from pentad.contracts.graphs import GraphSpec
from pentad.shared.actors.headers import TaskHeader, pairs, task_header
from pentad.shared.actors.transcript import shown
from pentad.shared.keys import TaskKeys, timers
from pentad.shared.models.ports import ChatRequest, ModelAnswer
from pentad.shared.store.store import Store
from pentad.shared.work.timers import TimerLoop
from tests.integration.handlers.flow import SESSION, Flow, answer

Said = str | ModelAnswer | Callable[[ChatRequest], str | ModelAnswer]
JUDGE = "You watch a conversation"


def llm(key: str, **fields: Any) -> dict[str, Any]:
    """A node that asks a model without tools."""
    return {"key": key, "kind": "llm", "system_prompt": f"You are {key}.", "tools": [], **fields}


def ask(key: str, question: str = "Who?", **fields: Any) -> dict[str, Any]:
    """A node that asks a person."""
    return {"key": key, "kind": "ask", "question": question, **fields}


def tool(key: str, name: str, args: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    """A node that calls a tool."""
    return {"key": key, "kind": "tool", "tool": name, "args": dict(args), **fields}


def graph(name: str, nodes: Sequence[Mapping[str, Any]], *edges: tuple[Any, ...], **fields: Any) -> GraphSpec:
    """A graph; it begins with its first node and ends with its last. An edge is (from, to) and perhaps a condition."""
    body: dict[str, Any] = {"name": name, "nodes": list(nodes), "entry": nodes[0]["key"], "ends": [nodes[-1]["key"]]}
    body["edges"] = [{"from": a, "to": b} | (more[0] if more else {}) for a, b, *more in edges]
    return GraphSpec.model_validate(body | fields)


class NodeModel:
    """A model that answers by the node that asks it. ``asked`` has the nodes that have asked, in order."""

    def __init__(self, **says: Said) -> None:
        self.says = says
        self.asked: list[str] = []
        self.requests: list[list[dict[str, Any]]] = []

    def __call__(self, request: ChatRequest) -> ModelAnswer:
        messages = [from_json(line) for line in request.messages]
        system = str(messages[0]["content"])
        who = "judge" if system.startswith(JUDGE) else system.partition(".")[0].removeprefix("You are ")
        self.asked.append(who)
        self.requests.append(messages)
        said = self.says.get(who, f"{who} has said it")
        made = said(request) if callable(said) and not isinstance(said, ModelAnswer) else said
        return answer(made) if isinstance(made, str) else made


class GraphFlow(Flow):
    """A `Flow` with graphs, and questions about what their runs have left."""

    @classmethod
    async def of(cls, store: Store, folder: Path, model: NodeModel, *graphs: GraphSpec, **settings: Any) -> "GraphFlow":
        """A flow that is ready."""
        flow = cls(store, folder, model, graphs=graphs, **settings)
        await flow.prepare()
        return flow

    async def run(self, name: str, content: str = "go", **fields: Any) -> None:
        """Send a message to a graph, and serve until there is nothing to do."""
        await self.say(content, instruction=name, task_id="new", **fields)
        await self.drive()

    async def fire(self, kind: str) -> None:
        """Let all timers of a kind fire before their time, and serve what comes of it."""
        for member in await self.store.call("ZRANGE", timers(0), 0, -1):
            if member.startswith(kind.encode() + b" "):
                await self.store.call("ZADD", timers(0), "XX", 1, member)
        await TimerLoop(self.store, [0]).fire(0)
        await self.drive()

    async def tasks(self) -> list[TaskHeader]:
        """All tasks, the oldest first."""
        names = await self.store.call("ZRANGE", "pentad:{0}:tasks:default", 0, -1)
        found = [await self.header(name.decode()) for name in names]
        return sorted(found, key=lambda task: (task.depth, task.created))

    async def header(self, name: str) -> TaskHeader:
        """A task's header."""
        raw = pairs(await self.store.call("HGETALL", TaskKeys(0, "default", name).header))
        found = task_header("default", name, raw)
        assert found is not None
        return found

    async def root(self) -> TaskHeader:
        """The newest task that no other has started."""
        return [task for task in await self.tasks() if not task.parent][-1]

    async def children(self) -> list[TaskHeader]:
        """Tasks that others have started."""
        return [task for task in await self.tasks() if task.parent]

    async def transcript(self, name: str = "") -> list[dict[str, Any]]:
        """The transcript of a task, of the root if none is named."""
        keys = TaskKeys(0, "default", name or (await self.root()).task_id)
        return [shown(raw) for raw in await self.store.call("LRANGE", keys.log, 0, -1)]

    async def path(self, name: str = "") -> list[str]:
        """The nodes that a task has left, in order."""
        return [line["node"] for line in await self.transcript(name) if line.get("kind") == "end"]

    async def entries(self, kind: str, name: str = "") -> list[dict[str, Any]]:
        """The entries of a kind about a run."""
        return [line for line in await self.transcript(name) if line.get("kind") == kind]

    async def state(self, name: str = "") -> dict[str, Any]:
        """Everything that a run has written, the last of each key."""
        lines = await self.transcript(name)
        begun = max(n for n, line in enumerate(lines) if line.get("kind") == "begin")
        found = dict(lines[begun].get("state") or {})
        for line in lines[begun:]:
            if line.get("kind") in ("end", "done"):
                found |= dict(line.get("writes") or ())
        return found

    async def events(self, *kinds: str) -> list[dict[str, Any]]:
        """The events that clients have got, of these types."""
        found = [from_json(fields[1]) for _, fields in await self.store.call("XRANGE", SESSION.events, "-", "+")]
        return [event for event in found if event["type"] in kinds]

    async def answer(self) -> str:
        """The text with which the root has ended."""
        name = (await self.root()).task_id
        said = [event["content"] for event in await self.events("message") if event["task_id"] == name]
        return str(said[-1])
