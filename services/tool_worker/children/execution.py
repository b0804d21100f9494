"""What a child makes of what a tool returned or raised, and how a context travels to it."""

import logging
from datetime import datetime
from typing import Any

from pentad.contracts.tools import OutcomeKind
from pentad.services.tool_worker.domain import RESULT_LIMIT
from pentad.shared.clipping import clip, said_by
from pentad.shared.plugins.context import Report, ToolContext
from pentad.shared.plugins.errors import InvalidArguments, UnusableResult
from pentad.shared.plugins.results import clean, result_text

MAX_RESULT = 16 << 20
"""Characters of a result."""
_LONGEST_CHARACTER = 4
"""Bytes of UTF-8."""
_MAX_ERROR = 4_000

Answer = tuple[OutcomeKind, str]
"""``ok`` and the result, or another kind and the reason."""

_log = logging.getLogger("pentad.tools")


def success(tool: str, value: Any) -> Answer:
    """The answer of a tool that returned. Raises ``UnusableResult``.

    Of what is too long to be kept the worker gets so much that it sees that: it reads an answer in its event loop.
    """
    text = result_text(tool, value)
    if len(text) > MAX_RESULT:
        raise UnusableResult(
            f"tool {tool!r} returned {len(text):,} characters, the limit is {MAX_RESULT:,}: "
            "store it and return where it is"
        )
    return "ok", clip(text, RESULT_LIMIT + _LONGEST_CHARACTER)


def failure(tool: str, error: BaseException) -> Answer:
    """The answer of a tool that raised. The traceback goes to the log, for whoever wrote the tool."""
    if isinstance(error, InvalidArguments | UnusableResult):
        return "error", _cut(said_by(error))
    _log.warning("tool %s failed", tool, exc_info=error)
    told = f"{type(error).__name__}: {said_by(error)}".removesuffix(": ")
    return "error", _cut(f"tool {tool!r} failed: {told}")


def context_frame(context: ToolContext) -> list[Any]:
    """A context as JSON, without its ``report``."""
    deadline = context.deadline.isoformat() if context.deadline else None
    return [
        context.tool_call_id,
        context.idempotency_key,
        context.attempt,
        context.tenant_id,
        context.user_id,
        context.session_id,
        context.task_id,
        deadline,
        dict(context.metadata),
    ]


def context_from(frame: list[Any], report: Report) -> ToolContext:
    """The context that ``context_frame`` was made of, reporting to ``report``."""
    call, key, attempt, tenant, user, session, task, deadline, metadata = frame
    moment = datetime.fromisoformat(deadline) if deadline else None
    return ToolContext(call, key, attempt, tenant, user, session, task, moment, metadata, report)


def _cut(text: str) -> str:
    return clean(text if len(text) <= _MAX_ERROR else text[:_MAX_ERROR] + "...")
