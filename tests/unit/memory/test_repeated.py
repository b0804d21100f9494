"""An answer that quotes a memory is no second copy of it; one that says something of its own is remembered."""

from typing import Any

import pytest

from pentad.contracts.quotes import Quote, quotation, quote_line
from pentad.shared.memory.points import cut_further, cut_task, texts_of
from tests.unit.segments.transcripts import answered, said

CAT, FERRY = "my cat is called Ada", "The ferry to Bergen leaves at nine."
ANCHOR = "a1.WyJ0YXNrLTAtMjNmYzRlZWM5MTYyNTEw"
TOLD = f'From memory: "{CAT}" (2030-01-31, source {ANCHOR})'
ASKS = "what is my cat called?"


def recalled(*texts: str, role: str = "user") -> dict[str, Any]:
    quotes = [Quote(quote=n, type="user_message", text=text, anchor=ANCHOR) for n, text in enumerate(texts, start=1)]
    return {"role": role, "content": quotation([quote_line(each) for each in quotes]), "origin": "recalled"}


def kept(*messages: dict[str, Any]) -> list[str]:
    return texts_of(cut_task("acme", "task-0-1", "s1", messages))


@pytest.mark.parametrize(
    "text", [TOLD, CAT, f"据记忆：“{CAT}”（2030-01-31，来源 {ANCHOR}）", f"{TOLD}\nFrom memory: {FERRY!r}"]
)
def test_an_answer_that_only_quotes_is_not_remembered(text: str) -> None:
    assert kept(recalled(CAT, FERRY), said(ASKS), answered(text)) == [ASKS]
    assert kept(said(ASKS), recalled(CAT, FERRY, role="tool"), answered(text)) == [ASKS]


@pytest.mark.parametrize(
    "text", ["Your cat is called Ada.", f"{CAT}, and by the way: the vet said on Monday that she needs new drops."]
)
def test_an_answer_of_its_own_words_is(text: str) -> None:
    assert kept(recalled(CAT), said(ASKS), answered(text)) == [ASKS, text]


def test_what_a_user_says_again_is_remembered_and_so_is_an_answer_before_the_quotation() -> None:
    assert kept(recalled(CAT), said(CAT), answered("Noted.")) == [CAT, "Noted."]
    assert kept(said(ASKS), answered(CAT), recalled(CAT, role="tool")) == [ASKS, CAT]


def test_an_answer_that_is_given_again_in_the_next_task_is_not() -> None:
    again = [said(ASKS, origin="context"), answered(TOLD, origin="context"), said("once more?"), answered(TOLD)]
    assert kept(*again) == ["once more?"]


def test_a_task_that_goes_on_is_cut_as_a_whole_one() -> None:
    messages = [recalled(CAT), said(ASKS), answered("I look."), said("and?"), answered(TOLD, step=2)]
    begun = cut_task("acme", "task-0-1", "s1", messages[:3])
    assert cut_further(begun, messages, 3) == cut_task("acme", "task-0-1", "s1", messages)
