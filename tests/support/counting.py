"""What the metrics of this process say, and how much its counters have grown since."""

import re
from collections.abc import Mapping

from prometheus_client import Gauge

from pentad.shared import metrics
from pentad.shared.metrics import Counter, Histogram, Metric

_SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)


class Counts:
    """What the counters say from now on: others of this process may have counted before."""

    def __init__(self) -> None:
        self._before = _samples()

    def of(self, metric: Metric[Counter], **labels: str) -> float:
        """By how much the samples with these labels have grown together."""
        return self._grown(metric.name, labels)

    def observed(self, metric: Metric[Histogram], **labels: str) -> float:
        """How many values a histogram has been given since."""
        return self._grown(f"{metric.name}_count", labels)

    def seconds(self, metric: Metric[Histogram], **labels: str) -> float:
        """What they come to."""
        return self._grown(f"{metric.name}_sum", labels)

    def _grown(self, name: str, labels: Mapping[str, str]) -> float:
        return _sum(_samples(), name, labels) - _sum(self._before, name, labels)


def reading(metric: Metric[Gauge], **labels: str) -> float:
    """What a gauge shows under these labels."""
    return _sum(_samples(), metric.name, labels)


def _sum(samples: Mapping[tuple[str, str], float], name: str, labels: Mapping[str, str]) -> float:
    wanted = {f'{label}="{value}"' for label, value in labels.items()}
    return sum(v for (shown, given), v in samples.items() if shown == name and wanted <= set(given.split(",")))


def _samples() -> dict[tuple[str, str], float]:
    page, _ = metrics.exposition()
    return {(name, labels): float(value) for name, labels, value in _SAMPLE.findall(page.decode())}
