"""One result puts at most so many bytes into a prompt, says what is missing, and never base64."""

import re

import pytest

from pentad.services.task_runner.domain.result_in_prompt import in_prompt
from pentad.shared.data_urls import data_url

CALL = "call-0-1f"
LIMIT = 4096
NOTE = r"\n\[([\d,]+) of ([\d,]+) characters are left out here\. result_read reads them: (.*)\]\n"


@pytest.mark.parametrize("text", ["", "x", "é" * (LIMIT // 2), "x" * LIMIT, "data:text/plain;base64,eA=="])
def test_a_result_that_fits_is_itself(text: str) -> None:
    assert in_prompt(text, CALL, LIMIT) is text


@pytest.mark.parametrize("letter", ["x", "é", "漢", "😀", "\n", "\ud800"])
@pytest.mark.parametrize("limit", [1024, LIMIT, 32_768])
def test_a_longer_one_is_shown_by_its_beginning_and_its_end(letter: str, limit: int) -> None:
    text = "BEGIN" + letter * (2 * limit) + "END"
    shown = in_prompt(text, CALL, limit)
    assert len(shown.encode("utf-8", "replace")) <= limit
    assert shown.startswith("BEGIN")
    assert shown.endswith("END")
    found = re.search(
        r"\n\[([\d,]+) of ([\d,]+) characters are left out here\. result_read reads them: (.*)\]\n", shown
    )
    assert found is not None
    left_out, whole = (int(number.replace(",", "")) for number in found.groups()[:2])
    assert whole == len(text)
    assert left_out == whole - (len(shown) - len(found[0]))
    assert found[3] == f"ref {CALL}, offset {found.start()}."


def test_a_file_is_a_line() -> None:
    shown = in_prompt(f"here: {data_url(bytes(200_000))}", CALL, LIMIT)
    assert shown == (
        "here: [a file of 200,000 bytes, application/octet-stream, which is not shown here]\n"
        f"[The whole result is kept as {CALL}.]"
    )


def test_many_files_are_bounded_too() -> None:
    shown = in_prompt(f"{data_url(bytes(99))} " * 1000, CALL, LIMIT)
    assert len(shown) <= LIMIT
    assert "base64" not in shown
