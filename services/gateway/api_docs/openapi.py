"""`GET /openapi.json`: the OpenAPI document, made from the operations that are declared beside their handlers."""

from collections.abc import Sequence

from pydantic.json_schema import models_json_schema

from pentad.contracts.approvals import (
    ApprovalDecision,
    ApprovalRule,
    PendingApproval,
    PolicyAnswer,
    PolicyQuestion,
)
from pentad.contracts.commands import InboundMessage, ModelCompletion
from pentad.contracts.comparisons import TaskComparison
from pentad.contracts.errors import ErrorCode
from pentad.contracts.graphs import GraphSpec
from pentad.contracts.hooks import HookSpec
from pentad.contracts.ids import EXTERNAL_ID_RULE, ID_PATTERN, MAX_EXTERNAL_ID
from pentad.contracts.instructions import Instruction
from pentad.contracts.memories import (
    KeptEpisode,
    KnownEdge,
    KnownNode,
    MemoryRebuild,
    MemoryStats,
    Neighbourhood,
    OpenedAnchor,
    RecalledMemories,
)
from pentad.contracts.models import ModelEntry
from pentad.contracts.operations import Operations
from pentad.contracts.paths import TaskPath
from pentad.contracts.records import StepPrompt, Task, TaskStep, UnreadableTask
from pentad.contracts.runs import InstructionRun, ToolRun
from pentad.contracts.schedules import Schedule, ScheduleRun, ScheduleSpec
from pentad.contracts.tokens import AccessToken, TokenRequest
from pentad.contracts.tool_servers import ServerReport
from pentad.contracts.tools import ToolSpec
from pentad.contracts.turn_states import TurnState
from pentad.services.gateway.edge.operations import described_open, paths_of
from pentad.services.gateway.edge.schemas import ANY_OBJECT, REFS, TEXT, Json, gives, object_of, ref

VERSION = "0.3.0"
"""Version of Pentad and of its REST interface."""
_HEALTH_PATHS: dict[str, Json] = {
    "/healthz": {"get": described_open("Whether the process is well", _200=gives("it is"), _503=gives("it is not"))},
    "/readyz": {
        "get": described_open(
            "Whether it can serve", _200=gives("yes", ANY_OBJECT), _503=gives("what is missing", ANY_OBJECT)
        )
    },
    "/metrics": {
        "get": described_open(
            "Prometheus metrics; beyond loopback with PENTAD_ADMIN_KEY as a bearer token",
            _200=gives("", TEXT, "text/plain"),
            _401=gives("no valid key"),
        )
    },
}
"""Paths that every service has (`pentad.shared.service.http`), the gateway, too."""


def _schemas() -> Json:
    tasks = Task, UnreadableTask, StepPrompt, InstructionRun, ToolRun, TaskStep, TaskPath, TaskComparison
    memory = RecalledMemories, OpenedAnchor, MemoryStats, MemoryRebuild, KeptEpisode
    known = KnownNode, KnownEdge, Neighbourhood
    tokens = TokenRequest, AccessToken, PendingApproval, ApprovalDecision, TurnState
    policies = ApprovalRule, PolicyQuestion, PolicyAnswer
    runnables = Instruction, GraphSpec, ToolSpec, HookSpec, ServerReport
    schedules = Schedule, ScheduleSpec, ScheduleRun
    others = InboundMessage, ModelCompletion, ModelEntry, Operations
    models = (*tasks, *memory, *known, *tokens, *runnables, *schedules, *policies, *others)
    wanted = [(model, "serialization") for model in models]
    _, definitions = models_json_schema(wanted, ref_template=REFS)  # type: ignore[arg-type]
    problem = object_of(type=TEXT, title=TEXT, status={"type": "integer"}, detail=TEXT)
    problem["properties"]["code"] = {"enum": [code.value for code in ErrorCode]}
    problem["properties"] |= {"message_id": ref("ExternalId"), "in_doubt": {"const": True}}
    named = {
        "Id": {"type": "string", "pattern": ID_PATTERN},
        "ExternalId": {"type": "string", "minLength": 1, "maxLength": MAX_EXTERNAL_ID, "description": EXTERNAL_ID_RULE},
        "Problem": problem,
    }
    return dict(definitions["$defs"]) | named


def document(groups: Sequence[type]) -> Json:
    """Return the OpenAPI 3.1 document of these groups of routes."""
    about = (
        "An agent's sessions, tasks and tools. Events also come over the WebSocket /v1/ws: docs/clients.md, and "
        "/asyncapi.json for their fields."
    )
    return {
        "openapi": "3.1.0",
        "info": {"title": "Pentad", "version": VERSION, "description": about},
        "security": [{"key": []}],
        "paths": paths_of(*groups) | _HEALTH_PATHS,
        "components": {
            "schemas": _schemas(),
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "one of PENTAD_API_KEYS"},
                "token": {"type": "http", "scheme": "bearer", "description": "of POST /v1/tokens, which may do this"},
            },
        },
    }
