"""A day's tokens of extraction: no more are taken, by however many archivers; what they do not suffice for has facts
by rule."""

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pentad.contracts.ids import rfc3339
from pentad.shared import metrics
from pentad.shared.keys import EXTRACTION_TTL_S, extraction_spending
from pentad.shared.memory.extraction_budget import ExtractionBudget, Reservation, Spending, spent_today
from pentad.shared.store.store import Store
from tests.integration.memory.test_extracting_together import BOSS, CAT, FERRY, Archive, facts, model, question_in
from tests.support.models.replies import fail, say

DAY_MS = 86_400_000
NOON = 1_900_000_000_000 // DAY_MS * DAY_MS + DAY_MS // 2


class Clock:
    """Redis's clock, that a test sets."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = NOON

        async def clock() -> int:
            return self.now

        monkeypatch.setattr(store, "clock", clock)

    @property
    def key(self) -> str:
        return extraction_spending(rfc3339(self.now)[:10])


@pytest.fixture
def clock(store: Store, monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(store, monkeypatch)


@pytest.fixture
async def archive(store: Store, tmp_path: Path) -> AsyncIterator[Archive]:
    made = Archive(store, tmp_path)
    yield made
    await made.aclose()


async def taken(store: Store, clock: Clock, tenant: str = "acme") -> tuple[int, int]:
    """The tokens of the day: of all, and of a tenant."""
    of_all, mine = await store.call("HMGET", clock.key, "tokens", f"tokens:{tenant}")
    return int(of_all or 0), int(mine or 0)


async def test_a_reservation_is_corrected_and_the_key_ends(store: Store, clock: Clock) -> None:
    budget = ExtractionBudget(store, 1_000, 1.0)
    reserved = await budget.reserve("acme", 400, 1)
    assert reserved is not None
    assert await taken(store, clock) == (400, 400)
    await budget.settle(reserved, 150)
    assert await taken(store, clock) == (150, 150)
    assert 0 < await store.call("TTL", clock.key) <= EXTRACTION_TTL_S
    assert await spent_today(store, "acme") == Spending(150, 1_000, 0)
    assert await spent_today(store, "other") == Spending(0, 1_000, 0)


@pytest.mark.parametrize(("first", "second", "granted"), [(600, 400, True), (600, 401, False), (1_000, 1, False)])
async def test_what_is_left_is_granted_to_the_last_token(
    store: Store, clock: Clock, first: int, second: int, granted: bool
) -> None:
    budget = ExtractionBudget(store, 1_000, 1.0)
    assert await budget.reserve("acme", first, 1) is not None
    assert (await budget.reserve("acme", second, 3) is not None) == granted
    assert await spent_today(store, "acme") == Spending(first + second * granted, 1_000, 0 if granted else 3)


async def test_one_tenant_has_its_share_alone(store: Store, clock: Clock) -> None:
    budget = ExtractionBudget(store, 1_000, 0.5)
    assert await budget.reserve("acme", 500, 1) is not None
    assert await budget.reserve("acme", 1, 1) is None
    assert await budget.reserve("other", 400, 1) is not None
    assert await budget.reserve("third", 101, 1) is None, "that is all that there is"
    assert await budget.reserve("third", 100, 1) is not None


async def test_archivers_that_reserve_at_the_same_time_do_not_pass_the_bound(store: Store, clock: Clock) -> None:
    budgets = [ExtractionBudget(store, 1_000, 1.0) for _ in range(2)]
    found = await asyncio.gather(*(budgets[n % 2].reserve("acme", 90, 1) for n in range(40)))
    assert sum(each is not None for each in found) == 11
    assert await taken(store, clock) == (990, 990)


async def test_each_day_has_its_own_and_a_clock_that_steps_gives_none_twice(store: Store, clock: Clock) -> None:
    budget = ExtractionBudget(store, 1_000, 1.0)
    assert await budget.reserve("acme", 1_000, 1) is not None
    clock.now += DAY_MS
    assert await budget.reserve("acme", 1_000, 1) is not None
    assert await budget.reserve("acme", 1, 1) is None
    clock.now -= DAY_MS
    assert await budget.reserve("acme", 1, 1) is None
    clock.now += DAY_MS
    assert await budget.reserve("acme", 1, 1) is None


async def test_a_correction_that_comes_when_its_day_is_gone_makes_no_key_that_never_ends(
    store: Store, clock: Clock
) -> None:
    budget = ExtractionBudget(store, 1_000, 1.0)
    await budget.settle(Reservation(clock.key, "acme", 400), 100)
    assert await store.call("EXISTS", clock.key) == 0


async def test_a_refusal_is_logged_once_a_day_by_however_many_archivers(
    store: Store, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert await ExtractionBudget(store, 1_000, 1.0).reserve("acme", 2_000, 1) is None
        assert len(caplog.records) == 1
        assert "PENTAD_EXTRACT_TOKENS" in caplog.text
        clock.now += DAY_MS
        await ExtractionBudget(store, 1_000, 1.0).reserve("acme", 2_000, 1)
    assert len(caplog.records) == 2


@pytest.mark.parametrize("tokens", [0, 1, 200])
async def test_tasks_that_the_tokens_do_not_suffice_for_have_facts_by_rule(
    archive: Archive, clock: Clock, tokens: int
) -> None:
    tasks = [await archive.add(n, (text, "ada")) for n, text in enumerate((CAT, BOSS), start=1)]
    before = metrics.extractions.labels("budget").value
    async with model() as (server, chat):
        archiver = archive.archiver(chat, ExtractionBudget(archive.store, tokens, 1.0))
        assert not any(await archive.extract(archiver, *tasks))
        clock.now += DAY_MS
        assert not any(await archive.extract(archive.archiver(chat), *tasks))
    assert server.seen.chats == [], "who has facts by rule is not asked about later either"
    assert await archive.texts() == sorted([CAT, BOSS])
    assert metrics.extractions.labels("budget").value - before == (2 if tokens else 0)


async def test_what_the_server_says_of_its_tokens_counts_not_the_estimate(archive: Archive, clock: Clock) -> None:
    task = await archive.add(1, (CAT, "ada"))
    tokens = metrics.internal_tokens
    before = [tokens.labels("memory_archiver", way).value for way in ("input", "output")]
    async with model() as (_, chat):
        await archive.extract(archive.archiver(chat), task)
    used = [
        tokens.labels("memory_archiver", way).value - value
        for way, value in zip(("input", "output"), before, strict=True)
    ]
    assert min(used) > 0
    assert await taken(archive.store, clock) == (sum(used), sum(used))


async def test_a_model_that_is_away_costs_nothing_and_repairs_count(archive: Archive, clock: Clock) -> None:
    task = await archive.add(1, (CAT, "ada"))
    async with model(lambda _: fail(503)) as (_, chat):
        await archive.extract(archive.archiver(chat), task)
    assert await taken(archive.store, clock) == (0, 0)
    async with model(lambda _: say("no json")) as (server, chat):
        await archive.extract(archive.archiver(chat), task)
    one, _ = await taken(archive.store, clock)
    assert len(server.seen.chats) == 4
    assert one >= 4


async def test_two_archivers_ask_within_one_budget_and_nothing_is_lost_or_doubled(
    archive: Archive, clock: Clock
) -> None:
    said = [f"My friend number {n} is called Olav {n}." for n in range(12)]
    tasks = [await archive.add(n, (text, f"user{n}")) for n, text in enumerate(said)]
    async with model() as (server, chat):
        probe = await archive.add(99, (FERRY, "ada"))
        await archive.extract(archive.archiver(chat), probe)
        used, _ = await taken(archive.store, clock)
        estimate = await _estimate(archive, chat)
        budget = used + 5 * estimate + estimate // 2
        archivers = [archive.archiver(chat, ExtractionBudget(archive.store, budget, 1.0)) for _ in range(2)]
        found = await asyncio.gather(*(archive.extract(a, *tasks[n::2]) for n, a in enumerate(archivers)))
        assert not any(each for outcomes in found for each in outcomes)
    asked = {question_in(request)["segments"][0]["text"] for request in server.seen.chats} - {FERRY}
    assert 0 < len(asked) < len(said)
    by_rule = [text for text in said if text not in asked]
    assert await archive.texts() == sorted([*facts(*asked, FERRY), *by_rule])
    assert (await taken(archive.store, clock))[0] <= budget


async def _estimate(archive: Archive, chat: Any) -> int:
    """The tokens that a call about one short task is expected to take."""
    asked: list[int] = []

    class Watched(ExtractionBudget):
        async def reserve(self, tenant: str, tokens: int, tasks: int) -> Reservation | None:
            asked.append(tokens)
            return None

    task = await archive.add(98, (FERRY, "eve"), tenant="estimated")
    await archive.extract(archive.archiver(chat, Watched(archive.store, 1, 1.0)), task)
    return asked[0]
