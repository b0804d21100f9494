"""Law 6: a step costs what it adds, the two hundredth of a task as much as the fifth. Counted, not timed.

The prompt grows: it is given to the model as the transcript's own messages, so that even it is not copied here.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pentad.contracts.records import TranscriptMeta
from pentad.contracts.streams import SESSION_WAKE, TASK_WAKE
from pentad.services.task_runner import model_step
from pentad.services.task_runner.answer_writer import Asked, write_answer
from pentad.services.task_runner.domain.after_answer import Next
from pentad.services.task_runner.handlers import RunnerHandler
from pentad.services.task_runner.prompt import KnownTranscript, TranscriptCache
from pentad.services.task_runner.step_writer import StepWriter
from pentad.services.task_runner.tool_calls import RequestedCall
from pentad.shared.actors.step_prompt import chain
from pentad.shared.actors.transcript import entry, shown
from pentad.shared.models.ports import ModelAnswer
from pentad.shared.store.store import Store
from tests.integration.handlers.flow import Flow, answer
from tests.support.step_costs import HELD, CostMeter

EARLY, LATE = 5, 200
TEXT = "x" * 4000
"""Said by the model, given to the tool and told by it, in every step: the transcript grows by 12 KB a step."""
MORE = 1.02
"""What a late step may cost of an early one: numbers in it have more digits."""


async def _costs(store: Store, folder: Path, patch: pytest.MonkeyPatch, late: int) -> tuple[dict[str, int], ...]:
    """Of an early and a late step, each from the mail that asks for it to the tool's result."""
    call = ("echo", f'{{"text":"{TEXT}"}}')
    flow = await Flow(store, folder, lambda _: answer(TEXT, call), pentad_step_limit=10_000).prepare()
    meter = CostMeter(store, patch)
    await flow.say("go")
    for _ in range(EARLY):
        await flow.once()
    early = await meter.of(flow.once)
    for _ in range(late - EARLY - 1):
        await flow.once()
    costs = early, await meter.of(flow.once)
    assert int(await store.call("HGET", (await flow.task()).header, "step")) == late + 1
    return costs


def _grown(early: dict[str, int], late: dict[str, int]) -> dict[str, tuple[int, int]]:
    """What a late step costs more, with its bytes in an early one and in a late one."""
    return {use: (early[use], late[use]) for use in early if late[use] > MORE * early[use]}


async def test_a_late_step_sends_reads_parses_writes_hashes_and_holds_no_more_than_an_early_one(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    early, late = await _costs(store, tmp_path, monkeypatch, LATE)
    assert early.keys() == {"sent", "received", "parsed", "serialised", "hashed", HELD}
    assert all(cost > len(TEXT) for cost in early.values()), early
    assert _grown(early, late) == {}
    assert late[HELD] < LATE * len(TEXT), "less than a third of the transcript: it was not copied, however early"


# Each of these makes every step handle the whole transcript in one way.


def _hash_all(patch: pytest.MonkeyPatch) -> None:
    all_added: list[bytes] = []

    def chain_of_all(digest: str, added: Sequence[bytes], system: bytes, tools: str, model: str) -> str:
        all_added.extend(added)
        return chain(digest, all_added, system, tools, model)

    patch.setattr("pentad.services.task_runner.answer_writer.chain", chain_of_all)


def _do_with_all(patch: pytest.MonkeyPatch, what: Callable[[tuple[bytes, ...]], object]) -> None:
    real = TranscriptCache.keep

    def keep(cache: TranscriptCache, key: str, known: KnownTranscript) -> None:
        what(known.messages)
        real(cache, key, known)

    patch.setattr(TranscriptCache, "keep", keep)


def _parse_all(patch: pytest.MonkeyPatch) -> None:
    _do_with_all(patch, lambda messages: [shown(b"{}\n" + message) for message in messages])


def _serialise_all(patch: pytest.MonkeyPatch) -> None:
    meta = TranscriptMeta(at="")
    _do_with_all(patch, lambda messages: [entry({"": message.decode()}, meta) for message in messages])


def _copy_all(patch: pytest.MonkeyPatch) -> None:
    _do_with_all(patch, b"".join)


def _read_all(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RunnerHandler, "read_from", lambda *_: 0)


def _send_all(patch: pytest.MonkeyPatch) -> None:
    def write(
        writer: StepWriter, answer: ModelAnswer, following: Next, asked: Asked, *more: Any, redriven: bool = False
    ) -> Sequence[RequestedCall]:
        calls = write_answer(writer, answer, following, asked, *more, redriven=redriven)
        writer.commit.set(writer.keys.header, all=b"".join(asked.before))
        return calls

    patch.setattr(model_step, "write_answer", write)


BREACHES: Mapping[str, Callable[[pytest.MonkeyPatch], None]] = {
    "hashed": _hash_all,
    "parsed": _parse_all,
    "serialised": _serialise_all,
    HELD: _copy_all,
    "received": _read_all,
    "sent": _send_all,
}


@pytest.mark.parametrize("use", BREACHES)
async def test_a_step_that_handles_the_whole_transcript_is_noticed(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use: str
) -> None:
    BREACHES[use](monkeypatch)
    assert use in _grown(*await _costs(store, tmp_path, monkeypatch, late=120))


async def test_a_manifest_does_not_grow_with_the_history(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = await Flow(store, tmp_path, lambda _: answer("", ("echo", "{}")), pentad_step_limit=10_000).prepare()
    await flow.say("go")
    while await flow.once() and await store.call("LLEN", steps := (await flow.task()).steps) < LATE:
        pass
    sizes = [len(step) for step in await store.call("LRANGE", steps, 0, -1)]
    assert sizes[LATE - 1] <= MORE * sizes[EARLY]


async def test_a_new_task_keeps_its_instruction_without_a_round_trip_more(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = await Flow(store, tmp_path, lambda _: answer("done")).prepare()
    await flow.say("warm what the process remembers")
    await flow.drive()
    asked: list[str] = []
    for name in ("run", "call", "calls"):
        monkeypatch.setattr(Store, name, _noted(getattr(Store, name), asked))
    await flow.say("go", task_id="new")
    asked.clear()
    await flow.once(SESSION_WAKE)
    assert asked.count("commit") == 1
    assert len(asked) == 5, "an entry, the session, its tasks, its last turns, one commit"
    asked.clear()
    await flow.once(TASK_WAKE)
    assert [what for what in asked if what != "LRANGE"] == ["XREADGROUP", "take", "commit"], (
        "nothing of the instruction"
    )


def _noted(real: Callable[..., Any], asked: list[str]) -> Callable[..., Any]:
    def noted(store: Store, *args: Any, **options: Any) -> Any:
        asked.append(str(args[0]))
        return real(store, *args, **options)

    return noted
