"""Readings of this process's metrics, and the growth of its counters since a moment."""

import re
from collections.abc import Mapping

from prometheus_client import Gauge

from pentad.shared import metrics
from pentad.shared.metrics import Counter, Histogram, Metric

_SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)


class Counts:
    """The growth of counters from now on: other tests of this process may have counted before."""

    def __init__(self) -> None:
        self._before = _samples()

    def of(self, metric: Metric[Counter], **labels: str) -> float:
        """Return the growth of the samples with these labels together."""
        return self._grown(metric.name, labels)

    def observed(self, metric: Metric[Histogram], **labels: str) -> float:
        """Return the number of values that a histogram has got since."""
        return self._grown(f"{metric.name}_count", labels)

    def seconds(self, metric: Metric[Histogram], **labels: str) -> float:
        """Return the sum of the values that a histogram has got since."""
        return self._grown(f"{metric.name}_sum", labels)

    def _grown(self, name: str, labels: Mapping[str, str]) -> float:
        return _sum(_samples(), name, labels) - _sum(self._before, name, labels)


def reading(metric: Metric[Gauge], **labels: str) -> float:
    """Return the value of a gauge with these labels."""
    return _sum(_samples(), metric.name, labels)


def _sum(samples: Mapping[tuple[str, str], float], name: str, labels: Mapping[str, str]) -> float:
    wanted = {f'{label}="{value}"' for label, value in labels.items()}
    return sum(v for (shown, given), v in samples.items() if shown == name and wanted <= set(given.split(",")))


def _samples() -> dict[tuple[str, str], float]:
    page, _ = metrics.exposition()
    return {(name, labels): float(value) for name, labels, value in _SAMPLE.findall(page.decode())}
