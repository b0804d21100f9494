"""The figures of an evaluation, as a table for people and as one line of JSON."""

import json
from collections.abc import Callable, Sequence
from typing import get_args

from tests.bench.common import quantile
from tests.evaluation.labelled import NEW, MessageKind
from tests.evaluation.verdicts import Verdict, VerdictStage

_FEW, _SEVERAL = 3, 5
_WIDE, _WIDER = 4, 6
"""The right task is looked for among the first `_FEW` where so many tasks are live, `_SEVERAL` where still more are."""

Pick = Callable[[Verdict], bool]


def figures_of(verdicts: Sequence[Verdict]) -> dict[str, float | int | None]:
    """What is promised, by name: shares in percent, times in ms; None where the file has no such message."""
    kinds = {kind: _share([v.right for v in verdicts if v.message.kind == kind]) for kind in get_args(MessageKind)}
    known = [share for share in kinds.values() if share is not None]
    times = [1000 * verdict.seconds for verdict in verdicts]
    return {
        "items": len(verdicts),
        "accuracy": _rounded(_share([v.right for v in verdicts])),
        **{kind: _rounded(share) for kind, share in kinds.items()},
        "mean": _rounded(sum(known) / len(known)),
        "recall_at_3": _rounded(_recall(verdicts, _FEW, _WIDE)),
        "recall_at_5": _rounded(_recall(verdicts, _SEVERAL, _WIDER)),
        "alone": _rounded(_share([v.alone for v in verdicts])),
        "alone_accuracy": _rounded(_share([v.right for v in verdicts if v.alone])),
        "p50_ms": round(quantile(times, 0.5), 3),
        "p95_ms": round(quantile(times, 0.95), 3),
    }


def table_of(verdicts: Sequence[Verdict]) -> str:
    """The same and more in words: by kind, language and stage."""
    figures = figures_of(verdicts)
    lines = [_line("all messages", verdicts)]
    lines += [_line(kind, [v for v in verdicts if v.message.kind == kind]) for kind in get_args(MessageKind)]
    lines.append(f"{'mean of the three kinds':28}{figures['mean']:>7}")
    for language in sorted({verdict.message.language for verdict in verdicts}):
        lines.append(_line(f"language {language}", [v for v in verdicts if v.message.language == language]))
    lines += [_line(f"stage {stage}", [v for v in verdicts if v.stage == stage]) for stage in get_args(VerdictStage)]
    lines.append(_line("the last task each time", verdicts, _is_last))
    lines.append(_line("taken for control", verdicts, lambda verdict: not verdict.chosen))
    lines.append(f"{'among 3 of 4 or more tasks':28}{_cell(figures['recall_at_3'])} %")
    lines.append(f"{'among 5 of 6 or more tasks':28}{_cell(figures['recall_at_5'])} %")
    lines.append(f"{'decided alone':28}{_cell(figures['alone'])} %, right {_cell(figures['alone_accuracy']).strip()} %")
    lines.append(f"{'time of a decision':28}{figures['p50_ms']:>7} ms p50, {figures['p95_ms']} ms p95")
    return "\n".join(lines)


def json_line(verdicts: Sequence[Verdict]) -> str:
    """The figures for machines."""
    return json.dumps(figures_of(verdicts))


def _is_last(verdict: Verdict) -> bool:
    return bool(verdict.message.tasks) and verdict.message.tasks[0].id == verdict.message.gold


def _line(name: str, verdicts: Sequence[Verdict], right: Pick = lambda verdict: verdict.right) -> str:
    return f"{name:28}{_cell(_rounded(_share([right(verdict) for verdict in verdicts])))} % of {len(verdicts)}"


def _cell(figure: float | None) -> str:
    return f"{'-' if figure is None else figure:>7}"


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, 1)


def _share(held: Sequence[bool]) -> float | None:
    """In percent; None of nothing."""
    return 100 * sum(held) / len(held) if held else None


def _recall(verdicts: Sequence[Verdict], first: int, live: int) -> float | None:
    """How often the right task is among the first candidates, of the messages that belong to one of enough tasks."""
    asked = [v for v in verdicts if v.message.gold != NEW and len(v.message.tasks) >= live]
    return _share([v.message.gold in v.candidates[:first] for v in asked])
