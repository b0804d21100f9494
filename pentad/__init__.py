"""Pentad for those who use it: write tools, connect to a running system, talk to it.

    async with pentad.connect("http://127.0.0.1:8080") as agent:
        async for event in agent.send("What is 6 * 7?"):
            ...

``pentad.start()`` in place of ``connect`` runs everything by this program. Importing this is cheap: each name is
loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pentad import agents
    from pentad.client.agent import Agent, connect
    from pentad.client.answers import Traced
    from pentad.client.blocking import SyncAgent, SyncGraphExecution, connect_sync
    from pentad.client.graph_builder import AgentBuilder, AgentGraph
    from pentad.client.graph_execution import GraphExecution, GraphResult
    from pentad.client.turns import Turn
    from pentad.contracts.commands import ModelCompletion
    from pentad.contracts.events import (
        ApprovalEvent,
        ApprovalRequest,
        Compacted,
        Content,
        ControlResult,
        ErrorEvent,
        MessageEvent,
        MessageMoved,
        MessageRouted,
        NodeEnd,
        NodeStart,
        SessionEvent,
        Snapshot,
        TaskEnd,
        TaskStart,
        TaskStatusEvent,
        Thinking,
        ToolCallEvent,
        ToolProgress,
        ToolResultEvent,
    )
    from pentad.contracts.instructions import agent_tool
    from pentad.contracts.paths import NodeVisit, TaskPath
    from pentad.contracts.records import Anchor, Task
    from pentad.contracts.runs import InstructionRun, ToolRun
    from pentad.contracts.tokens import AccessToken
    from pentad.contracts.tools import Artifact
    from pentad.contracts.turns import TurnEnd
    from pentad.errors import (
        Busy,
        ClientError,
        Conflict,
        GatewayUnreachable,
        ModelCallFailed,
        NotAuthorized,
        NotFound,
        Refused,
        RunFailed,
        RunWaits,
        ToolFailed,
        TurnFailed,
        Unreadable,
        WrongAnswer,
        WrongGraph,
    )
    from pentad.shared.errors import PentadError
    from pentad.shared.plugins.companions import NOT_MADE, Made
    from pentad.shared.plugins.context import ToolContext
    from pentad.shared.plugins.errors import InvalidArguments
    from pentad.shared.plugins.expandable import ExpandableTool, action
    from pentad.shared.plugins.graphs import graph
    from pentad.shared.plugins.hooks import HookAnswer, HookCall, HookContext, HookResult, HookTask, hook
    from pentad.shared.plugins.instructions import instruction
    from pentad.shared.plugins.registry import tool
    from pentad.shared.segments.anchors import anchor_of
    from pentad.system.start import start

_HOMES = {
    "AccessToken": "pentad.contracts.tokens",
    "Agent": "pentad.client.agent",
    "AgentBuilder": "pentad.client.graph_builder",
    "AgentGraph": "pentad.client.graph_builder",
    "Anchor": "pentad.contracts.records",
    "Artifact": "pentad.contracts.tools",
    "ApprovalDecision": "pentad.contracts.approvals",
    "ApprovalEvent": "pentad.contracts.events",
    "ApprovalRequest": "pentad.contracts.events",
    "Busy": "pentad.errors",
    "ClientError": "pentad.errors",
    "Conflict": "pentad.errors",
    "Content": "pentad.contracts.events",
    "ControlResult": "pentad.contracts.events",
    "Made": "pentad.shared.plugins.companions",
    "ErrorEvent": "pentad.contracts.events",
    "ExpandableTool": "pentad.shared.plugins.expandable",
    "GatewayUnreachable": "pentad.errors",
    "HookAnswer": "pentad.shared.plugins.hooks",
    "HookCall": "pentad.shared.plugins.hooks",
    "HookContext": "pentad.shared.plugins.hooks",
    "HookResult": "pentad.shared.plugins.hooks",
    "HookTask": "pentad.shared.plugins.hooks",
    "hook": "pentad.shared.plugins.hooks",
    "GraphExecution": "pentad.client.graph_execution",
    "GraphResult": "pentad.client.graph_execution",
    "InstructionRun": "pentad.contracts.runs",
    "InvalidArguments": "pentad.shared.plugins.errors",
    "MessageEvent": "pentad.contracts.events",
    "MessageMoved": "pentad.contracts.events",
    "Compacted": "pentad.contracts.events",
    "MessageRouted": "pentad.contracts.events",
    "ModelCallFailed": "pentad.errors",
    "ModelCompletion": "pentad.contracts.commands",
    "NOT_MADE": "pentad.shared.plugins.companions",
    "NodeEnd": "pentad.contracts.events",
    "NodeStart": "pentad.contracts.events",
    "NodeVisit": "pentad.contracts.paths",
    "NotAuthorized": "pentad.errors",
    "NotFound": "pentad.errors",
    "PentadError": "pentad.shared.errors",
    "Refused": "pentad.errors",
    "RunFailed": "pentad.errors",
    "RunWaits": "pentad.errors",
    "SessionEvent": "pentad.contracts.events",
    "Snapshot": "pentad.contracts.events",
    "SyncAgent": "pentad.client.blocking",
    "SyncGraphExecution": "pentad.client.blocking",
    "Task": "pentad.contracts.records",
    "TaskEnd": "pentad.contracts.events",
    "TaskPath": "pentad.contracts.paths",
    "TaskStart": "pentad.contracts.events",
    "TaskStatusEvent": "pentad.contracts.events",
    "Thinking": "pentad.contracts.events",
    "ToolCallEvent": "pentad.contracts.events",
    "ToolContext": "pentad.shared.plugins.context",
    "ToolFailed": "pentad.errors",
    "ToolProgress": "pentad.contracts.events",
    "ToolResultEvent": "pentad.contracts.events",
    "ToolRun": "pentad.contracts.runs",
    "Traced": "pentad.client.answers",
    "Turn": "pentad.client.turns",
    "TurnEnd": "pentad.contracts.turns",
    "TurnFailed": "pentad.errors",
    "Unreadable": "pentad.errors",
    "action": "pentad.shared.plugins.expandable",
    "WrongAnswer": "pentad.errors",
    "WrongGraph": "pentad.errors",
    "agent_tool": "pentad.contracts.instructions",
    "anchor_of": "pentad.shared.segments.anchors",
    "connect": "pentad.client.agent",
    "connect_sync": "pentad.client.blocking",
    "graph": "pentad.shared.plugins.graphs",
    "instruction": "pentad.shared.plugins.instructions",
    "start": "pentad.system.start",
    "tool": "pentad.shared.plugins.registry",
}

__all__ = [
    "NOT_MADE",
    "AccessToken",
    "Agent",
    "AgentBuilder",
    "AgentGraph",
    "Anchor",
    "ApprovalDecision",
    "ApprovalEvent",
    "ApprovalRequest",
    "Artifact",
    "Busy",
    "ClientError",
    "Compacted",
    "Conflict",
    "Content",
    "ControlResult",
    "ErrorEvent",
    "ExpandableTool",
    "GatewayUnreachable",
    "GraphExecution",
    "GraphResult",
    "HookAnswer",
    "HookCall",
    "HookContext",
    "HookResult",
    "HookTask",
    "InstructionRun",
    "InvalidArguments",
    "Made",
    "MessageEvent",
    "MessageMoved",
    "MessageRouted",
    "ModelCallFailed",
    "ModelCompletion",
    "NodeEnd",
    "NodeStart",
    "NodeVisit",
    "NotAuthorized",
    "NotFound",
    "PentadError",
    "Refused",
    "RunFailed",
    "RunWaits",
    "SessionEvent",
    "Snapshot",
    "SyncAgent",
    "SyncGraphExecution",
    "Task",
    "TaskEnd",
    "TaskPath",
    "TaskStart",
    "TaskStatusEvent",
    "Thinking",
    "ToolCallEvent",
    "ToolContext",
    "ToolFailed",
    "ToolProgress",
    "ToolResultEvent",
    "ToolRun",
    "Traced",
    "Turn",
    "TurnEnd",
    "TurnFailed",
    "Unreadable",
    "WrongAnswer",
    "WrongGraph",
    "action",
    "agent_tool",
    "agents",
    "anchor_of",
    "connect",
    "connect_sync",
    "graph",
    "hook",
    "instruction",
    "start",
    "tool",
]


def __getattr__(name: str) -> Any:
    if name == "agents":
        return import_module("pentad.agents")
    if name not in _HOMES:
        raise AttributeError(f"module 'pentad' has no attribute {name!r}")
    try:
        value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        raise ImportError(f"pentad.{name}: {error}: what runs services needs `pip install 'pentad[server]'`") from error
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
