"""An answer is whole or cut off, wherever its bytes are divided or end; and it is bounded."""

from collections.abc import Callable
from typing import Any

import pytest

from pentad.shared.models import answer_reader
from pentad.shared.models.answer_reader import AnswerReader
from pentad.shared.models.anthropic.assembly import MessageAssembly
from pentad.shared.models.assembly import AnswerAssembly, Assembly
from pentad.shared.models.endpoint import Endpoint
from pentad.shared.models.ports import (
    DeltaSink,
    ModelAnswer,
    ModelCutOff,
    ModelRefused,
    ModelUnavailable,
    ToolCallDraft,
    Usage,
)
from tests.support.models.protocols import ANTHROPIC, OPENAI, ScriptedProtocol
from tests.support.models.replies import call

REPLY = call(("add", {"a": 1}), text="é", thinking="hmm")
ASSEMBLIES: dict[ScriptedProtocol, Callable[[DeltaSink], AnswerAssembly]] = {
    OPENAI: Assembly,
    ANTHROPIC: MessageAssembly,
}
THOUGHTS: dict[ScriptedProtocol, dict[str, Any]] = {
    OPENAI: {"of": "openai/m", "ids": ["call_0"], "fields": {"reasoning_content": "hmm"}},
    ANTHROPIC: {
        "of": "anthropic/m",
        "ids": ["toolu_0"],
        "fields": {"blocks": [{"type": "thinking", "signature": "c2lnbmVk", "thinking": "hmm"}]},
    },
}

protocols = pytest.mark.parametrize("protocol", ASSEMBLIES, ids=lambda protocol: protocol.path)


def reader(protocol: ScriptedProtocol) -> AnswerReader:
    return AnswerReader(Endpoint("http://127.0.0.1:1", "key"), ASSEMBLIES[protocol](lambda _kind, _text: None))


def read(protocol: ScriptedProtocol, *parts: bytes, broken: bool = False) -> ModelAnswer:
    reading = reader(protocol)
    for part in parts:
        reading.feed(part)
    if broken:
        reading.broke(OSError("gone"))
    else:
        reading.end()
    return reading.answer("m")


@protocols
def test_an_answer_divided_at_any_byte_is_the_same(protocol: ScriptedProtocol) -> None:
    body = b"".join(protocol.events(REPLY))
    answers = {read(protocol, body[:at], body[at:]) for at in range(len(body))}
    calls = (ToolCallDraft("add", '{"a":1}'),)
    usage = Usage(11, 3, cached_tokens=5 if protocol.path == "/messages" else 0)
    expected = ModelAnswer(
        "é", "hmm", calls, "tool_calls", usage, "scripted", thoughts=THOUGHTS[protocol], whole_calls=0
    )
    assert answers == {expected}


@protocols
@pytest.mark.parametrize("broken", [True, False])
def test_an_answer_cut_at_any_byte_is_whole_or_cut_off_or_was_none(protocol: ScriptedProtocol, broken: bool) -> None:
    body = b"".join(protocol.events(REPLY))
    whole = [at for at in range(len(body)) if _is_whole(protocol, body[:at], broken)]
    assert whole == list(range(whole[0], len(body))), "once whole, it stays so"
    assert b"add" in body[: whole[0]]
    assert len(whole) < len(body) / 3


def _is_whole(protocol: ScriptedProtocol, body: bytes, broken: bool) -> bool:
    try:
        answer = read(protocol, body, broken=broken)
    except ModelUnavailable:
        assert b"hmm" not in body.rpartition(b"\n\n")[0], "no event has said anything"
        return False
    except ModelCutOff:
        assert b"hmm" in body
        return False
    assert (answer.text, answer.thinking, answer.tool_calls) == ("é", "hmm", (ToolCallDraft("add", '{"a":1}'),))
    return True


@protocols
def test_an_answer_that_never_ends_is_cut_off(protocol: ScriptedProtocol, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_reader, "MAX_ANSWER_BYTES", 100_000)
    piece = protocol.events(REPLY)[1]
    with pytest.raises(ModelCutOff, match="larger than 100000 bytes"):
        read(protocol, *[piece] * (100_000 // len(piece) + 1))


@protocols
def test_a_document_has_a_bound_of_its_own(protocol: ScriptedProtocol, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_reader, "MAX_DOCUMENT_BYTES", 10_000)
    with pytest.raises(ModelRefused, match="one document of more than 10000 bytes"):
        read(protocol, b'{"choices":', *[b" " * 1000] * 10)


@protocols
def test_of_calls_without_number_the_first_are_read(protocol: ScriptedProtocol) -> None:
    many = b"".join(protocol.events(call(*[("f", {"n": n}) for n in range(12_000)])))
    answer = read(protocol, many)
    assert answer.tool_calls == tuple(ToolCallDraft("f", f'{{"n":{n}}}') for n in range(1001))
    assert answer.too_many_calls
    enough = read(protocol, b"".join(protocol.events(call(*[("f", {})] * 1001))))
    assert (len(enough.tool_calls), enough.too_many_calls) == (1001, False)


@protocols
def test_arguments_without_end_are_refused_and_not_asked_for_again(protocol: ScriptedProtocol) -> None:
    endless = protocol.events(call(("f", {"text": "x" * 3_000_000}), ("f", {"text": "x" * 3_000_000})))
    with pytest.raises(ModelRefused, match="more than 4194304 characters"):
        read(protocol, *endless)
