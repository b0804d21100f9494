"""What a message belongs to is weighed by laws that hold for any weights that make sense, and for any message."""

import time
from dataclasses import fields, replace
from itertools import permutations

import pytest

from pentad.services.router.domain.scoring import (
    CANDIDATES,
    CANDIDATES_OF_MANY,
    MANY_TASKS,
    Chance,
    Ranking,
    Weights,
    rank_tasks,
)
from pentad.services.router.domain.similarity import reason_of
from pentad.shared.digests.task_digest import Sketch, TaskDigest, read_utterance, sketch_of
from tests.unit.digests.test_wording import HOSTILE


def task(goal: str, *answers: str, sketch: Sketch | None = None) -> TaskDigest:
    digest = TaskDigest().heard(read_utterance(goal, sketch))
    for answer in answers:
        digest = digest.answering(answer)
    return digest


FLIGHT = task("I need a flight to Lisbon", "From which airport?")
TABLE = task("Book a table for dinner", "For how many people?")
LETTER = task("Write a letter to the landlord about the heating", "Here it is: Dear Mr Smith, the heating is broken.")
PIZZA = task("帮我订一份披萨", "您想要什么口味？")
OPEN = (FLIGHT, TABLE, LETTER, PIZZA)


def chance_of(ranking: Ranking, rank: int | None) -> float:
    return next(chance.probability for chance in ranking.chances if chance.rank == rank)


def direction(*values: float) -> Sketch:
    found = sketch_of("m", values)
    assert found is not None
    return found


@pytest.mark.parametrize("text", [*HOSTILE, "three", "Dear Mrs Smith", "I need a cab to the station", "披萨要大的"])
@pytest.mark.parametrize("tasks", [OPEN[:1], OPEN, OPEN * 3])
def test_probabilities_add_up_and_the_last_task_is_a_candidate(text: str, tasks: tuple[TaskDigest, ...]) -> None:
    ranking = rank_tasks(read_utterance(text), tasks)
    chances = [chance.probability for chance in ranking.chances]
    assert sum(chances) == pytest.approx(1)
    assert chances == sorted(chances, reverse=True)
    candidates = [chance.rank for chance in ranking.candidates()]
    assert 0 in candidates
    assert None not in candidates
    assert len(candidates) == min(len(tasks), CANDIDATES_OF_MANY if len(tasks) >= MANY_TASKS else CANDIDATES)
    assert ranking == rank_tasks(read_utterance(text), tasks)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("From Hamburg airport", FLIGHT),
        ("for five people", TABLE),
        ("Make the letter to the landlord shorter", LETTER),
        ("披萨要大的", PIZZA),
    ],
)
def test_a_message_finds_its_task_wherever_that_stands(text: str, meant: TaskDigest) -> None:
    for tasks in permutations(OPEN):
        ranking = rank_tasks(read_utterance(text), tasks)
        assert meant in [tasks[chance.rank] for chance in ranking.candidates() if chance.rank is not None]
    assert rank_tasks(read_utterance(text), [meant, *OPEN]).best.rank == 0


def test_a_request_for_something_else_is_new() -> None:
    text = "Hello, I am looking for a good book about the history of chess for my father"
    assert rank_tasks(read_utterance(text), OPEN).best.rank is None
    assert rank_tasks(read_utterance("And in the evening?"), OPEN).best.rank == 0


def test_with_no_task_a_message_is_new_for_certain() -> None:
    ranking = rank_tasks(read_utterance("yes"), ())
    assert (ranking.best.rank, ranking.best.probability, ranking.candidates()) == (None, 1.0, ())
    assert ranking.sure()


def test_the_nearer_in_meaning_the_likelier() -> None:
    message = read_utterance("the red one", direction(1, 0))
    other = task("a coat", sketch=direction(0, 1))
    found = [
        chance_of(rank_tasks(message, [other, task("a coat", sketch=direction(near, 1 - near))]), 1)
        for near in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    ]
    assert found == sorted(found)
    assert found[0] < found[-1]


def test_the_more_shared_words_the_likelier() -> None:
    message = read_utterance("alpha beta gamma delta")
    found = [
        chance_of(rank_tasks(message, [TABLE, task(f"omega {words}")]), 1)
        for words in ("", "alpha", "alpha beta", "alpha beta gamma", "alpha beta gamma delta")
    ]
    assert found == sorted(found)
    assert len(set(found)) == len(found)


def test_the_longer_ago_the_less_likely() -> None:
    same = [task("a coat") for _ in range(5)]
    ranking = rank_tasks(read_utterance("green"), same)
    assert [chance.rank for chance in ranking.chances if chance.rank is not None] == [0, 1, 2, 3, 4]
    found = [chance_of(rank_tasks(read_utterance("green"), same, Weights(recency=weight)), 0) for weight in (0, 1, 2)]
    assert found == sorted(found)


def test_an_answer_goes_where_its_kind_was_asked_for() -> None:
    tasks = [task("a cab", "Where do you want to go?"), task("a dinner", "What time suits you?")]
    assert rank_tasks(read_utterance("at 7 pm"), tasks).best.rank == 1
    assert rank_tasks(read_utterance("to Potsdam"), tasks).best.rank == 0


def test_a_talk_that_ended_is_left_alone() -> None:
    ended = TABLE.heard(read_utterance("Thanks, bye"))
    message = read_utterance("what is the price?")
    assert chance_of(rank_tasks(message, [ended, FLIGHT]), 0) < chance_of(rank_tasks(message, [TABLE, FLIGHT]), 0)


def test_vectors_of_another_model_and_none_change_nothing() -> None:
    tasks = [task("a coat", sketch=direction(1, 0)), task("a hat", sketch=direction(0, 1))]
    plain = rank_tasks(read_utterance("the red one"), tasks)
    assert rank_tasks(read_utterance("the red one", Sketch("another", b"\x01\x02")), tasks) == plain
    bare = [replace(each, sketch=None) for each in tasks]
    assert rank_tasks(read_utterance("the red one", direction(1, 0)), bare) == plain


def test_sure_is_what_reaches_the_threshold() -> None:
    ranking = rank_tasks(read_utterance("披萨要大的"), OPEN)
    assert ranking.sure(ranking.best.probability)
    assert not ranking.sure(ranking.best.probability + 0.001)


def test_the_reason_names_what_speaks_for_it() -> None:
    tasks = [task("a cab", "Where do you want to go?"), task("a dinner", "What time suits you?")]
    assert "it answers what the task asked (+2.0)" in reason_of(rank_tasks(read_utterance("at 7 pm"), tasks))
    leaning = reason_of(rank_tasks(read_utterance("The bicycle was stolen and nobody saw it"), [LETTER]))
    assert leaning.endswith(": the message leans on what was said last (+0.6)")
    silent = Weights(leans=0)
    assert reason_of(rank_tasks(read_utterance("green"), tasks, silent)).endswith("it was spoken to last")
    assert reason_of(rank_tasks(read_utterance("green"), ())).endswith("nothing that it could go on with")


@pytest.mark.parametrize("text", [*HOSTILE, "Hello, please find me a book on chess", "thanks", "to Potsdam", "it"])
def test_there_is_a_reason_for_every_decision(text: str) -> None:
    for tasks in (OPEN, OPEN[:1], ()):
        assert len(reason_of(rank_tasks(read_utterance(text), tasks))) < 250


def test_weighing_five_full_tasks_is_fast() -> None:
    vector = direction(*((-1) ** n * n for n in range(1, 385)))
    words = [" ".join(f"w{each}n{n}" for n in range(60)) for each in range(5)]
    tasks = [task(text, text, sketch=vector) for text in words]
    message = read_utterance(" ".join(words), vector)
    costs = []
    for _ in range(30):
        begun = time.process_time()
        rank_tasks(message, tasks)
        costs.append(time.process_time() - begun)
    assert min(costs) < 0.002  # 0.3 ms where nothing else runs


@pytest.mark.parametrize("sign", [field.name for field in fields(Weights)])
def test_each_sign_that_speaks_for_a_task_has_words(sign: str) -> None:
    told = reason_of(Ranking((Chance(0, 0.9, {sign: 1.0}),)))
    assert sign in NEVER_FOR or f" {sign} (" not in told


NEVER_FOR = {"recency", "closed", "new", "refers"}
"""Signs that only speak against."""
