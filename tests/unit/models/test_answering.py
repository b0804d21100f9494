"""Which model of a chain answers, what its failure means for the others, and what a caller is told."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from pentad.contracts.models import ModelEntry
from pentad.shared.models.live_model import LiveModel
from pentad.shared.models.model_chain import ask
from pentad.shared.models.model_pool import OpenGate
from pentad.shared.models.ports import (
    ChatRequest,
    DeltaSink,
    ModelAnswer,
    ModelBusy,
    ModelCutOff,
    ModelFailed,
    ModelMisconfigured,
    ModelRefused,
    ModelTooLong,
    ModelUnavailable,
    Usage,
)
from tests.support.waiting import wait_until

REQUEST = ChatRequest((), None, 600.0)
AWAY, CUT, REFUSED = ModelUnavailable("away"), ModelCutOff("cut"), ModelRefused("too long")
WRONG_KEY = ModelMisconfigured("wrong key")


class Played:
    """A client that plays failures, then answers with its name."""

    place = None
    learned = ()
    window: int | None = None
    usage = Usage(1_000, 500)

    def __init__(self, name: str, *failures: ModelFailed, for_ever: bool = False) -> None:
        self.name, self.failures, self.for_ever = name, list(failures), for_ever
        self.requests: list[ChatRequest] = []

    def warm(self) -> None:
        """Nothing to prepare."""

    async def stream(self, request: ChatRequest, on_delta: DeltaSink) -> ModelAnswer:
        self.requests.append(request)
        if self.failures:
            raise self.failures[0] if self.for_ever else self.failures.pop(0)
        on_delta("content", "hi")
        return ModelAnswer("hi", "", (), "stop", self.usage, self.name)

    async def aclose(self) -> None:
        """Nothing is open."""


class Counted(OpenGate):
    """A gate with so many places, which writes down what it was asked."""

    def __init__(self, free: int = 9, probes: bool = True) -> None:
        self.free, self.probes = free, probes
        self.waited: list[str] = []

    async def enter(self, model_id: str, limit: int, caller: str, wait: bool) -> str:
        if self.free:
            self.free -= 1
            return "place"
        self.waited += [model_id] * wait
        raise ModelBusy("full", 0.25)

    def leave(self, model_id: str, place: str) -> None:
        self.free += 1

    async def may_probe(self, model_id: str, for_s: float) -> bool:
        return self.probes


def live(client: Played, **fields: Any) -> LiveModel:
    return LiveModel(ModelEntry.model_validate({"id": client.name, **fields}), client, client.name)


async def asked(chain: Sequence[LiveModel], gate: OpenGate | None = None) -> ModelAnswer | ModelFailed:
    return await ask(chain, REQUEST, lambda *_: None, gate or OpenGate())


def state(chain: Sequence[LiveModel]) -> str:
    return chain[0].circuit.state


async def by(chain: Sequence[LiveModel], gate: OpenGate | None = None) -> str:
    answer = await asked(chain, gate)
    return answer.model_id if isinstance(answer, ModelAnswer) else f"{type(answer).__name__}: {answer}"


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (AWAY, "b"),
        (WRONG_KEY, "b"),
        (REFUSED, "b"),
        (CUT, "ModelCutOff: cut"),
    ],
)
async def test_the_next_model_is_asked_when_nothing_was_shown(failure: ModelFailed, told: str) -> None:
    a, b = Played("a", failure), Played("b")
    assert await by([live(a), live(b)]) == told
    assert len(b.requests) == (told == "b")


async def test_a_request_that_is_refused_after_something_was_shown_ends_the_attempt() -> None:
    """Promise: no second model answers where the first has been heard."""

    class Shown(Played):
        async def stream(self, request: ChatRequest, on_delta: DeltaSink) -> ModelAnswer:
            on_delta("content", "as I was say")
            raise REFUSED

    b = Played("b")
    assert await by([live(Shown("a")), live(b)]) == "ModelRefused: too long"
    assert b.requests == []


async def test_a_request_that_all_find_too_long_is_told_so_with_the_largest_limit() -> None:
    """Promise: what a shorter conversation would help against can be told from every other refusal."""
    failures = [ModelTooLong("a", 100), REFUSED, ModelTooLong("c", 7)]
    failure = await asked([live(Played(name, failure)) for name, failure in zip("abc", failures, strict=True)])
    assert isinstance(failure, ModelTooLong)
    assert (str(failure), failure.limit) == ("a; too long; c", 100)


async def test_a_model_that_is_known_to_be_down_is_not_asked() -> None:
    a, b = Played("a", AWAY, for_ever=True), Played("b")
    chain = [live(a), live(b)]
    assert [await by(chain) for _ in range(50)] == ["b"] * 50
    assert len(a.requests) == 3


async def test_a_model_that_cuts_its_answers_is_left_alone_too() -> None:
    chain = [live(Played("a", CUT, for_ever=True)), live(Played("b"))]
    assert [await by(chain) for _ in range(4)] == ["ModelCutOff: cut"] * 3 + ["b"]


@pytest.mark.parametrize(("cut", "first"), [(0, "a"), (1, "a"), (2, "b"), (3, "c"), (4, "a")])
async def test_a_step_whose_answers_were_cut_begins_further_down_the_chain(cut: int, first: str) -> None:
    chain = [live(Played(name)) for name in "abc"]
    answer = await ask(chain, replace(REQUEST, cut=cut), lambda *_: None, OpenGate())
    assert isinstance(answer, ModelAnswer)
    assert answer.model_id == first


async def test_a_request_that_is_refused_is_no_sign_that_the_model_is_down() -> None:
    a = Played("a", REFUSED, for_ever=True)
    chain = [live(a), live(Played("b"))]
    for _ in range(20):
        await by(chain)
    assert (len(a.requests), chain[0].circuit.state) == (20, "ok")


async def test_while_another_stands_ready_an_answer_must_begin_soon_and_nothing_is_asked_twice() -> None:
    a, b = Played("a", AWAY), Played("b")
    await by([live(a, begin_s=7), live(b, begin_s=9)])
    assert (a.requests[0].begin_s, b.requests[0].begin_s) == (7, None), "the last of the chain may take its time"


async def test_one_model_alone_is_asked_as_ever() -> None:
    a = Played("a")
    assert await by([live(a)]) == "a"
    assert a.requests[0] is REQUEST


async def test_when_all_are_down_the_caller_is_told_the_earliest_time() -> None:
    chain = [live(Played(name, AWAY, for_ever=True)) for name in "ab"]
    for _ in range(3):
        await asked(chain)
    failure = await asked(chain)
    assert isinstance(failure, ModelUnavailable)
    assert failure.retry_after is not None
    assert 0 < failure.retry_after <= 1
    assert "a is left alone" in str(failure)
    assert "b is left alone" in str(failure)


async def test_a_model_that_just_failed_may_be_asked_again_sooner_than_one_that_is_left_alone() -> None:
    chain = [live(Played("a", AWAY, for_ever=True)), live(Played("b", AWAY))]
    chain[0].circuit.failed(0.0, "wrong", hopeless=True)
    failure = await asked(chain)
    assert isinstance(failure, ModelUnavailable)
    assert failure.retry_after is None


async def test_a_wrong_key_is_told_at_once_each_time_where_nobody_else_can_answer() -> None:
    a = Played("a", WRONG_KEY, for_ever=True)
    chain = [live(a)]
    assert [await by(chain) for _ in range(4)] == ["ModelMisconfigured: wrong key"] * 4
    a.failures.clear()
    assert await by(chain) == "a", "mended, it answers at once"
    assert chain[0].circuit.closed


async def test_a_wrong_key_waits_for_the_other_model_that_comes_back() -> None:
    chain = [live(Played("a", WRONG_KEY, for_ever=True)), live(Played("b", AWAY, for_ever=True))]
    for _ in range(4):
        assert type(await asked(chain)) is ModelUnavailable


async def test_one_probe_closes_the_circuit_and_others_do_not_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = Played("a", AWAY, AWAY, AWAY), Played("b")
    chain = [live(a), live(b)]
    for _ in range(3):
        await by(chain)
    chain[0].circuit._until = 0.0
    assert await by(chain, Counted(probes=False)) == "b", "another process probes"
    assert state(chain) == "open"
    assert await by(chain) == "a"
    assert state(chain) == "ok"
    assert a.requests[-1].begin_s == 60.0, "a probe does not wait for ever"


async def test_a_probe_that_begins_to_answer_is_proof_enough() -> None:
    class Slow(Played):
        """Begins, and goes on when it is told."""

        go = asyncio.Event()

        async def stream(self, request: ChatRequest, on_delta: DeltaSink) -> ModelAnswer:
            on_delta("content", "I ")
            await self.go.wait()
            return await super().stream(request, on_delta)

    chain = [live(Slow("a"))]
    chain[0].circuit.failed(0.0, "wrong", hopeless=True)
    chain[0].circuit._until = 0.0
    probing = asyncio.create_task(_by_text(chain))
    await wait_until("the circuit to close", lambda: chain[0].circuit.closed)
    Slow.go.set()
    assert await probing == "hi"


async def _by_text(chain: Sequence[LiveModel]) -> str:
    answer = await asked(chain)
    return answer.text if isinstance(answer, ModelAnswer) else str(answer)


async def test_a_probe_that_is_cancelled_leaves_the_circuit_to_the_next() -> None:
    class Hanging(Played):
        """Never answers."""

        async def stream(self, request: ChatRequest, on_delta: DeltaSink) -> ModelAnswer:
            await asyncio.Event().wait()
            raise AssertionError

    chain = [live(Hanging("a"))]
    chain[0].circuit.failed(0.0, "wrong", hopeless=True)
    chain[0].circuit._until = 0.0
    probing = asyncio.create_task(_by_text(chain))
    await wait_until("the probe", lambda: state(chain) == "probing")
    probing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await probing
    assert state(chain) == "open"


async def test_beyond_its_limit_the_next_model_is_asked_and_with_none_the_caller_waits_its_turn() -> None:
    gate = Counted(free=0)
    assert await by([live(Played("a"), concurrency=1), live(Played("b"))], gate) == "b"
    assert gate.waited == []
    busy = await asked([live(Played("a"), concurrency=1), live(Played("b"), concurrency=1)], gate)
    assert isinstance(busy, ModelBusy)
    assert (busy.retry_after, gate.waited) == (0.25, ["a"]), "it waits in one place alone"
    assert isinstance(await asked([live(Played("a"), concurrency=1)], gate), ModelBusy)


async def test_a_place_is_given_back_however_the_call_ends() -> None:
    gate = Counted(free=1)
    for failure in ((), (AWAY,), (REFUSED,), (CUT,)):
        await asked([live(Played("a", *failure), concurrency=1)], gate)
        assert gate.free == 1


async def test_what_a_call_costs_follows_from_its_tokens() -> None:
    answer = await asked([live(Played("a"), prices={"input": 2.0, "output": 4.0})])
    assert isinstance(answer, ModelAnswer)
    assert answer.usage == Usage(1_000, 500, 0.004)


async def test_cached_input_has_a_price_of_its_own() -> None:
    client = Played("a")
    client.usage = Usage(1_000, 500, cached_tokens=800)
    for prices, usd in (({"input": 2.0, "output": 4.0, "cached_input": 0.5}, 0.0028), ({"input": 2.0}, 0.002)):
        answer = await asked([live(client, prices=prices)])
        assert isinstance(answer, ModelAnswer)
        assert answer.usage.usd == pytest.approx(usd)
        assert answer.usage.cached_tokens == 800


@pytest.mark.parametrize(
    ("entry", "named", "window"),
    [
        (None, None, None),
        (8_000, None, 8_000),
        (None, 4_096, 4_096),
        (8_000, 4_096, 4_096),
        (2_000, 4_096, 2_000),
    ],
)
def test_a_models_window_is_the_least_that_its_entry_and_its_server_name(
    entry: int | None, named: int | None, window: int | None
) -> None:
    client = Played("a")
    client.window = named
    assert live(client, context_tokens=entry).window == window


async def test_answers_calibrate_the_counter_of_their_model_alone() -> None:
    """Promise: what one model reports says nothing of another; estimates and strangers' prompts say nothing at all."""
    lines = (b'{"role":"user","content":"%s"}' % (b"Some words that are said. " * 80),)
    request = ChatRequest(lines, None, 600.0)
    one, other, uncounted = live(Played("a")), live(Played("b")), live(Played("c"))
    before = one.counter.count(lines)
    assert isinstance(uncounted.client, Played)
    uncounted.client.usage = Usage(5_000, 5, estimated=True)
    for model in (one, uncounted):
        await model.answer(request, lambda *_: None)
    other_request = replace(request, teaches=False)
    await other.answer(other_request, lambda *_: None)
    assert one.counter.count(lines) != before
    assert [model.counter.count(lines) for model in (other, uncounted)] == [before, before]
