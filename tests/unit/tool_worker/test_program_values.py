"""A program's state is kept within bounds and read by the interpreter that wrote it; its calls' values are JSON."""

import os
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any

import pytest

from pentad.contracts.suspensions import MAX_STATE, InnerResult
from pentad.services.tool_worker.builtins.programs.call_values import (
    MAX_ARGUMENT_BYTES,
    UnfitArgumentsError,
    named_arguments,
    value_of,
)
from pentad.services.tool_worker.builtins.programs.program_state import (
    ProgramCall,
    ProgramState,
    UnkeepableProgramError,
)


def test_a_state_is_read_as_it_was_kept() -> None:
    call = ProgramCall(id=3, tool="t", args={"a": [1]})
    state = ProgramState(version="1", asked=[1, 2], begun=[call], made={"t": 2}, printed="ä", seconds=1.5)
    read = ProgramState.read(state.with_dump(b"dump" * 1000), "1")
    assert (read.unpacked, read.asked, read.begun, read.printed) == (b"dump" * 1000, [1, 2], [call], "ä")
    assert (read.made, read.calls, read.seconds) == ({"t": 2}, 2, 1.5)


@pytest.mark.parametrize("dump", [os.urandom(MAX_STATE), b"x" * 9_000_000], ids=["incompressible", "too long"])
def test_a_dump_that_is_too_large_is_told_with_the_limit(dump: bytes) -> None:
    with pytest.raises(UnkeepableProgramError, match=r"bytes, the limit is [\d,]+\. Keep what is needed"):
        ProgramState(version="1").with_dump(dump)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"version": 5}', '{"version": "1", "asked": ["x"]}', "\0"])
def test_a_state_that_is_none_is_told(text: str) -> None:
    with pytest.raises(UnkeepableProgramError, match="cannot be read: run it again"):
        ProgramState.read(text, "1")


def test_a_state_of_another_version_is_told_with_both() -> None:
    with pytest.raises(UnkeepableProgramError, match=r"from version 1\.4\.0 to 1\.5\.0"):
        ProgramState.read(ProgramState(version="1.4.0").with_dump(b""), "1.5.0")


@pytest.mark.parametrize("dump", ["AAAA", "not base64", "é"])
def test_a_damaged_dump_is_told(dump: str) -> None:
    with pytest.raises(UnkeepableProgramError, match="is damaged"):
        assert ProgramState(version="1", dump=dump).unpacked


@pytest.mark.parametrize(
    ("value", "as_json"),
    [
        ({"a": (1, [None, True])}, {"a": [1, [None, True]]}),
        ({1: "x"}, {"1": "x"}),
        (date(2026, 1, 2), "2026-01-02"),
        (datetime(2026, 1, 2, 3), "2026-01-02T03:00:00"),
        (time(3, 4), "03:04:00"),
        (Decimal("1.50"), "1.50"),
        (PurePosixPath("/a/b"), "/a/b"),
        ("\ud800", "?"),
    ],
)
def test_arguments_become_json(value: Any, as_json: Any) -> None:
    assert named_arguments("t", [], {"a": value}, ()) == {"a": as_json}


def test_arguments_have_a_bound() -> None:
    assert named_arguments("t", ["x" * (MAX_ARGUMENT_BYTES - 20)], {}, ["a"])
    with pytest.raises(UnfitArgumentsError, match="the limit is 65,536"):
        named_arguments("t", ["x" * MAX_ARGUMENT_BYTES], {}, ["a"])


@pytest.mark.parametrize(("text", "value"), [("[1]", [1]), ("x", "x"), ('"x"', "x"), ("Infinity", "Infinity")])
def test_a_result_is_parsed_where_it_is_json(text: str, value: Any) -> None:
    assert value_of(InnerResult(ok=True, text=text)) == value
