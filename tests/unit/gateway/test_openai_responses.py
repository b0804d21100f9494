"""Requests for responses are read with bounds, and a turn's pieces become items that OpenAI's own types accept."""

import random
from typing import Any

import pytest
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from pentad.contracts.events import TaskUsage
from pentad.contracts.turns import TurnTracker
from pentad.services.gateway.domain.frames import UnreadableError
from pentad.services.gateway.protocols.openai.chat_request import texts_of
from pentad.services.gateway.protocols.openai.responses_items import ResponseForm, ResponseItems
from pentad.services.gateway.protocols.openai.responses_request import read_response
from pentad.services.gateway.protocols.openai.turn_text import GrowingText
from tests.unit.gateway.test_openai_chat import END, ROUTED, delta, event, message

BODY: dict[str, Any] = {"model": "pentad", "input": "hi"}
STREAMED: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)


@pytest.mark.parametrize(
    "more",
    [
        {"model": "gpt-4"},
        {"input": None},
        {"input": ""},
        {"input": []},
        {"input": [7]},
        {"input": [7, {"role": "user", "content": "hi"}]},
        {"input": [{"role": "user", "content": "hi"}] * 4_001},
        {"input": [{"type": "function_call_output", "output": "x"}]},
        {"input": [{"type": "function_call_output", "call_id": "c", "output": 7}]},
        {"tools": [{"type": "function", "function": {"name": "x"}}]},
        {"tools": [{"type": "function", "name": "x"}], "tool_choice": {"type": "function", "name": "x"}},
        {"input": [{"role": "assistant", "content": "hi"}]},
        {"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]},
        {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "https://x/y.png"}]}]},
        {"instructions": 7},
        {"tools": [{"type": "web_search"}]},
        {"previous_response_id": "a"},
        {"previous_response_id": "resp_a/b"},
        {"conversation": {"id": 7}},
        {"conversation": "a b"},
        {"conversation": "c", "previous_response_id": "resp_a"},
        {"background": True, "store": False},
        {"background": True, "stream": True},
        {"stream": "yes"},
        {"text": {"format": {"type": "grammar"}}},
        {"metadata": {"a": 1}},
    ],
)
def test_what_cannot_be_done_is_refused(more: dict[str, Any]) -> None:
    with pytest.raises(UnreadableError):
        read_response(BODY | more)


def test_items_that_were_sent_back_are_the_conversation_that_was_answered() -> None:
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "let me see"}]}
    items = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {"type": "reasoning", "summary": []},
        said,
        {"type": "mcp_call", "name": "x", "arguments": "{}"},
        said | {"content": [{"type": "output_text", "text": "done"}]},
        {"role": "user", "content": "more"},
    ]
    asked = read_response(
        BODY | {"input": items, "instructions": "Be short.", "user": "ann", "conversation": {"id": "c"}}
    )
    assert texts_of(asked.chat.past) == [["user", "hi"], ["assistant", "let me see done"]]
    assert (asked.chat.system, asked.chat.text, asked.chat.user) == ("Be short.\n\nBe kind.", "more", "ann")
    assert (asked.conversation, asked.store, asked.background) == ("c", True, False)


def test_random_turns_are_events_that_a_client_can_follow() -> None:
    for seed in range(200):
        rng, events = random.Random(seed), [ROUTED]
        for step in range(1, rng.randint(2, 4)):
            if rng.random() < 0.5:
                events.append(delta("hm", step=step, kind="thinking"))
            if rng.random() < 0.7:
                events.append(delta("text", step=step))
            if rng.random() < 0.3:
                events.append(delta("again", step=step, attempt=2))
            events.append(message(rng.choice(["text of it", "again and again", ""]), step, 2))
            for call in range(rng.randint(0, 2)):
                name = {"tool_call_id": f"c{step}{call}", "tool": "echo"}
                events.append(event("tool_call", **name, args={"a": 1}))
                if rng.random() < 0.8:
                    outcome = {"result": "x"} if rng.random() < 0.5 else {"error": "no"}
                    events.append(event("tool_result", **name, **outcome))
        told, items = GrowingText(TurnTracker("r")), ResponseItems(ResponseForm("m", "s", "pentad", 0))
        made = items.begin()
        for each in [*events, END]:
            made += [out for piece in told.after(each) for out in items.after(piece)]
        made += items.end(told, TaskUsage(input_tokens=1, output_tokens=2))
        assert [out["sequence_number"] for out in made] == list(range(len(made)))
        _follow(made)


def _follow(made: list[dict[str, Any]]) -> None:
    """Follow a stream as clients do: each item is added, grows and is done once, and ends as it was told."""
    texts, done = dict[int, str](), dict[int, Any]()
    for out in made:
        STREAMED.validate_python(out)
        place = out.get("output_index", -1)
        match out["type"]:
            case "response.output_item.added":
                assert place == len(texts)
                texts[place] = ""
            case "response.output_text.delta" | "response.reasoning_text.delta":
                assert place not in done
                texts[place] += out["delta"]
            case "response.output_text.done" | "response.reasoning_text.done":
                assert texts[place] == out["text"]
            case "response.output_item.done":
                assert place not in done
                done[place] = out["item"]
    assert set(done) == set(texts)
    whole = Response.model_validate(made[-1]["response"])
    assert [item.id for item in whole.output] == [done[place]["id"] for place in sorted(done)]
    assert all(item.status != "in_progress" for item in whole.output if hasattr(item, "status"))


@pytest.mark.parametrize(
    ("last", "status"),
    [
        (event("task_end", status="cancelled", reason="by a person"), "cancelled"),
        (event("task_end", status="failed", reason="model_error"), "failed"),
        (event("task_status", status="waiting", reason="question"), "completed"),
    ],
)
def test_each_end_has_its_status(last: dict[str, Any], status: str) -> None:
    told, items = GrowingText(TurnTracker("r")), ResponseItems(ResponseForm("m", "s", "pentad", 0))
    for each in (ROUTED, message("x"), last):
        for piece in told.after(each):
            items.after(piece)
    [*_, end] = items.end(told, TaskUsage(), "model_error" if status == "failed" else "")
    assert (end["type"], end["response"]["status"]) == (f"response.{status}", status)
