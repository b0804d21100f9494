"""The answers of the MCP server's tools: a text for models, and the same as data. Pure."""

from typing import Any

from pydantic_core import to_json

from pentad.contracts.plain_json import read_json
from pentad.contracts.turn_states import TurnState
from pentad.services.gateway.edge.problems import ProblemError
from pentad.services.gateway.tasks.turn_states import goes_on
from pentad.shared.clipping import clip
from pentad.shared.immutable import immutable

_MAX_SHOWN_ARGS = 2_000
"""Bytes of the arguments of a waiting tool call in a text; all of them are in the data."""


@immutable
class ToolAnswer:
    """The answer of a tool."""

    text: str
    data: dict[str, Any] | None = None
    failed: bool = False
    state: TurnState | None = None
    """Turn that the answer tells of, which may wait for a person."""


def answer_of_turn(state: TurnState, value: str | None) -> ToolAnswer:
    """Return the answer that tells of a turn. ``value``: the JSON that a json instruction has answered with."""
    data = state.model_dump(mode="json", exclude_none=True)
    if value is not None:
        data["data"] = read_json(value, None)
    ids = [f"session_id: {state.session_id}", f"message_id: {state.message_id}"]
    ids += [f"task_id: {state.task_id}"] if state.task_id else []
    text = f"{_words(state) if value is None else value}\n\n({', '.join(ids)})"
    return ToolAnswer(text, data, failed=not _is_well(state), state=state)


def _is_well(state: TurnState) -> bool:
    return goes_on(state) or state.status in ("completed", "waiting")


def _words(state: TurnState) -> str:
    if goes_on(state):
        return "It goes on. Call `run_state` with these ids to wait for its end."
    if state.status == "completed":
        return state.answer or state.reason or "It is done, without words."
    if state.status == "waiting":
        return _waiting(state)
    return f"It has ended as {state.status}: {state.reason or 'no reason is known'}"


def _waiting(state: TurnState) -> str:
    if not state.waiting:
        said = f"{state.answer}\n" if state.answer else ""
        return f"{said}It waits ({state.reason}): call `send` with this session_id and task_id to go on."
    calls = "\n".join(
        f"- {each.tool_call_id}: {each.tool}({clip(to_json(each.args).decode(errors='replace'), _MAX_SHOWN_ARGS)}), "
        f"{each.reason or 'it must be allowed'}; args_digest: {each.args_digest}"
        for each in state.waiting
    )
    return (
        "A person must decide about these tool calls. Ask the person, then call `decide` for each with this task_id, "
        f"and `run_state` after the last one:\n{calls}"
    )


def answer_of_problem(problem: ProblemError) -> ToolAnswer:
    """Return the answer that tells of a refusal."""
    later = "" if problem.retry_after is None else f" Try again in {max(1, round(problem.retry_after))} s."
    named = "" if problem.message_id is None else f" (message_id: {problem.message_id})"
    return ToolAnswer(f"{problem.detail}.{later}{named}", failed=True)


def answer_of_data(data: dict[str, Any]) -> ToolAnswer:
    """Return the answer that is data alone."""
    return ToolAnswer(to_json(data).decode(), data)
