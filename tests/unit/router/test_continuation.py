"""With one live task, what can only go on with it is not asked about."""

import pytest

from pentad.services.router.domain.similarity import only_continues
from pentad.shared.digests.task_digest import TaskDigest, read_utterance

ASKED = TaskDigest().heard(read_utterance("what is the weather in Paris")).answering("It rains. Anything else?")


@pytest.mark.parametrize(
    "text", ["yes", "No.", "42", "and Beijing?", "好的", "是的", "tomorrow", "明天", "that one", "it is"]
)
def test_an_answer_goes_on(text: str) -> None:
    assert only_continues(read_utterance(text), ASKED)


@pytest.mark.parametrize(
    "text", ["I need a cab", "Hello", "帮我订酒店", "你好", "a poem", "", "?", "Ubuntu", "x" * 65_536]
)
def test_what_may_begin_something_does_not(text: str) -> None:
    assert not only_continues(read_utterance(text), ASKED)


def test_a_talk_that_ended_does_not_go_on_by_itself() -> None:
    ended = ASKED.heard(read_utterance("no, thanks, bye"))
    assert not only_continues(read_utterance("yes"), ended)
