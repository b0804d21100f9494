"""Thoughts between tags are told from the answer, wherever the pieces of a stream begin and end."""

import pytest

from pentad.shared.models.assembly import Assembly
from pentad.shared.models.think_tags import ThinkTags

ANSWERS: dict[str, tuple[bool, str, str, str]] = {
    "thoughts, then the answer": (False, "<think>\nhm\n</think>\n\nSo.", "\nhm\n", "So."),
    "blanks before": (False, "\n <think>hm</think>So.", "hm", "So."),
    "no thoughts": (False, "So, a < b.", "", "So, a < b."),
    "thoughts of nothing": (False, "<think>\n\n</think>\n\nSo.", "\n\n", "So."),
    "tags within the answer": (False, "Write <think>x</think>.", "", "Write <think>x</think>."),
    "a second pair": (False, "<think>a</think>b<think>c</think>", "a", "b<think>c</think>"),
    "never closed": (False, "<think>hm, </thi", "hm, </thi", ""),
    "half a tag": (False, "<thi", "", "<thi"),
    "another tag": (False, "<thing>", "", "<thing>"),
    "begun in the prompt": (True, "hm\n</think>\nSo.", "hm\n", "So."),
    "begun, and a tag that is none": (True, "a </thin b</think>c", "a </thin b", "c"),
    "nothing": (False, "", "", ""),
    "blanks without end": (False, " " * 3000, "", " " * 3000),
}


@pytest.mark.parametrize("kind", ANSWERS)
@pytest.mark.parametrize("size", [1, 2, 3, 7, 10_000])
def test_thoughts_and_answer(kind: str, size: int) -> None:
    begun, text, thought, said = ANSWERS[kind]
    seen: list[tuple[str, str]] = []
    assembly = Assembly(lambda kind, piece: seen.append((kind, piece)), ThinkTags(begun))
    for at in range(0, len(text), size):
        assembly.add({"choices": [{"delta": {"content": text[at : at + size]}}]})
    answer = assembly.answer("m")
    assert (answer.thinking, answer.text) == (thought, said)
    assert "".join(piece for kind, piece in seen if kind == "content") == said
    assert "".join(piece for kind, piece in seen if kind == "thinking") == thought


def test_the_answer_is_passed_on_before_its_end() -> None:
    seen: list[tuple[str, str]] = []
    assembly = Assembly(lambda kind, piece: seen.append((kind, piece)), ThinkTags(begun=False))
    for piece in ("<th", "ink>a", "b</", "think>", "c"):
        assembly.add({"choices": [{"delta": {"content": piece}}]})
    assert seen == [("thinking", "a"), ("thinking", "b"), ("content", "c")]
