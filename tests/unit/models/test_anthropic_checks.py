"""The scripted server refuses what Anthropic's would."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.models.anthropic_checks import request_fault

SOUND: dict[str, Any] = {
    "model": "m",
    "max_tokens": 10,
    "stream": True,
    "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}],
    "tools": [{"name": "f", "input_schema": {"type": "object"}}],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "u"}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}, {"type": "text", "text": "v"}]},
    ],
}


def block(body: dict[str, Any], message: int, number: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = body["messages"][message]["content"][number]
    return found


BREACHES: dict[str, Callable[[dict[str, Any]], object]] = {
    "an unknown field": lambda body: body.update(usd=1),
    "no limit of tokens": lambda body: body.pop("max_tokens"),
    "no model": lambda body: body.pop("model"),
    "a blank system": lambda body: body["system"][0].update(text=" "),
    "no messages": lambda body: body["messages"].clear(),
    "an assistant that begins": lambda body: body["messages"].pop(0),
    "an assistant that ends": lambda body: body["messages"].pop(),
    "two messages of one role": lambda body: body["messages"].insert(0, body["messages"][0]),
    "an empty message": lambda body: body["messages"][0]["content"].clear(),
    "a blank text": lambda body: block(body, 0).update(text="\n"),
    "a call of the user's": lambda body: block(body, 0).update(type="tool_use", id="b", name="f", input={}),
    "a result for no call": lambda body: block(body, 2).update(tool_use_id="b"),
    "a call without result": lambda body: body["messages"][2]["content"].pop(0),
    "results after text": lambda body: body["messages"][2]["content"].reverse(),
    "an empty result": lambda body: block(body, 2).update(content=""),
    "an id with a dot": lambda body: [block(body, 1).update(id="a.b"), block(body, 2).update(tool_use_id="a.b")],
    "a call without name": lambda body: block(body, 1).update(name=""),
    "arguments that are text": lambda body: block(body, 1).update(input="{}"),
    "an id used again": lambda body: body["messages"].extend(copy.deepcopy(body["messages"][1:])),
    "calls without tools": lambda body: body.pop("tools"),
    "calls beside an empty list of tools": lambda body: body["tools"].clear(),
    "a tool without schema": lambda body: body["tools"][0].update(input_schema={}),
    "two tools of one name": lambda body: body["tools"].append(body["tools"][0]),
    "a tool in OpenAI form": lambda body: body["tools"][0].update(parameters={}),
    "thinking without its thoughts": lambda body: body.update(thinking={"type": "enabled", "budget_tokens": 1024}),
    "too many marks": lambda body: body["system"].extend(body["system"] * 4),
}


def test_a_sound_request_has_no_fault() -> None:
    assert request_fault(SOUND) == ""


@pytest.mark.parametrize("breach", BREACHES)
def test_it_refuses(breach: str) -> None:
    body = copy.deepcopy(SOUND)
    BREACHES[breach](body)
    assert request_fault(body) != ""
