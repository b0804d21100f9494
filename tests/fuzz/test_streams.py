"""A whole answer comes out of its stream the same, however its server splits, numbers, repeats and decorates it.

`make fuzz EXAMPLES=5000` tries more. Each habit here is that of a server that is in use.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hypothesis import given
from hypothesis import strategies as st

from pentad.shared.models.answer_reader import AnswerReader
from pentad.shared.models.anthropic.assembly import MessageAssembly
from pentad.shared.models.assembly import AnswerAssembly, Assembly
from pentad.shared.models.endpoint import Endpoint
from pentad.shared.models.ports import ModelAnswer
from pentad.shared.models.think_tags import ThinkTags

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
    """Of calls: `right`, from `one`, as `text`, as a `float`, always `zero`, a `new` one for each piece, `none`."""
    ids: str
    """Of calls: in the `first` piece, in `each`, `empty` behind the first, a `new` one in each piece."""
    names: str
    """Of tools: in the `first` piece, in `each`, `empty` behind the first, in two `pieces`."""
    interleaved: bool
    together: bool
    """Pieces of several calls stand in one delta."""
    objects: bool
    """Arguments are an object, not its text."""
    cumulative: bool
    """Each piece of the arguments repeats those before it."""
    bare: bool
    """Name and arguments stand in the entry itself, without `function`."""
    repeated: bool
    """The last chunk has the whole message once more."""
    early_finish: bool
    """The reason of the end stands in a delta before the last one."""
    texts: str
    """Of texts: `whole` characters, `escaped` ones that may be cut between two escapes, in `bytes` that may be cut
    within a character, or `growing`, each piece with those before it."""
    nulls: bool
    newline: bytes
    space: bytes
    done: bool


@st.composite
def habits(draw: st.DrawFn) -> Habits:
    index = draw(st.sampled_from(["right", "one", "text", "float", "zero", "new", "none"]))
    numbered = index in ("right", "one", "text", "float")
    ids = draw(st.sampled_from(["first", "each", "empty", *(["new"] if index == "none" else [])]))
    names = draw(st.sampled_from(["first", "each", "empty", "pieces"] if numbered else ["first", "empty"]))
    return Habits(
        index,
        ids,
        names,
        interleaved=draw(st.booleans()) and (numbered or (index == "none" and ids == "each")),
        together=draw(st.booleans()) and numbered and names in ("first", "empty"),  # a second name begins another call
        objects=draw(st.booleans()),
        cumulative=draw(st.booleans()),
        bare=draw(st.booleans()),
        repeated=draw(st.booleans()),
        early_finish=draw(st.booleans()),
        texts=draw(st.sampled_from(["whole", "escaped", "bytes", "growing"])),
        nulls=draw(st.booleans()),
        newline=draw(st.sampled_from([b"\n", b"\r\n", b"\r"])),
        space=draw(st.sampled_from([b"", b" "])),
        done=draw(st.booleans()),
    )


def pieces(draw: st.DrawFn, text: str) -> list[str]:
    """The text cut anywhere; one piece at least."""
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=4)))
    return [text[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def halves(text: str) -> str:
    """The text in the units of UTF-16, as programs count that may cut a character in two."""
    units = text.encode("utf-16-le")
    return "".join(chr(int.from_bytes(units[at : at + 2], "little")) for at in range(0, len(units), 2))


def as_bytes(text: str) -> str:
    """The text in the bytes of UTF-8, each of which is written down as it is."""
    return text.encode().decode("ascii", "surrogateescape")


UNITS: dict[str, Callable[[str], str]] = {"escaped": halves, "bytes": as_bytes}
"""What makes of a text the units between which its server cuts; characters else."""


def growing(text: str, written: Sequence[str]) -> list[str]:
    """Each piece with all those before it; as it came where that could be taken for something else."""
    ends = sorted({len("".join(written[: n + 1])) for n in range(len(written))} - {0})
    unlike = len(ends) > 2 or (len(ends) == 2 and ends[0] >= 16)
    return [text[:end] for end in ends] if unlike else list(written)


def call_pieces(draw: st.DrawFn, number: int, call: tuple[str, dict[str, Any]], habit: Habits) -> list[dict[str, Any]]:
    """The entries of `tool_calls` that one call is written in."""
    name, args = call
    text = json.dumps(args, ensure_ascii=draw(st.booleans()))
    cut = str if habit.cumulative else UNITS.get(habit.texts, str)
    written: list[Any] = [args] if habit.objects else pieces(draw, cut(text))
    if habit.index == "new" or habit.ids == "new":  # an empty piece says nothing of whose it is
        written = [each for each in written if each != ""]
    if habit.cumulative and not habit.objects:
        ends = sorted({len("".join(written[: n + 1])) for n in range(len(written))} - {0})
        written = [text[:end] for end in ends]  # the whole twice would be two calls of a server with one index for all
    names = [name]
    if habit.names == "pieces" and not name[1:].startswith(name[:1]):  # else it reads as the same name said again
        names, written = [name[:1], name[1:]], ["", *written]
    entries: list[dict[str, Any]] = []
    for n, arguments in enumerate(written):
        function: dict[str, Any] = {"arguments": arguments}
        entry: dict[str, Any] = function if habit.bare else {"function": function}
        if n < len(names):
            function["name"] = names[n]
        elif habit.names == "each":
            function["name"] = name
        elif habit.names == "empty":
            function["name"] = ""
        if n == 0 or habit.ids == "each":
            entry |= {"id": f"call_{number}", "type": "function"}
        elif habit.ids == "new":
            entry["id"] = f"piece_{number}_{n}"
        elif habit.ids == "empty":
            entry["id"] = ""
        if habit.index != "none":
            new = 10 * number + n
            numbers = {
                "right": number,
                "one": number + 1,
                "text": str(number),
                "float": float(number),
                "zero": 0,
                "new": new,
            }
            entry["index"] = numbers[habit.index]
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
    for name, text in (("reasoning_content", whole.thinking), ("content", whole.text)):
        if text:
            written = pieces(draw, UNITS.get(habit.texts, str)(text))
            found += [{name: piece} for piece in (growing(text, written) if habit.texts == "growing" else written)]
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
    last: dict[str, Any] = {"index": 0, "delta": {}, "finish_reason": reason}
    if habit.repeated:
        calls = [
            {"id": f"call_{n}", "type": "function", "function": {"name": name, "arguments": json.dumps(args)}}
            for n, (name, args) in enumerate(whole.calls)
        ]
        last["message"] = {"role": "assistant", "content": whole.text, "reasoning_content": whole.thinking}
        last["message"] |= {"tool_calls": calls} if calls else {}
    found.append({"choices": [last]})
    if draw(st.booleans()):
        found.append({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}})
    return found


FRAME_IDS: dict[str, Callable[[int], bytes]] = {
    "one for all": lambda _: b"chatcmpl-1",
    "numbers": lambda number: b"%d" % number,
    "unlike": lambda number: b"e%d-0" % number,
}


def order(draw: st.DrawFn, length: int, ids: str) -> list[int]:
    """The numbers of the events as they come: where each has an id of its own, some come once more."""
    found = list(range(length))
    if ids in ("numbers", "unlike") and length > 2:
        end = draw(st.integers(2, length))
        again = draw(st.integers(1, min(end, 4)))
        found[end:end] = range(end - again, end)
    return found


def framed(draw: st.DrawFn, events: Sequence[tuple[str, Any]], line: bytes, space: bytes) -> list[bytes]:
    """The parts of the body that events come in: each the name of its kind, '' for none, and what it says."""
    body = b""
    ids = draw(st.sampled_from(["", "", *FRAME_IDS]))
    for number in order(draw, len(events), ids):
        name, said = events[number]
        if draw(st.integers(0, 7)) == 0:
            body += b": keep-alive" + line * 2
        if name or draw(st.integers(0, 7)) == 0:
            body += b"event: " + (name or "message").encode() + line
        if ids:
            body += b"id:" + space + FRAME_IDS[ids](number) + line
        text = (
            said if isinstance(said, bytes) else json.dumps(said, ensure_ascii=False).encode("utf-8", "surrogateescape")
        )
        body += b"data:" + space + text + line * 2
    cuts = sorted(draw(st.lists(st.integers(0, len(body)), max_size=8)))
    return [body[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(body)], strict=True)]


@st.composite
def streams(draw: st.DrawFn) -> tuple[Whole, list[bytes]]:
    """An answer, and the parts of the body that it comes in."""
    whole, habit = draw(ANSWERS), draw(habits())
    said = chunks(draw, whole, habit)
    events: list[tuple[str, Any]] = [
        ("", json.dumps(each).encode() if habit.texts == "escaped" else each) for each in said
    ]
    if habit.done:
        events.append(("", b"[DONE]"))
    return whole, framed(draw, events, habit.newline, habit.space)


class Shown:
    """What clients are shown while the answer comes."""

    def __init__(self) -> None:
        self.content = self.thinking = ""

    def add(self, kind: Literal["content", "thinking"], text: str) -> None:
        """Take a delta."""
        setattr(self, kind, getattr(self, kind) + text)


def read(assembly: AnswerAssembly, parts: Sequence[bytes]) -> ModelAnswer:
    """The answer that a body says."""
    reader = AnswerReader(Endpoint("http://127.0.0.1:1", "key"), assembly)
    for part in parts:
        reader.feed(part)
    reader.end()
    return reader.answer("m")


def check(whole: Whole, answer: ModelAnswer, shown: Shown) -> None:
    """What was said is put together, and was shown as it is kept."""
    assert (answer.text, answer.thinking) == (whole.text, whole.thinking)
    assert (shown.content, shown.thinking) == (whole.text, whole.thinking)
    assert [(call.name, json.loads(call.arguments)) for call in answer.tool_calls] == list(whole.calls)
    assert answer.finish_reason == ("tool_calls" if whole.calls else "stop")


@given(streams())
def test_the_same_answer_comes_out(stream: tuple[Whole, list[bytes]]) -> None:
    """Promise: what a server splits, misnumbers or repeats is put together as it was meant, and shown as it is kept."""
    whole, parts = stream
    shown = Shown()
    answer = read(Assembly(shown.add), parts)
    check(whole, answer, shown)
    if whole.calls:
        assert answer.thoughts is not None
        assert answer.thoughts.get("ids", [""] * len(whole.calls)) == [f"call_{n}" for n in range(len(whole.calls))]


WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="<>"), min_size=1, max_size=20).filter(
    lambda text: text.strip() == text
)
"""Text that is none of the marks and keeps its spaces."""


@st.composite
def tagged_streams(draw: st.DrawFn) -> tuple[Whole, bool, list[bytes]]:
    """An answer with its thoughts in the text, whether the template has opened the first tag, and the parts of it."""
    whole, begun = Whole(draw(WORDS), draw(WORDS), []), draw(st.booleans())
    said = f"{'' if begun else '<think>'}{whole.thinking}</think>{whole.text}"
    told = [{"choices": [{"index": 0, "delta": {"content": piece}}]} for piece in pieces(draw, said)]
    told.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    return whole, begun, framed(draw, [("", each) for each in told], b"\n", b" ")


@given(tagged_streams())
def test_thoughts_between_tags_come_out_as_thoughts(stream: tuple[Whole, bool, list[bytes]]) -> None:
    """A server may cut its stream within a tag."""
    whole, begun, parts = stream
    shown = Shown()
    check(whole, read(Assembly(shown.add, ThinkTags(begun)), parts), shown)


def begins(draw: st.DrawFn, text: str, cut: Callable[[str], str]) -> tuple[str, list[str]]:
    """What a block begins with, and what its deltas say: some servers begin it with all, and some say it again."""
    begun, written = draw(st.sampled_from(["", text])), pieces(draw, cut(text))
    return begun, [] if begun and draw(st.booleans()) else written


def blocks(draw: st.DrawFn, whole: Whole, signature: str) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """The blocks of a message in Anthropic's protocol: how each begins, and its deltas."""
    found: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    cut = UNITS.get(draw(st.sampled_from(["whole", "bytes"])), str)
    if whole.thinking:
        begun, written = begins(draw, whole.thinking, cut)
        thought = [{"type": "thinking_delta", "thinking": piece} for piece in written]
        signed_at_once = not written and draw(st.booleans())
        if not signed_at_once:
            thought.append({"type": "signature_delta", "signature": signature})  # official clients take the last one
        head: dict[str, Any] = {"type": "thinking", "thinking": begun, "signature": signature if signed_at_once else ""}
        found.append((head, thought))
    if draw(st.booleans()):
        found.append(({"type": "redacted_thinking", "data": signature}, []))
    if whole.text:
        begun, written = begins(draw, whole.text, cut)
        said = [{"type": "text_delta", "text": piece} for piece in written]
        found.append(({"type": "text", "text": begun}, said))
    for number, (name, args) in enumerate(whole.calls):
        head = {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": {}}
        at_once = bool(args) and draw(st.booleans())
        text = json.dumps(args, ensure_ascii=False)
        written = [] if at_once and draw(st.booleans()) else pieces(draw, cut(text))
        deltas_of = [{"type": "input_json_delta", "partial_json": piece} for piece in written]
        found.append((head | ({"input": args} if at_once else {}), deltas_of))
    return found


@st.composite
def message_streams(draw: st.DrawFn) -> tuple[Whole, str, list[bytes]]:
    """An answer in Anthropic's protocol, the signature of its thoughts, and the parts of the body that it comes in."""
    whole = draw(ANSWERS)
    signature = draw(st.from_regex(r"[A-Za-z0-9+/]{4,40}={0,2}", fullmatch=True))
    events: list[dict[str, Any]] = [{"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 3}}}]
    for index, (head, said) in enumerate(blocks(draw, whole, signature)):
        events.append({"type": "content_block_start", "index": index, "content_block": head})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in said]
        events.append({"type": "content_block_stop", "index": index})
        if draw(st.integers(0, 5)) == 0:
            events.append({"type": draw(st.sampled_from(["ping", "of_another_time"]))})
    reason = "tool_use" if whole.calls else "end_turn"
    events += [{"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 4}}]
    events.append({"type": "message_stop"})
    named = draw(st.booleans())
    told = [(each["type"] if named else "", each) for each in events]
    return (
        whole,
        signature,
        framed(draw, told, draw(st.sampled_from([b"\n", b"\r\n"])), draw(st.sampled_from([b"", b" "]))),
    )


@given(message_streams())
def test_the_same_message_comes_out_of_anthropics_protocol(stream: tuple[Whole, str, list[bytes]]) -> None:
    """With the signature of its thoughts, which it must be sent back with its calls."""
    whole, signature, parts = stream
    shown = Shown()
    answer = read(MessageAssembly(shown.add), parts)
    check(whole, answer, shown)
    if whole.calls:
        assert answer.thoughts is not None
        assert answer.thoughts["ids"] == [f"toolu_{number}" for number in range(len(whole.calls))]
        signed = answer.thoughts["fields"].get("blocks", [])
        assert [block.get("signature") or block.get("data") for block in signed] == [signature] * len(signed)
        assert bool(signed) >= bool(whole.thinking)
