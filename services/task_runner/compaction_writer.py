"""Writes that prompts have the older part of a conversation in short, with or without a step that has summarised it."""

from typing import Any

from pentad.contracts.events import Compacted
from pentad.contracts.records import Compaction
from pentad.services.task_runner.answer_writer import Asked, keep_record, manifest_of
from pentad.services.task_runner.status_writer import leave_wait
from pentad.services.task_runner.step_writer import StepWriter
from pentad.shared import metrics
from pentad.shared.actors.transcript import COMPACTION
from pentad.shared.instructions.instruction_list import kept_under
from pentad.shared.models.ports import ModelAnswer


def write_summary_step(writer: StepWriter, answer: ModelAnswer, asked: Asked) -> None:
    """Write the step of a model that has summarised messages. It counts as a step of the task and in its budget, and
    not as a step of the turn.
    """
    writer.read_clock()
    writer.spend(answer.usage, answer.finish_reason, steps=1)
    writer.turn = writer.turn.with_child(answer.usage.input_tokens + answer.usage.output_tokens, answer.usage.usd)
    version = kept_under(asked.chosen.version)
    writer.commit.set_once(writer.keys.big, version, asked.chosen.instruction.to_json())
    manifest = manifest_of(writer.task, answer, asked, [*asked.before[writer.task.covered :], *writer.added])
    keep_record(writer, answer, asked, manifest)
    writer.commit.set(writer.keys.header, step=asked.step, digest=manifest.digest, covered=manifest.messages[1])


def write_compaction(writer: StepWriter, made: Compaction, answer: ModelAnswer | None) -> None:
    """Write that prompts have messages in short from now on; the task goes on at once, with its mail read.

    ``answer``: of the model that has summarised them; None: there is no summary.
    """
    step = writer.task.step + writer.spent.steps
    said = {} if answer is None else {"step": step, "attempt": writer.attempt, "model": answer.model}
    if answer is not None and answer.model_id:
        said |= {"model_id": answer.model_id}
    writer.append({"role": COMPACTION} | made.model_dump(exclude={"role"}), **said)
    first, last = made.positions[0], made.positions[-1]
    tokens = {"tokens_before": made.tokens_before, "tokens_after": made.tokens_after}
    writer.emit(Compacted, first=first, last=last, **tokens)
    leave_wait(writer)
    if writer.task.waits:
        writer.commit.tallies.count(metrics.tasks.labels("active"))
        writer.commit.untimer(writer.keys, "wait", "stale")
    writer.commit.untimer(writer.keys, "timeout", "retry", "limit")
    if writer.limits.stale_while_calling:
        writer.commit.untimer(writer.keys, "stale")
    fields: dict[str, Any] = {
        "status": "active",
        "attempt": 0,
        "fails": 0,
        "retry_since": 0,
        "open": b"",
        "unanswered": 1,
    }
    writer.set_header(**fields, **writer.usage.model_dump())
    writer.commit.rewake()
