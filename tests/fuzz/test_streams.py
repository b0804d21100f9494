"""A whole answer comes out of its stream the same, however its server splits, numbers, repeats and decorates it.

`make fuzz EXAMPLES=5000` tries more. Each habit here is that of a server that is in use.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pentad.shared.models.answer_reader import AnswerReader
from pentad.shared.models.assembly import Assembly
from pentad.shared.models.endpoint import Endpoint

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
NAMES = st.from_regex(r"[a-z][a-z_]{0,11}", fullmatch=True)
ARGUMENTS = st.dictionaries(NAMES, st.none() | st.integers(-9, 9) | TEXT | st.lists(TEXT, max_size=2), max_size=3)


@dataclass(frozen=True)
class Whole:
    """An answer before a server takes it to pieces."""

    text: str
    thinking: str
    calls: Sequence[tuple[str, dict[str, Any]]]


ANSWERS = st.builds(Whole, TEXT, TEXT, st.lists(st.tuples(NAMES, ARGUMENTS), max_size=3)).filter(
    lambda whole: whole.text or whole.thinking or whole.calls
)


@dataclass(frozen=True)
class Habits:
    """How a server writes an answer down."""

    index: str
    """Of calls: `right`, from `one`, always `zero`, `none`."""
    ids: str
    """Of calls: in the `first` piece, in `each`, `empty` behind the first."""
    names: str
    """Of tools: in the `first` piece, in `each`, `empty` behind the first, in two `pieces`."""
    interleaved: bool
    together: bool
    """Pieces of several calls stand in one delta."""
    objects: bool
    """Arguments are an object, not its text."""
    early_finish: bool
    """The reason of the end stands in a delta before the last one."""
    nulls: bool
    newline: bytes
    space: bytes
    done: bool


@st.composite
def habits(draw: st.DrawFn) -> Habits:
    index = draw(st.sampled_from(["right", "one", "zero", "none"]))
    numbered = index in ("right", "one")
    ids = draw(st.sampled_from(["first", "each", "empty"]))
    names = draw(st.sampled_from(["first", "each", "empty", "pieces"] if numbered else ["first", "empty"]))
    return Habits(
        index,
        ids,
        names,
        interleaved=draw(st.booleans()) and (numbered or (index == "none" and ids == "each")),
        together=draw(st.booleans()) and numbered and names in ("first", "empty"),  # a second name begins another call
        objects=draw(st.booleans()),
        early_finish=draw(st.booleans()),
        nulls=draw(st.booleans()),
        newline=draw(st.sampled_from([b"\n", b"\r\n", b"\r"])),
        space=draw(st.sampled_from([b"", b" "])),
        done=draw(st.booleans()),
    )


def pieces(draw: st.DrawFn, text: str) -> list[str]:
    """The text cut anywhere; one piece at least."""
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=4)))
    return [text[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def call_pieces(draw: st.DrawFn, number: int, call: tuple[str, dict[str, Any]], habit: Habits) -> list[dict[str, Any]]:
    """The entries of `tool_calls` that one call is written in."""
    name, args = call
    written: list[Any] = [args] if habit.objects else pieces(draw, json.dumps(args, ensure_ascii=False))
    names = [name]
    if habit.names == "pieces" and not name[1:].startswith(name[:1]):  # else it reads as the same name said again
        names, written = [name[:1], name[1:]], ["", *written]
    entries: list[dict[str, Any]] = []
    for n, arguments in enumerate(written):
        function: dict[str, Any] = {"arguments": arguments}
        entry: dict[str, Any] = {"function": function}
        if n < len(names):
            function["name"] = names[n]
        elif habit.names == "each":
            function["name"] = name
        elif habit.names == "empty":
            function["name"] = ""
        if n == 0 or habit.ids == "each":
            entry |= {"id": f"call_{number}", "type": "function"}
        elif habit.ids == "empty":
            entry["id"] = ""
        if habit.index != "none":
            entry["index"] = {"right": number, "one": number + 1, "zero": 0}[habit.index]
        entries.append(entry)
    return entries


def mixed(draw: st.DrawFn, lists: Sequence[list[Any]]) -> list[Any]:
    """The lists' members, each list in its order; no list begins before those in front of it."""
    left, found, begun = [list(each) for each in lists], [], 0
    while any(left):
        open_ones = [each for each in left[: begun + 1] if each]
        chosen = open_ones[draw(st.integers(0, len(open_ones) - 1))] if open_ones else left[begun]
        if begun < len(left) and chosen is left[begun]:
            begun += 1
        found.append(chosen.pop(0))
    return found


def deltas(draw: st.DrawFn, whole: Whole, habit: Habits) -> list[dict[str, Any]]:
    """What the choices of the stream say, in order."""
    found: list[dict[str, Any]] = []
    if whole.thinking:
        found += [{"reasoning_content": piece} for piece in pieces(draw, whole.thinking)]
    if whole.text:
        found += [{"content": piece} for piece in pieces(draw, whole.text)]
    of_calls = [call_pieces(draw, number, call, habit) for number, call in enumerate(whole.calls)]
    entries = mixed(draw, of_calls) if habit.interleaved else [entry for each in of_calls for entry in each]
    if habit.together and len(whole.calls) > 1:
        while entries:
            size = draw(st.integers(1, 3))
            found.append({"tool_calls": entries[:size]})
            entries = entries[size:]
    found += [{"tool_calls": [entry]} for entry in entries]
    return found


def chunks(draw: st.DrawFn, whole: Whole, habit: Habits) -> list[dict[str, Any]]:
    """The events of the stream."""
    said = deltas(draw, whole, habit)
    reason = "tool_calls" if whole.calls else "stop"
    early = draw(st.integers(0, len(said) - 1)) if habit.early_finish else -1
    found: list[dict[str, Any]] = []
    beside = {"role": "assistant", "content": None, "tool_calls": None, "refusal": None} if habit.nulls else {}
    for n, delta in enumerate(said):
        choice: dict[str, Any] = {"index": 0, "delta": beside | delta, "finish_reason": reason if n == early else None}
        found.append({"id": "c", "model": "m", "choices": [choice]})
        if draw(st.integers(0, 5)) == 0:
            found.append({"choices": []})
    found.append({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    if draw(st.booleans()):
        found.append({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}})
    return found


@st.composite
def streams(draw: st.DrawFn) -> tuple[Whole, list[bytes]]:
    """An answer, and the parts of the body that it comes in."""
    whole, habit = draw(ANSWERS), draw(habits())
    line, body = habit.newline, b""
    for chunk in chunks(draw, whole, habit):
        if draw(st.integers(0, 7)) == 0:
            body += b": keep-alive" + line * 2
        if draw(st.integers(0, 7)) == 0:
            body += b"event: message" + line
        body += b"data:" + habit.space + json.dumps(chunk, ensure_ascii=False).encode() + line * 2
    if habit.done:
        body += b"data:" + habit.space + b"[DONE]" + line * 2
    cuts = sorted(draw(st.lists(st.integers(0, len(body)), max_size=8)))
    return whole, [body[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(body)], strict=True)]


@given(streams())
def test_the_same_answer_comes_out(stream: tuple[Whole, list[bytes]]) -> None:
    """Promise: what a server splits, misnumbers or repeats is put together as it was meant, and shown as it is kept."""
    whole, parts = stream
    shown: dict[str, str] = {"content": "", "thinking": ""}

    def show(kind: str, text: str) -> None:
        shown[kind] += text

    reader = AnswerReader(Endpoint("http://127.0.0.1:1", "key"), Assembly(show))
    for part in parts:
        reader.feed(part)
    reader.end()
    answer = reader.answer("m")
    assert (answer.text, answer.thinking) == (whole.text, whole.thinking)
    assert shown == {"content": whole.text, "thinking": whole.thinking}
    assert [(call.name, json.loads(call.arguments)) for call in answer.tool_calls] == list(whole.calls)
    assert answer.finish_reason == ("tool_calls" if whole.calls else "stop")
