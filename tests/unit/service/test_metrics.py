"""Metrics: each named once, documented, cheap, and free of tenants."""

from pathlib import Path

import pytest

from pentad.shared import metrics
from tests.support.counting import Counts

_DOCUMENT = Path(__file__).parents[3] / "docs" / "metrics.md"


def test_the_documentation_is_that_of_the_list() -> None:
    assert _DOCUMENT.read_text() == metrics.document(), "run: python -m pentad.shared.metrics > docs/metrics.md"


def test_each_name_is_there_once_and_says_kind_and_unit() -> None:
    names = [metric.name for metric in metrics.METRICS]
    assert len(names) == len(set(names))
    for metric in metrics.METRICS:
        assert metric.name.startswith("pentad_")
        assert metric.name.endswith("_total") == (metric.kind == "counter"), metric.name
        assert metric.name.endswith("_seconds") == (metric.unit == "seconds"), metric.name
        assert metric.meaning.endswith("."), metric.name


def test_no_metric_tells_tenants_users_or_sessions_apart() -> None:
    labels = {label for metric in metrics.METRICS for label in metric.label_names}
    assert not labels & {"tenant", "tenant_id", "user", "user_id", "session", "session_id", "task", "task_id"}


def test_the_same_labels_are_the_same_child() -> None:
    child = metrics.consumed.labels("inbound", "a-test")
    assert metrics.consumed.labels("inbound", "a-test") is child
    assert metrics.consumed.labels("inbound", "another") is not child
    assert metrics.websockets.labels() is metrics.websockets.labels()


def test_the_wrong_number_of_labels_is_refused() -> None:
    with pytest.raises(ValueError, match="label"):
        metrics.consumed.labels("inbound")
    with pytest.raises(ValueError, match="no labels"):
        metrics.websockets.labels("one")


def test_times_are_told_apart_from_a_millisecond_to_a_step_s_limit() -> None:
    assert metrics.SECONDS[0] == 0.001
    assert metrics.SECONDS[-1] == 600


def test_a_page_names_every_metric_also_unused_and_the_process() -> None:
    metrics.tool_calls.labels("weather", "ok").inc()
    page, content_type = metrics.exposition()
    text = page.decode()
    assert content_type.startswith("text/plain")
    assert 'pentad_tool_calls_total{tool="weather",outcome="ok"}' in text or (
        'pentad_tool_calls_total{outcome="ok",tool="weather"}' in text
    )
    for metric in metrics.METRICS:
        assert f"# TYPE {metric.name} {metric.kind}" in text
    assert "process_resident_memory_bytes" in text
    assert "python_info" in text


def test_a_page_says_what_was_counted_and_how_long_it_took() -> None:
    counts = Counts()
    metrics.consumed.labels("inbound", "a-page").inc(3)
    for seconds in (0.001, 0.2, 9999):
        metrics.step_seconds.labels("a-page").observe(seconds)
    assert counts.of(metrics.consumed, stream="inbound", type="a-page") == 3
    assert counts.observed(metrics.step_seconds, outcome="a-page") == 3
    assert counts.seconds(metrics.step_seconds, outcome="a-page") == 9999.201
    page = metrics.exposition()[0].decode()
    for bound, number in (("0.001", 1), ("0.0025", 1), ("0.25", 2), ("600.0", 2), ("+Inf", 3)):
        assert f'pentad_step_seconds_bucket{{le="{bound}",outcome="a-page"}} {number}.0' in page


def test_a_counter_only_grows() -> None:
    with pytest.raises(ValueError, match="only grows"):
        metrics.consumed.labels("inbound", "a-test").inc(-1)


def test_what_another_process_has_counted_is_added_once_and_stays_when_a_new_one_begins_at_zero() -> None:
    tools, times = metrics.tool_calls.labels("elsewhere", "ok"), metrics.tool_seconds.labels("elsewhere")
    zeros = [0.0] * (len(metrics.SECONDS) + 1)
    first, second = metrics.CountsOfProcess(), metrics.CountsOfProcess()
    for process, count in ((first, 2), (first, 2), (first, 3), (second, 1)):
        rows: list[metrics.CountedRow] = [
            (metrics.tool_calls.name, ["elsewhere", "ok"], [count]),
            (metrics.tool_seconds.name, ["elsewhere"], [count * 0.5, count, *zeros[1:]]),
            (metrics.lag.name, ["elsewhere", "group"], [count]),
            ("pentad_of_a_newer_version_total", [], [1]),
        ]
        process.add(rows)
    assert tools.value == 4
    assert (times.sum, next(times.buckets())) == (2.0, (0.001, 4))
    assert [s.value for family in metrics.lag.labels("elsewhere", "group").collect() for s in family.samples] == [1]


@pytest.mark.parametrize(
    "row",
    [
        ("pentad_tool_calls_total", ["one label"], [1]),
        ("pentad_tool_calls_total", ["odd", "ok"], [-1]),
        ("pentad_tool_calls_total", ["odd", "ok"], []),
        ("pentad_tool_seconds", ["odd"], [0.5, 1]),
        ("pentad_group_lag", ["odd", "group"], [1, 2]),
        ("pentad_tool_calls_total",),
    ],
)
def test_rows_that_no_process_counts_are_refused(row: metrics.CountedRow) -> None:
    with pytest.raises((ValueError, TypeError)):
        metrics.CountsOfProcess().add([row])


def test_what_is_counted_here_is_told_without_what_nobody_used_and_without_the_loop_of_this_process() -> None:
    metrics.erased.labels().inc()
    metrics.loop_delay_seconds.labels().observe(1.0)
    rows = {name: counted for name, labels, counted in metrics.counted_here() if not labels}
    assert rows[metrics.erased.name] == [metrics.erased.labels().value]
    assert metrics.loop_delay_seconds.name not in rows
