"""A line that would repeat for as long as an outage lasts is written once in a while."""

import logging

import pytest

from pentad.shared import telemetry
from pentad.shared.telemetry import ThrottledLog


def test_one_line_of_a_kind_in_ten_seconds(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    now = [100.0]
    monkeypatch.setattr(telemetry, "monotonic", lambda: now[0])
    say = ThrottledLog(logging.getLogger("pentad.shared.test"))
    for _ in range(400):
        say.warning("a", "a waits for %s", "Redis")
        say.error("b", "b is refused")
        now[0] += 0.0625
    texts = [record.getMessage() for record in caplog.records]
    assert texts == [
        "a waits for Redis",
        "b is refused",
        "a waits for Redis (159 more like this since the last)",
        "b is refused (159 more like this since the last)",
        "a waits for Redis (159 more like this since the last)",
        "b is refused (159 more like this since the last)",
    ]


def test_kinds_without_end_take_no_memory_without_end() -> None:
    log = logging.getLogger("pentad.shared.test")
    log.disabled = True
    say = ThrottledLog(log)
    for number in range(5000):
        say.warning(f"kind {number}", "a line")
    log.disabled = False
    assert len(say._said) <= 1000
