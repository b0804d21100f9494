"""What is written down of a step, so that its prompt can be rebuilt exactly."""

from collections.abc import Sequence

from pentad.contracts.dates import LocalDate
from pentad.contracts.records import Manifest
from pentad.services.task_runner.prompt import Toolbox, chain
from pentad.shared.actors.headers import TaskHeader
from pentad.shared.memory.recalling import Recall
from pentad.shared.models.ports import ModelAnswer


def manifest_of(
    task: TaskHeader,
    version: str,
    toolbox: Toolbox,
    answer: ModelAnswer,
    system: bytes,
    since: Sequence[bytes],
    recall: Recall | None,
    today: LocalDate,
) -> Manifest:
    """The manifest of a step. ``version``: of its instruction. ``since``: the messages that the digest of the step
    before does not cover. The digest is chained on that one, so that its cost is what the step adds.
    """
    return Manifest(
        messages=(0, task.covered + len(since)),
        instruction=task.instruction,
        instruction_version=version,
        tools=toolbox.digest,
        model=answer.model,
        model_id=answer.model_id or None,
        memories=list(recall.anchors) if recall is not None else [],
        recall=recall.outcome if recall is not None else None,
        walk=recall.walk if recall is not None else None,
        today=today,
        digest=chain(task.digest, since, system, toolbox.digest, answer.model),
    )
