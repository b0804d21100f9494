"""The error codes that clients see, each spelled once (law 11)."""

from enum import StrEnum


class ErrorCode(StrEnum):
    """The ``code`` of an ``error`` event, and the ``reason`` of a failed ``task_end``."""

    BAD_MESSAGE = "bad_message"
    UNKNOWN_TASK = "unknown_task"
    NOT_ALLOWED = "not_allowed"
    BUSY = "busy"
    BUDGET_EXCEEDED = "budget_exceeded"
    DEADLINE_EXCEEDED = "deadline_exceeded"
    MODEL_ERROR = "model_error"
    TOOL_ERROR = "tool_error"
    STEP_LIMIT = "step_limit"
    GRAPH_ERROR = "graph_error"
    HOOK_ERROR = "hook_error"
    CURSOR_EXPIRED = "cursor_expired"
    INTERNAL = "internal"
