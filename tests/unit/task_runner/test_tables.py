"""Whatever is decided can be written down: each plan has its function, and so has each thing that follows an answer."""

from typing import get_args

from pentad.services.task_runner import answer_writer, plan_writer
from pentad.services.task_runner.answer_writer import Following
from pentad.services.task_runner.domain.plan import AskModel, CallAgain, GiveAway, Plan


def test_each_plan_has_one_function_or_needs_more_than_the_task_first() -> None:
    assert plan_writer.WRITES.keys() | {AskModel, CallAgain, GiveAway} == set(get_args(Plan))
    assert plan_writer.WRITES.keys().isdisjoint({AskModel, CallAgain, GiveAway})


def test_each_thing_that_follows_an_answer_has_one_function() -> None:
    assert answer_writer.FOLLOWS.keys() == set(get_args(Following))
