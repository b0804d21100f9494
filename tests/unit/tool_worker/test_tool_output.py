"""What tools print becomes lines of the log, none of them without end."""

import logging
import sys

import pytest

from pentad.services.tool_worker.children.tool_output import LoggedOutput


@pytest.mark.parametrize("printed", ["a" * 20_000 + "\n", "a" * 20_000])
def test_a_line_that_is_very_long_is_cut_into_several(printed: str, caplog: pytest.LogCaptureFixture) -> None:
    said = LoggedOutput(logging.getLogger("printed"), logging.WARNING, sys.__stdout__ or sys.stdout)
    assert said.write(printed) == len(printed)
    said.finish()
    assert [len(record.getMessage()) for record in caplog.records] == [8_192, 8_192, 3_616]


def test_lines_keep_their_order_and_an_empty_one_is_a_line(caplog: pytest.LogCaptureFixture) -> None:
    said = LoggedOutput(logging.getLogger("printed"), logging.WARNING, sys.__stdout__ or sys.stdout)
    said.write("one\r\n\ntw")
    said.write("o\n")
    assert [record.getMessage() for record in caplog.records] == ["one", "", "two"]
