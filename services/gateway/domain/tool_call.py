"""A tool call outside a conversation: how it is asked for, its session, and its state read from its task. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json

from pentad.contracts.commands import MAX_CONTENT
from pentad.contracts.events import TaskStatus
from pentad.contracts.ids import EXTERNAL_ID_RULE, is_external_id
from pentad.contracts.records import Task
from pentad.contracts.runs import RunProblem, ToolRun
from pentad.services.gateway.domain.frames import UnreadableError
from pentad.shared.immutable import immutable

_SESSION_PREFIX = "tool-call:"
MAX_CALL_ID = 100
"""Characters of a call's id: with the prefix it is the id of the call's session."""
MAX_TIMEOUT_S = 30 * 86_400.0
MAX_WAIT_S = 600.0
_FIELDS = ("args", "call_id", "timeout", "user_id", "wait")


@immutable
class CallAsked:
    """A client's request to call a tool."""

    content: str
    """The tool and its arguments as the message of the call's task, JSON."""
    call_id: str | None
    user_id: str | None
    wait_s: float
    timeout_s: float | None


def read_call(body: Mapping[str, Any], tool: str) -> CallAsked:
    """Read a client's request to call a tool. Raises ``UnreadableError``."""
    if unknown := sorted(set(body) - set(_FIELDS)):
        raise UnreadableError(f"{unknown[0][:100]}: not known here; there are: {', '.join(_FIELDS)}")
    args = body.get("args")
    if args is None:
        args = {}
    if not isinstance(args, dict):
        raise UnreadableError('args: an object is expected, of the form {"NAME": VALUE}')
    try:
        content = to_json({"tool": tool, "args": args}).decode()
    except PydanticSerializationError:
        raise UnreadableError("args: a text has half of a surrogate pair, which cannot be sent") from None
    if len(content) > MAX_CONTENT:
        raise UnreadableError(f"args: with the tool's name they have at most {MAX_CONTENT} characters as JSON")
    call_id = body.get("call_id")
    if call_id is not None and not is_call_id(call_id):
        raise UnreadableError(f"call_id: {EXTERNAL_ID_RULE} are expected, at most {MAX_CALL_ID}")
    user_id = body.get("user_id")
    if user_id is not None and not (isinstance(user_id, str) and is_external_id(user_id)):
        raise UnreadableError(f"user_id: {EXTERNAL_ID_RULE} are expected")
    wait_s = _seconds(body, "wait", MAX_WAIT_S)
    timeout_s = _seconds(body, "timeout", MAX_TIMEOUT_S)
    if timeout_s == 0:
        raise UnreadableError("timeout: more than 0 seconds are expected")
    return CallAsked(content, call_id, user_id, wait_s or 0.0, timeout_s)


def is_call_id(text: object) -> bool:
    """Return whether a client may name a call so."""
    return isinstance(text, str) and len(text) <= MAX_CALL_ID and is_external_id(text)


def _seconds(body: Mapping[str, Any], name: str, most: float) -> float | None:
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise UnreadableError(f"{name}: a number of seconds is expected, at most {most:g}")
    return float(value)


def session_of_call(call_id: str) -> str:
    """Return the session of a call: each has one of its own, so that its id is accepted once."""
    return f"{_SESSION_PREFIX}{call_id}"


def is_call_session(session: str) -> bool:
    """Return whether a session is that of a call, and no conversation."""
    return session.startswith(_SESSION_PREFIX)


def tool_of_message(content: str) -> str | None:
    """Return the tool that a call's message names; None for another message."""
    try:
        named = from_json(content)
    except ValueError:
        return None
    tool = named.get("tool") if isinstance(named, dict) else None
    return tool if isinstance(tool, str) else None


def made_call(messages: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the id of the newest tool call in a transcript; None before there is one."""
    for message in reversed(messages):
        calls = message.get("tool_calls")
        if isinstance(calls, list) and calls:
            return str(calls[0].get("id"))
    return None


def not_routed(call_id: str, tool: str | None = None, problem: RunProblem | None = None) -> ToolRun:
    """Return the state of a call without a task. ``problem``: why it will never have one."""
    status: TaskStatus = "pending" if problem is None else "failed"
    return ToolRun(call_id=call_id, tool=tool, status=status, error=problem, session_id=session_of_call(call_id))


def run_of_task(call_id: str, tool: str | None, task: Task, tool_call_id: str | None, result: str | None) -> ToolRun:
    """Return the state of a call by its task. ``result``: the text that the tool returned, if it did."""
    problem = None
    if task.status in ("failed", "cancelled"):
        code = task.reason or task.status
        problem = RunProblem(code=code, message=task.detail or f"its task has {task.status}: {code}")
    return ToolRun(
        call_id=call_id,
        tool=tool,
        status=task.status,
        result=result if task.status == "completed" else None,
        error=problem,
        session_id=task.session_id,
        task_id=task.task_id,
        tool_call_id=tool_call_id,
    )
