"""The chaos run's look at transcripts: a task may be empty only because its one message was moved away."""

from tests.support.chaos.several_checks import ill_formed_tasks

SAID = [{"role": "user", "content": "book a table", "message_id": "m-1", "at": "2030-01-31T12:00:00.000Z"}]
ANSWER = [{"role": "assistant", "content": "done"}]


def test_only_what_gave_its_message_away_may_be_empty() -> None:
    assert list(ill_formed_tasks({"a": SAID, "b": []}, {"b"})) == []
    assert len(list(ill_formed_tasks({"a": SAID, "b": []}, {"a"}))) == 1
    assert len(list(ill_formed_tasks({"a": ANSWER}, {"a"}))) == 1
