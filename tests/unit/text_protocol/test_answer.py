"""Answers in the text protocol: a call is read whole or not at all, and clients see thoughts and the answer."""

import random

import pytest
from pydantic_core import from_json, to_json

from pentad.services.task_runner.text_calls import read_text_answer
from pentad.shared.models.ports import ModelAnswer, Usage
from pentad.shared.text_protocol.answer import MalformedAnswer, TextSplitter, read_answer
from pentad.shared.text_protocol.request import as_text

CALL = 'Thought: I add them.\nAction: calculator\nAction Input: {"expression": "1+2"}'
ANSWER = "Thought: I know it.\nFinal Answer: It is 3.\nReally: 3."


def answered(text: str) -> ModelAnswer:
    """An answer of a model with this text."""
    return ModelAnswer(text, "", (), "stop", Usage(1, 1), "m")


def test_a_call_and_a_final_answer_are_read() -> None:
    call = read_answer(CALL)
    assert (call.thought, call.tool, call.arguments, call.final) == (
        "I add them.",
        "calculator",
        '{"expression": "1+2"}',
        None,
    )
    final = read_answer(ANSWER)
    assert (final.thought, final.final, final.tool) == ("I know it.", "It is 3.\nReally: 3.", "")


@pytest.mark.parametrize(
    "text",
    [
        '**Thought:** so\n**Action:** `look`\n**Action Input:** {"a": [1,\n2]}\n',
        ' Thought : so\nAction: look\nAction Input: {"a": [1,\n2]}\nObservation: made up\nFinal Answer: wrong',
    ],
)
def test_bold_labels_and_what_a_model_makes_up_behind_its_call_change_nothing(text: str) -> None:
    read = read_answer(text)
    assert (read.thought, read.tool, read.arguments) == ("so", "look", '{"a": [1,\n2]}')


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("It is 3.", "it has no label"),
        ("Thought: hm", "neither `Action:` nor `Final Answer:`"),
        ("Action: look", "must be followed by `Action Input:`"),
        ("Action Input: {}", "neither"),
        ("Action: look\nThought: hm\nAction Input: {}", "must be followed by `Action Input:`"),
        ("Action: a\nAction Input: {}\nAction: b\nAction Input: {}", "more than one `Action:`"),
        ("Action: look\nAction Input: {}\nFinal Answer: 3", "an `Action:` and a `Final Answer:`"),
        ("Action: a b\nc\nAction Input: {}", "the name of one tool"),
        ("Action:\nAction Input: {}", "the name of one tool"),
        ("Action: look\nAction Input:", "is no JSON object"),
        ('Action: look\nAction Input: {"a": ', "is no JSON object"),
        ("Action: look\nAction Input: [1]", "must be one JSON object"),
        ("Final Answer:", "followed by nothing"),
        ("Observation: I know it", "it has no label"),
    ],
)
def test_what_is_wrong_with_an_answer_is_said(text: str, problem: str) -> None:
    with pytest.raises(MalformedAnswer) as found:
        read_answer(text)
    assert problem in str(found.value)
    kept, malformed = read_text_answer(answered(text))
    assert (kept.text, kept.tool_calls, malformed) == (text, (), str(found.value))


def test_no_call_is_made_of_an_answer_that_was_cut_anywhere() -> None:
    """Five hundred outputs, cut and mixed: nothing but the whole call is one with its arguments."""
    chance = random.Random(7)
    said = ["Thought: a", "Action: look", 'Action Input: {"n": 1}']
    pieces = [*said, "\n".join(said), "Observation: x", "Final Answer: b", "c", "{", '"']
    whole = 0
    for _ in range(500):
        parts = [chance.choice(pieces) for _ in range(chance.randint(0, 6))]
        text = "\n".join(parts)
        text = text[: chance.randint(0, len(text))] if chance.random() < 0.6 else text
        kept, malformed = read_text_answer(answered(text))
        if kept.tool_calls:
            (call,) = kept.tool_calls
            whole += call.arguments == '{"n": 1}'
            assert not malformed
        else:
            assert malformed or kept.text.strip() or not text.strip()
    assert whole > 5, "some are whole"
    for end in range(len(CALL)):
        kept, malformed = read_text_answer(answered(CALL[:end]))
        assert not kept.tool_calls


@pytest.mark.parametrize("text", [CALL, ANSWER, "It is 3.", "Thought: a: b\nc\n\nFinal Answer:\n\n- one\n- two\n"])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_clients_see_thoughts_and_the_answer_in_whatever_pieces_they_come(text: str, size: int) -> None:
    splitter = TextSplitter()
    told = [each for at in range(0, len(text), size) for each in splitter.feed(text[at : at + size])]
    told += splitter.finish()
    said = {kind: "".join(piece for which, piece in told if which == kind) for kind in ("thinking", "content")}
    try:
        read = read_answer(text)
    except MalformedAnswer:
        assert said == {"thinking": "", "content": ""}
    else:
        assert said["thinking"].strip() == read.thought
        assert said["content"].strip() == (read.final or "")


def test_a_conversation_in_text_says_what_it_says_in_the_other_form() -> None:
    calls = [{"id": "c1", "type": "function", "function": {"name": "calculator", "arguments": '{"expression": "1+2"}'}}]
    messages = [
        {"role": "user", "content": "1+2?"},
        {"role": "assistant", "content": "I add them.", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "c1", "content": "3"},
        {"role": "assistant", "content": "It is 3."},
    ]
    written = [from_json(line) for line in as_text([to_json(message) for message in messages])]
    assert [(m["role"], m["content"]) for m in written] == [
        ("user", "1+2?"),
        ("assistant", CALL),
        ("user", "Observation: 3"),
        ("assistant", "Final Answer: It is 3."),
    ]
    assert read_answer(written[1]["content"]).tool == "calculator"
