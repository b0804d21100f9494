"""OpenAI's requests are read with bounds, and a turn's events become one text that only grows."""

import base64
import json
import random
from typing import Any

import pytest
from pydantic import ValidationError

from pentad.contracts.commands import MAX_CONTENT, MAX_HISTORY, MAX_HISTORY_CHARS, InboundMessage
from pentad.contracts.turns import TurnTracker
from pentad.services.gateway.domain.frames import UnreadableError
from pentad.services.gateway.protocols.openai.chat_chunks import ChatForm
from pentad.services.gateway.protocols.openai.chat_request import read_chat, texts_of, without_data
from pentad.services.gateway.protocols.openai.errors import error_body
from pentad.services.gateway.protocols.openai.plain_chat import read_plain
from pentad.services.gateway.protocols.openai.sent_files import EarlierFile
from pentad.services.gateway.protocols.openai.turn_text import Activity, GrowingText, Piece, TextPiece, ThoughtPiece

TASK, CHILD = "task-0-a", "task-0-b"
HI = {"role": "user", "content": "hi"}
BODY: dict[str, Any] = {"model": "pentad", "messages": [HI]}


def data_url(data: bytes, media_type: str = "image/png") -> str:
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


def content(*parts: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": list(parts)}]}


@pytest.mark.parametrize(
    "more",
    [
        {"model": None},
        {"model": 7},
        {"model": "gpt-4"},
        {"model": "pentad/"},
        {"model": "pentad/../x"},
        {"messages": None},
        {"messages": []},
        {"messages": [HI] * 4_001},
        {"messages": [None]},
        {"messages": ["hi", HI]},
        {"messages": [{"role": "assistant", "content": "hi"}]},
        {"messages": [{"role": "user", "content": ""}]},
        {"messages": [{"role": "user", "content": 7}]},
        {"messages": [{"role": "user", "content": "x" * (MAX_CONTENT + 1)}]},
        {"messages": [{"role": "user", "content": "\ud800"}]},
        {"messages": [{"role": "user", "content": {"type": "text"}}, HI]},
        content({"type": "text", "text": 7}),
        content(*[{"type": "text", "text": "x"}] * 65),
        content({"type": "input_audio", "input_audio": {}}),
        content({"type": "image_url", "image_url": {"url": "http://127.0.0.1/x.png"}}),
        content({"type": "image_url", "image_url": {"url": "data:image/png;base64,***"}}),
        content({"type": "image_url", "image_url": {"url": data_url(b"<svg/>", "image/svg+xml")}}),
        content({"type": "image_url", "image_url": None}),
        content(*[{"type": "image_url", "image_url": {"url": data_url(bytes([n]))}} for n in range(17)]),
        content({"type": "file", "file": {"file_id": "file-1"}}),
        {"tools": [{"type": "function", "name": "x"}]},
        {"tools": {"type": "function", "function": {"name": "x"}}},
        {"tools": [{"type": "function", "function": {"name": "complete_task"}}]},
        {"tools": [{"type": "function", "function": {"name": "x", "parameters": {"type": "array"}}}]},
        {"tools": [{"type": "function", "function": {"name": f"t{n}"}} for n in range(129)]},
        {"tools": [{"type": "function", "function": {"name": "x"}}], "tool_choice": "required"},
        {"functions": [{"name": "x"}]},
        {"messages": [HI, {"role": "tool", "content": "x"}]},
        {"messages": [HI, {"role": "tool", "tool_call_id": "a/b", "content": "x"}]},
        {"messages": [HI, {"role": "tool", "tool_call_id": "c", "content": "x" * 524_289}]},
        {
            "messages": [
                HI,
                {"role": "assistant", "tool_calls": [{"id": "a"}]},
                {"role": "tool", "tool_call_id": "b", "content": ""},
            ]
        },
        {"n": 2},
        {"modalities": ["text", "audio"]},
        {"stream": "yes"},
        {"response_format": "json"},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}},
        {"response_format": {"type": "grammar"}},
        {"user": "a b"},
        {"metadata": {"session_id": "a/b"}},
        {"metadata": {"x": 7}},
        {"metadata": {str(n): "x" for n in range(17)}},
    ],
)
def test_what_cannot_be_done_is_refused(more: dict[str, Any]) -> None:
    with pytest.raises(UnreadableError):
        read_chat(BODY | more)


def test_a_request_is_read() -> None:
    image, file = data_url(b"png"), data_url(b"text", "text/plain")
    asked = read_chat(
        {
            "model": "pentad/pirate",
            "messages": [
                {"role": "system", "content": "Be short."},
                {"role": "developer", "content": [{"type": "text", "text": "And kind."}]},
                HI,
                {"role": "assistant", "content": None, "tool_calls": [{"id": "c"}]},
                {"role": "tool", "tool_call_id": "c", "content": "x"},
                {"role": "assistant", "content": "hello"},
                {
                    "role": "user",
                    "content": [
                        {"type": "image_url", "image_url": {"url": image}},
                        {"type": "file", "file": {"filename": "../../etc/pass wd.txt", "file_data": file}},
                    ],
                },
            ],
            "tools": [{}],
            "tool_choice": "none",
            "metadata": {"session_id": "s", "a": "b"},
        }
    )
    assert (asked.instruction, asked.system, asked.session) == ("pirate", "Be short.\n\nAnd kind.", "s")
    assert texts_of(asked.past) == [["user", "hi"], ["assistant", "hello"]]
    assert [file.path.rpartition("/")[2] for file in asked.files][1] == "pass wd.txt"
    assert (asked.text, asked.spoken, asked.metadata) == ("[files]", "", {"a": "b"})
    assert [m.role for m in asked.history()] == ["user", "user", "assistant"]
    paths = tuple(file.path for file in asked.files)
    InboundMessage(content=asked.text, history=asked.history(), files=paths)


def test_long_data_is_taken_out_before_json_is_read_and_found_again() -> None:
    pictures = [bytes([n]) * size for n, size in ((1, 90_000), (2, 10), (3, 200_000))]
    parts = [{"type": "image_url", "image_url": {"url": data_url(data)}} for data in pictures]
    text = {"type": "text", "text": 'say ";base64," and data:image/png;base64,aaaa'}
    raw = json.dumps(BODY | content(text, *parts)).encode().replace(b"/", rb"\/")
    short, taken = without_data(raw)
    assert len(taken) == 2
    assert len(short) < 1_000
    asked = read_chat(json.loads(short), taken)
    assert [file.data for file in asked.files] == pictures
    assert asked.text == text["text"]
    assert without_data(b";base64," * 100_000)[1] == []
    for forged in ("#0", "#7", "#-1", "#x", "#"):
        url = {"url": f"data:image/png;base64,{forged}"}
        with pytest.raises(UnreadableError):
            read_chat(BODY | content({"type": "image_url", "image_url": url}))


def test_a_long_past_brings_its_end_along_and_fits_a_message() -> None:
    long = [{"role": ("user", "assistant")[n % 2], "content": f"{n} " + "x" * 3_000} for n in range(300)]
    system = {"role": "system", "content": "y" * 2 * MAX_HISTORY_CHARS}
    for messages in ([*long, HI], [system, *long, HI], [HI] * 1_000):
        history = read_chat(BODY | {"messages": messages}).history()
        InboundMessage(content="hi", history=history)
        assert len(history) <= MAX_HISTORY
    history = read_chat(BODY | {"messages": [*long, HI]}).history()
    assert history[-1].content == long[-1]["content"]


def test_files_of_a_long_past_have_a_note_where_they_are_not_kept_and_fit_a_message() -> None:
    image = {"type": "image_url", "image_url": {"url": data_url(b"png")}}
    hostile: list[Any] = [{"type": kind, "image_url": 7, "file": []} for kind in ("image_url", "file", None, 7)]
    parts = [image, *hostile, {"type": "text", "text": "x" * 1_300}]
    asked = read_chat(BODY | {"messages": [{"role": "user", "content": parts}] * 400 + [HI]})
    InboundMessage(content="hi", history=asked.history())
    [kept, *rest] = reversed(asked.history([{}] * (len(asked.brought) - 1) + [{0: "openai/a.png"}]))
    assert kept.files == ("openai/a.png",)
    assert kept.content.endswith("[Sent here, but not kept: 1 file, 1 image]")
    assert rest[0].content.endswith("[Sent here, but not kept: 1 file, 2 images]")
    assert [file is not None for file in map(EarlierFile.read, asked.brought[0].files)] == [True, False, False]


def test_history_names_files_of_the_user_with_a_bound() -> None:
    said = {"role": "user", "content": "look", "files": ["a.png"]}
    InboundMessage.model_validate({"content": "hi", "history": [said] * 16})
    for wrong in ([said] * 17, [said | {"role": "assistant"}], [said | {"files": ["../a"]}], [said | {"files": [""]}]):
        with pytest.raises(ValidationError):
            InboundMessage.model_validate({"content": "hi", "history": wrong})


def test_the_same_request_has_the_same_digest_and_another_has_another() -> None:
    same, other = read_chat(BODY), read_chat(BODY | {"messages": [HI, {"role": "user", "content": "ho"}]})
    assert read_chat(BODY | {"stream": True}).digest == same.digest
    assert len({same.digest, other.digest, read_chat(BODY | {"model": "pentad/x"}).digest}) == 3
    pictures = [content({"type": "image_url", "image_url": {"url": data_url(data)}}) for data in (b"1", b"2")]
    assert len({read_chat(BODY | each).digest for each in pictures}) == 2


def test_the_plain_model_gets_one_system_message_and_the_clients_tools() -> None:
    messages = [
        {"role": "system", "content": "a"},
        HI,
        {"role": "assistant", "content": None, "name": "x", "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        ]},
        {"role": "tool", "tool_call_id": "c", "content": "r"},
        {"role": "developer", "content": "b"},
    ]  # fmt: skip
    tool = {"type": "function", "function": {"name": "f", "strict": True, "parameters": {}}}
    asked = read_plain({"messages": messages, "tools": [tool], "max_completion_tokens": 5, "logprobs": False})
    assert [m["role"] for m in asked.messages] == ["system", "user", "assistant", "tool"]
    assert (asked.messages[0]["content"], asked.max_tokens) == ("a\n\nb", 5)
    for wrong in ({}, {"messages": [HI], "response_format": {"type": "json_object"}}, {"messages": [HI], "tools": [7]}):
        with pytest.raises(UnreadableError):
            read_plain(wrong)


def event(kind: str, task: str = TASK, **fields: Any) -> dict[str, Any]:
    envelope = {"event_id": "e", "at": "2026-01-01T00:00:00.000Z", "tenant_id": "default", "session_id": "t"}
    return envelope | {"type": kind, "version": 1, "task_id": task, "correlation_id": "r"} | fields


ROUTED = event("message_routed", message_id="r", decision="new", confidence=1.0, reason="x")
END = event("task_end", status="completed", reason="", steps=1, usage={"input_tokens": 1, "output_tokens": 2})


def delta(text: str, offset: int = 0, step: int = 1, attempt: int = 1, kind: str = "content", **more: Any) -> Any:
    return event(kind, step=step, attempt=attempt, offset=offset, content=text, **more)


def message(text: str, step: int = 1, attempt: int = 1, **more: Any) -> Any:
    return event("message", step=step, attempt=attempt, content=text, **more)


def told(*events: Any, whole: bool = False) -> tuple[GrowingText, list[Piece]]:
    turn = GrowingText(TurnTracker("r"), whole)
    return turn, [piece for each in events for piece in turn.after(each)]


def text_in(pieces: list[Piece]) -> str:
    return "".join(piece.text for piece in pieces if isinstance(piece, TextPiece))


def test_texts_of_steps_are_apart_and_started_tasks_say_nothing() -> None:
    child: dict[str, Any] = {"parent_task_id": TASK, "task_id": CHILD}
    turn, pieces = told(
        ROUTED,
        delta("hm", kind="thinking"),
        delta("let "),
        message("let me see"),
        event("tool_call", tool_call_id="c", tool="echo", args={}),
        delta("child", **child),
        message("child", **child),
        event("tool_result", tool_call_id="c", tool="echo", result="x"),
        message("done", step=2),
        END,
    )
    assert text_in(pieces) == turn.text == "let me see\n\ndone"
    assert [piece.text for piece in pieces if isinstance(piece, ThoughtPiece)] == ["hm"]
    assert [piece.status for piece in pieces if isinstance(piece, Activity) and piece.status] == ["echo", "echo"]
    assert (turn.task, turn.first_step, turn.step) == (TASK, 1, 2)


def test_what_a_void_attempt_said_is_said_to_be_void() -> None:
    turn, pieces = told(ROUTED, delta("wrong"), delta("right", attempt=2), message("right answer", attempt=2), END)
    assert text_in(pieces) == turn.text == "wrong\n\n(restarted)\n\nright answer"
    assert [piece.restarts for piece in pieces if isinstance(piece, TextPiece)] == [False, True, False, False]


def test_json_is_told_once_and_alone() -> None:
    turn, pieces = told(ROUTED, delta("{"), message("{"), delta('{"a', step=2), message('{"a":1}', 2), END, whole=True)
    assert text_in(pieces) == turn.text == '{"a":1}'


def test_random_turns_end_with_what_was_said() -> None:
    for seed in range(300):
        rng, events, said = random.Random(seed), [ROUTED], list[str]()
        for step in range(1, rng.randint(2, 4)):
            for attempt in range(1, rng.randint(2, 4)):
                text, at = f"step {step} attempt {attempt} " * rng.randint(1, 3), 0
                while at < len(text) and rng.random() < 0.8:
                    size = rng.randint(1, 9)
                    if rng.random() < 0.9:  # else a hole
                        events.append(delta(text[at : at + size], at, step, attempt))
                    at += size
            events.append(message(text, step, attempt))
            said.append(text)
        turn, pieces = told(*events, END)
        shown = text_in(pieces)
        assert shown == turn.text
        assert shown.endswith(said[-1]), seed
        restarts = sum(isinstance(piece, TextPiece) and piece.restarts for piece in pieces)
        if not restarts:
            assert shown == "\n\n".join(said), seed


def test_a_task_that_waits_says_for_what() -> None:
    asks = event("approval_request", tool_call_id="c", tool="mail", args={"to": "x" * 900}, effect="unsafe")
    turn, pieces = told(ROUTED, asks, event("task_status", status="waiting", reason="approval"))
    assert text_in(pieces).startswith("`mail` waits for you: Answer yes or no.")
    assert len(turn.text) < 700
    paused = told(ROUTED, event("task_status", status="waiting", reason="paused"))[1]
    assert text_in(paused) == "(The task waits: paused.)"
    asked = told(ROUTED, message("which?"), event("task_status", status="waiting", reason="question"))[1]
    assert text_in(asked) == "which?"


def test_an_answer_of_which_the_events_are_lost_is_taken_from_the_snapshot() -> None:
    said = {"role": "assistant", "task_id": TASK, "content": "whole answer"}
    snapshot = event("snapshot", tasks=[{"task_id": TASK, "status": "completed"}], messages=[said])
    assert told(ROUTED, delta("who"), snapshot)[0].text == "who\n\n(restarted)\n\nwhole answer"
    assert told(ROUTED, snapshot)[0].text == "whole answer"


def test_chunks_have_no_tool_calls_and_all_have_a_choice() -> None:
    form = ChatForm("m", "s", "pentad", 0)
    _, pieces = told(ROUTED, event("tool_call", tool_call_id="c", tool="echo", args={}), message("x"), END)
    chunks = [form.begin(), *map(form.chunk, pieces)]
    assert all(len(chunk["choices"]) == 1 and chunk["choices"][0]["index"] == 0 for chunk in chunks)
    assert not any("tool_calls" in chunk["choices"][0]["delta"] for chunk in chunks)
    assert len({chunk["id"] for chunk in chunks}) == 1


def test_an_error_names_the_field_that_is_wrong() -> None:
    assert error_body("messages.3.content: no", 400)["error"]["param"] == "messages.3.content"
    assert error_body("there is nothing here: no", 404)["error"]["param"] is None
