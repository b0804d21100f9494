"""`pentad top` and the pane of a chat fit into windows of any size, and rates follow the totals."""

import re

import pytest

from pentad.cli.render import Style
from pentad.cli.side_pane import SidePane
from pentad.cli.task_labels import TaskLabels
from pentad.cli.top_view import Rates, TopView
from pentad.contracts.approvals import PendingApproval
from pentad.contracts.operations import Operations
from pentad.contracts.records import Task
from tests.integration.client.test_panes import waiting
from tests.integration.client.test_top import group, live, stream
from tests.support.clients.fake_gateway import task

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def document(second: int = 0, turns: int = 0, streams: int = 3) -> Operations:
    many = [stream(f"s{n}", group("g", n + 1, 0, 1.0)) for n in range(streams)]
    return Operations.model_validate(live(second=second, turns=turns, streams=many, memory_waits="x" * 500))


@pytest.mark.parametrize("streams", [0, 3, 100])
def test_no_line_is_longer_than_the_window_and_there_are_no_more_than_it_has(streams: int) -> None:
    view, found, pane = (
        TopView(Style(colour=True)),
        document(streams=streams),
        SidePane(Style(True), TaskLabels(Style(True))),
    )
    pane.show(
        [Task.model_validate(task(f"task-0-{n}", goal="a goal " * 40)) for n in range(30)],
        [PendingApproval.model_validate(waiting(f"call-0-{n}")) for n in range(10)],
    )
    for rows in range(40):
        for columns in (3, 10, 40, 80, 200):
            drawn = view.drawn(found, Rates(), rows, columns)
            assert len(drawn) <= rows
            assert max([len(_COLOUR.sub("", line)) for line in drawn], default=0) <= columns
            side = pane.rows(columns, rows, focused=True)
            assert len(side) <= rows
            assert max([len(_COLOUR.sub("", line)) for line in side], default=0) <= columns


def test_rates_are_of_the_last_ten_seconds_and_begin_anew_with_the_totals() -> None:
    rates = Rates()
    assert rates.of("turns") is None
    for second, turns in ((0, 0), (1, 100), (11, 120), (21, 120)):
        rates.add(document(second, turns))
    assert rates.of("turns") == 0
    rates.add(document(22, 3))
    assert rates.of("turns") is None, "the totals have begun anew"
    rates.add(document(22, 3))
    assert rates.of("turns") is None, "the same document again is no second one"
    rates.add(document(24, 7))
    assert rates.of("turns") == 2
