"""Checks of transcripts: each is well-formed, and each answer's prompt is the transcript before it."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json

from pentad.contracts.records import TaskRecord
from pentad.services.task_runner.domain.after_answer import REDRIVEN
from pentad.shared.actors.transcript import is_note, remaining
from tests.support.rebuilding import chat_form

if TYPE_CHECKING:
    from tests.support.interleave.world import World

NOBODY = "nobody"
"""Stands for the model of a step that asks none."""
_MARK = re.compile(r"^m\d+\.")


def ill_formed(world: "World", record: TaskRecord) -> Iterator[str]:
    """Check that a transcript is well-formed, and each answer's prompt is exactly the transcript before it."""
    open_calls: list[str] = []
    sent: list[dict[str, Any]] = []
    for message in record.messages:
        if is_note(message):
            pass
        elif message["role"] == "tool":
            if not open_calls or open_calls.pop(0) != message["tool_call_id"]:
                yield f"a tool's message out of place: {message['tool_call_id']}"
        elif open_calls:
            yield f"{open_calls} have no answer before {message['role']}"
            open_calls = []
        if message["role"] == "assistant" and ("step" in message or message.get("tool_calls")):
            if message.get("model") not in (None, REDRIVEN, NOBODY) and message.get("origin") != "node":
                yield from _prompt(world, message, remaining(sent))
            open_calls = [call["id"] for call in message.get("tool_calls", ())]
        sent.append(message)
    if open_calls:
        yield f"{open_calls} have no answer at the end"


def _prompt(world: "World", message: dict[str, Any], before: list[dict[str, Any]]) -> Iterator[str]:
    mark = _MARK.match(message["content"] or "")
    prompt = world.outside.prompts.get(mark.group() if mark else "", [])[1:]
    if [from_json(m) for m in prompt] != [chat_form(m) for m in before]:
        yield f"step {message['step']} was asked with {len(prompt)} messages, {len(before)} stand before it"
