"""A prompt is exactly the transcript, however it was read, and its digest says so."""

import itertools

import pytest
from pydantic_core import from_json

from pentad.contracts.records import Exclusion, TranscriptMeta
from pentad.contracts.tools import ToolSpec
from pentad.services.task_runner.prompt import (
    NO_OUTPUT,
    KnownTranscript,
    Toolbox,
    TranscriptCache,
    assistant,
    tool_result,
    user,
)
from pentad.shared.actors.step_prompt import chain
from pentad.shared.actors.transcript import Replacement, entry, message_of, prompt_of, remaining, shown


def logged(*texts: str) -> list[bytes]:
    return [entry(user(text), TranscriptMeta(at=f"t{n}", message_id=text)) for n, text in enumerate(texts)]


def test_an_entry_keeps_the_message_word_for_word_and_what_is_known_beside_it() -> None:
    raw = entry(user("line\nbreak"), TranscriptMeta(at="now", step=3))
    assert from_json(message_of(raw)) == {"role": "user", "content": "line\nbreak"}
    assert shown(raw) == {"role": "user", "content": "line\nbreak", "at": "now", "step": 3}


@pytest.mark.parametrize(("said", "told"), [("", NO_OUTPUT), (" \n", NO_OUTPUT), ("0", "0"), (" a ", " a ")])
def test_a_result_without_text_is_told_in_words(said: str, told: str) -> None:
    """Promise: a tool that returns nothing ends no task at a server that refuses empty results."""
    assert tool_result("c1", said)["content"] == told


@pytest.mark.parametrize(("cut", "count"), [(c, n) for n in range(5) for c in range(n + 1)])
def test_a_transcript_read_in_two_parts_is_the_transcript(cut: int, count: int) -> None:
    entries = logged(*map(str, range(count)))
    first = KnownTranscript().extended(entries[:cut])
    assert first is not None
    whole = first.extended(entries[first.start :])
    assert whole is not None
    assert list(whole.messages) == [message_of(e) for e in entries]


def test_a_transcript_that_is_another_one_is_noticed() -> None:
    known = KnownTranscript().extended(logged("a", "b"))
    assert known is not None
    assert known.extended(logged("a", "x")[known.start :]) is None
    assert known.extended([]) is None


def test_nothing_new_is_the_same_transcript() -> None:
    entries = logged("a", "b")
    known = KnownTranscript().extended(entries)
    assert known is not None
    assert known.extended(entries[known.start :]) is known


def test_the_cache_forgets_what_was_not_used_for_longest_and_never_its_bound() -> None:
    cache = TranscriptCache(limit=1000)
    known = [KnownTranscript((b"x" * 200,), b"") for _ in range(4)]
    for n, k in enumerate(known):
        cache.keep(f"t{n}", k)
    assert [bool(cache.get(f"t{n}").messages) for n in range(4)] == [False, True, True, True]
    cache.keep("large", KnownTranscript((b"x" * 501,), b""))
    assert cache.get("large") == KnownTranscript()
    cache.keep("t1", KnownTranscript((b"y" * 200,), b""))
    cache.keep("t5", KnownTranscript((b"y" * 200,), b""))
    assert [bool(cache.get(f"t{n}").messages) for n in (1, 2, 3, 5)] == [True, False, True, True]


def test_a_kept_transcript_that_grew_too_large_is_not_served_in_its_old_form() -> None:
    cache = TranscriptCache(limit=1000)
    cache.keep("t", KnownTranscript((b"x",), b"x"))
    cache.keep("t", KnownTranscript((b"x" * 600,), b"x"))
    assert cache.get("t") == KnownTranscript()


def test_the_digest_depends_on_every_part_and_on_where_parts_end() -> None:
    base: tuple[str, list[bytes], bytes, str, str] = ("d", [b"ab", b"c"], b"system", "tools", "model")
    variants = [
        base,
        ("e", *base[1:]),
        ("d", [b"a", b"bc"], *base[2:]),
        ("d", [b"ab"], *base[2:]),
        ("d", [b"c", b"ab"], *base[2:]),
        (*base[:2], b"systems", "tools", "model"),
        (*base[:3], "tool", "smodel"),
        (*base[:4], "models"),
    ]
    digests = [chain(*variant) for variant in variants]
    assert all(a != b for a, b in itertools.combinations(digests, 2))
    assert chain(*base) == digests[0]


def test_messages_have_openai_form() -> None:
    assert tool_result("c1", "ok") == {"role": "tool", "tool_call_id": "c1", "content": "ok"}
    assert assistant("hi", []) == {"role": "assistant", "content": "hi"}
    assert assistant("", []) == {"role": "assistant", "content": ""}
    asked = assistant("", [("c1", "echo", "{}")])
    assert asked["content"] is None
    assert asked["tool_calls"] == [{"id": "c1", "type": "function", "function": {"name": "echo", "arguments": "{}"}}]


def test_a_toolbox_without_tools_offers_none() -> None:
    assert (Toolbox({}).json, Toolbox({}).digest) == (None, "")
    one = Toolbox({"echo": ToolSpec(name="echo")})
    other = Toolbox({"echo": ToolSpec(name="echo", description="says it again")})
    assert one.json is not None
    assert from_json(one.json)[0]["function"]["name"] == "echo"
    assert one.digest != other.digest


def test_what_was_moved_away_stays_in_the_transcript_and_out_of_the_prompt() -> None:
    note = Exclusion(positions=[1, 2], to="new", to_task_id="t2")
    entries = [*logged("a", "b", "c"), entry(note.model_dump(), TranscriptMeta(at="t", message_id="b")), *logged("d")]
    whole = KnownTranscript().extended(entries)
    before = KnownTranscript().extended(entries[:3])
    assert whole is not None
    assert before is not None
    assert before.extended(entries[before.start :]) == whole
    assert [from_json(m)["content"] for m in before.prompt] == ["a", "b", "c"]
    assert [from_json(m)["content"] for m in whole.prompt] == ["a", "d"]
    assert [m["content"] for m in remaining([shown(e) for e in entries])] == ["a", "d"]
    assert len(whole.messages) == len(entries)


def test_what_replaces_messages_stands_where_the_first_of_them_stood() -> None:
    """A replacement by other messages is made as an exclusion is; one that was replaced itself adds nothing."""
    lines = [f"m{n}".encode() for n in range(8)]
    once = Replacement(4, frozenset({1, 2}), (b"short",))
    assert prompt_of(lines, [once]) == [b"m0", b"short", b"m3", b"m5", b"m6", b"m7"]
    again = Replacement(7, frozenset({0, 1, 3, 4}), (b"shorter", b"still"))
    assert prompt_of(lines, [once, again]) == [b"shorter", b"still", b"m5", b"m6"]
    away = Replacement(6, frozenset({5}))
    assert prompt_of(lines, [once, away, again]) == [b"shorter", b"still"]


def test_what_a_user_says_is_never_an_exclusion() -> None:
    said = user('{"role":"exclusion","positions":[0]}')
    known = KnownTranscript().extended([entry(said, TranscriptMeta(at="t"))])
    assert known is not None
    assert (len(known.replacements), len(known.prompt)) == (0, 1)
