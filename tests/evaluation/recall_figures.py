"""The figures of `make bench-memory`, as a table for people and as one line of JSON."""

import json
from collections.abc import Callable, Sequence, Set

from tests.bench.common import quantile
from tests.evaluation.recalling import Recalled

DEPTHS = (5, 10, 20)
Method = Callable[[Recalled], Sequence[str]]
_METHODS: dict[str, Method] = {
    "BM25 alone": lambda recalled: recalled.words,
    "dense alone": lambda recalled: recalled.dense,
    "recall": lambda recalled: recalled.fused,
}


def recall_at(recalled: Sequence[Recalled], depth: int, method: Method = _METHODS["recall"]) -> float:
    """The mean share of a question's evidence among the first turns found, in percent."""
    shares = [
        len(each.question.evidence & set(method(each)[:depth])) / len(each.question.evidence) for each in recalled
    ]
    return round(100 * sum(shares) / len(shares), 1)


def recall_json(recalled: Sequence[Recalled]) -> str:
    """The figures for machines: percent, and ms without those of the embedding model."""
    times = _own_times(recalled)
    figures = {
        "questions": len(recalled),
        **{f"recall_at_{depth}": recall_at(recalled, depth) for depth in DEPTHS},
        "by_category": {name: _depths(part) for name, part in _by_category(recalled).items()},
        "p50_ms": round(quantile(times, 0.5), 3),
        "p95_ms": round(quantile(times, 0.95), 3),
    }
    return json.dumps(figures)


def recall_table(recalled: Sequence[Recalled]) -> str:
    """The same in words: by method, category and conversation, and what a query takes."""
    lines = [f"{'evidence among the first':28}" + "".join(f"{depth:>8}" for depth in DEPTHS) + "   %"]
    lines += [_row(name, recalled, method) for name, method in _METHODS.items()]
    lines += [_row(f"  {name}", part) for name, part in _by_category(recalled).items()]
    for conversation in dict.fromkeys(each.conversation for each in recalled):
        lines.append(_row(f"  in {conversation}", [each for each in recalled if each.conversation == conversation]))
    lines.append(_times("a query", [1000 * each.seconds for each in recalled]))
    lines.append(_times("  without its embedding", _own_times(recalled)))
    return "\n".join(lines)


def _share(evidence: Set[str], found: Sequence[str]) -> float:
    return len(evidence & set(found)) / len(evidence)


def _own_times(recalled: Sequence[Recalled]) -> list[float]:
    """What the queries took beside the embedding model, in ms."""
    return [1000 * (each.seconds - each.embedding_seconds) for each in recalled]


def _by_category(recalled: Sequence[Recalled]) -> dict[str, list[Recalled]]:
    names = sorted({each.question.category for each in recalled})
    return {name: [each for each in recalled if each.question.category == name] for name in names}


def _depths(recalled: Sequence[Recalled]) -> dict[str, float | int]:
    return {"questions": len(recalled), **{f"recall_at_{depth}": recall_at(recalled, depth) for depth in DEPTHS}}


def _row(name: str, recalled: Sequence[Recalled], method: Method = _METHODS["recall"]) -> str:
    cells = "".join(f"{recall_at(recalled, depth, method):>8}" for depth in DEPTHS)
    return f"{name:28}{cells}   of {len(recalled)}"


def _times(name: str, times: Sequence[float]) -> str:
    return f"{name:28}{quantile(times, 0.5):>8.2f} ms p50, {quantile(times, 0.95):.2f} ms p95"
