"""What the metrics of this process say, and how much its counters have grown since."""

import re
from collections.abc import Mapping
from typing import Any

from prometheus_client import Counter, Gauge

from shared import metrics
from shared.metrics import Metric

_SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)


class Counts:
    """What the counters say from now on: others of this process may have counted before."""

    def __init__(self) -> None:
        self._before = _samples()

    def of(self, metric: Metric[Counter], **labels: str) -> float:
        """By how much the samples with these labels have grown together."""
        return _sum(_samples(), metric, labels) - _sum(self._before, metric, labels)


def reading(metric: Metric[Gauge], **labels: str) -> float:
    """What a gauge shows under these labels."""
    return _sum(_samples(), metric, labels)


def _sum(samples: Mapping[tuple[str, str], float], metric: Metric[Any], labels: Mapping[str, str]) -> float:
    wanted = {f'{name}="{value}"' for name, value in labels.items()}
    return sum(v for (name, given), v in samples.items() if name == metric.name and wanted <= set(given.split(",")))


def _samples() -> dict[tuple[str, str], float]:
    page, _ = metrics.exposition()
    return {(name, labels): float(value) for name, labels, value in _SAMPLE.findall(page.decode())}
