"""Bytes in a tool's result become files, wherever they stand in it; the text says where they are."""

from base64 import b64encode
from typing import Any

import pytest

from pentad.contracts.tools import Artifact
from pentad.services.tool_worker.domain import RESULT_LIMIT
from pentad.services.tool_worker.tool_value import MAX_ARTIFACT_BYTES, MAX_ARTIFACTS, value_of
from pentad.shared.data_urls import data_url
from pentad.shared.plugins.errors import UnusableResult

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8
CALL = "call-0-x"
LINE = "[file artifacts/call-0-x/{}: {}, 2,056 bytes]"


@pytest.mark.parametrize(
    ("value", "name", "text"),
    [
        (Artifact(PNG, "plot.png"), "plot.png", LINE.format("plot.png", "image/png")),
        (Artifact(PNG, "../../x", "image/png"), "x.png", LINE.format("x.png", "image/png")),
        (Artifact(PNG), "result.png", LINE.format("result.png", "image/png")),
        (PNG, "result.png", LINE.format("result.png", "image/png")),
        (bytearray(PNG), "result.png", LINE.format("result.png", "image/png")),
        (data_url(PNG), "result.png", LINE.format("result.png", "image/png")),
        (f"see {data_url(PNG)} there", "result.png", f"see {LINE.format('result.png', 'image/png')} there"),
        ({"image": PNG, "n": 1}, "result.png", f'{{"image":"{LINE.format("result.png", "image/png")}","n":1}}'),
        ([[Artifact(PNG, "a.bin", "application/x-y")]], "a.bin", f'[["{LINE.format("a.bin", "application/x-y")}"]]'),
        ({"image": data_url(PNG)}, "result.png", f'{{"image":"{LINE.format("result.png", "image/png")}"}}'),
    ],
)
def test_bytes_become_a_file_and_a_line(value: Any, name: str, text: str) -> None:
    made = value_of("plot", value, CALL)
    assert made.text == text
    assert [(each.name, each.data) for each in made.artifacts] == [(name, PNG)]


@pytest.mark.parametrize(
    "value", ["text", b"text", {"a": b"text"}, "data:text/plain,hello", "data:image/png;base64,!!!"]
)
def test_what_has_no_bytes_stays_as_it_is(value: Any) -> None:
    made = value_of("plot", value, CALL)
    assert made == value_of("plot", value, None)
    assert made.artifacts == ()


def test_files_of_one_call_have_names_of_their_own() -> None:
    made = value_of("plot", [Artifact(PNG, "a.png"), Artifact(PNG, "a.png"), PNG, PNG], CALL)
    assert [each.name for each in made.artifacts] == ["a.png", "a-2.png", "result.png", "result-2.png"]


def test_a_long_text_is_kept_whole_and_begins_in_the_result() -> None:
    text = "0123456789" * 200_000
    made = value_of("dump", text, CALL)
    assert [(each.name, each.data) for each in made.artifacts] == [("result.txt", text.encode())]
    assert made.text.startswith("0123456789")
    assert "[file artifacts/call-0-x/result.txt: text/plain, 2,000,000 bytes]" in made.text[-200:]
    assert len(made.text.encode()) <= RESULT_LIMIT
    assert value_of("dump", ["0123456789"] * 200_000, CALL).artifacts[0].name == "result.json"
    short = "x" * 500_000
    assert value_of("dump", short, CALL) == value_of("dump", short, None)


def test_more_than_a_call_may_make_is_refused() -> None:
    with pytest.raises(UnusableResult, match=f"more than {MAX_ARTIFACTS} files"):
        value_of("plot", [PNG] * (MAX_ARTIFACTS + 1), CALL)
    with pytest.raises(UnusableResult, match="bytes of files"):
        value_of("plot", bytes([255]) * (MAX_ARTIFACT_BYTES + 1), CALL)
    many = " ".join([data_url(PNG)] * (MAX_ARTIFACTS + 3))
    made = value_of("page", many, CALL)
    assert (len(made.artifacts), made.text.count("data:image/png")) == (MAX_ARTIFACTS, 3)


def test_where_no_files_are_kept_bytes_are_what_they_were() -> None:
    assert value_of("plot", PNG, None).text == f"data:image/png;base64,{b64encode(PNG).decode()}"
    told = value_of("plot", Artifact(PNG, "plot.png"), None)
    assert told.text == "[the file plot.png of 2,056 bytes, image/png, which is not kept: set PENTAD_FILES]"
    assert told.artifacts == ()
