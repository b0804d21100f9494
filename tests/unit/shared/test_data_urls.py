"""Bytes in a result become text that a client can use, and that a prompt has in a line."""

from base64 import b64encode
from dataclasses import dataclass
from typing import Any

import pytest

from pentad.shared.data_urls import data_url, media_type_of, without_bytes
from pentad.shared.plugins.errors import UnusableResult
from pentad.shared.plugins.results import result_text

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8


@pytest.mark.parametrize(
    ("begin", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"RIFF\0\0\0\0WEBP", "image/webp"),
        (b"\0\0\0\x20ftypisom", "video/mp4"),
        (b"%PDF-1.7", "application/pdf"),
        (b"\0\1\2\xff", "application/octet-stream"),
        (b"", "application/octet-stream"),
    ],
)
def test_a_file_is_known_by_what_it_begins_with(begin: bytes, kind: str) -> None:
    assert media_type_of(begin) == kind


@pytest.mark.parametrize(
    "text",
    [
        data_url(PNG),
        data_url(PNG).replace("data:image/png", "DATA:image/png;charset=utf-8"),
        b64encode(PNG).decode(),
        f'{{"image": "{data_url(PNG)}", "n": 1}}',
        f"before {b64encode(PNG).decode()} after",
        f"![a chart]({data_url(PNG)})",
    ],
)
def test_base64_is_described_in_its_place(text: str) -> None:
    told = without_bytes(text)
    assert f"[a file of {len(PNG):,} bytes, image/png, which is not shown here]" in told
    assert len(told) < 150
    assert told[:5] == text[:5] or text.lower().startswith(("data", "ivbor"))


@pytest.mark.parametrize(
    "text",
    [
        "plain",
        "data:text/plain;base64,aGVsbG8=",
        "data:,hello",
        "iVBORw0KGgo is how a PNG begins",
        "x" * 100_000,
        "",
    ],
)
def test_what_is_no_file_stays(text: str) -> None:
    assert without_bytes(text) is text or without_bytes(text) == text


@dataclass
class Chart:
    title: str
    image: bytes


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (PNG, data_url(PNG)),
        (bytearray(PNG), data_url(PNG)),
        (memoryview(PNG), data_url(PNG)),
        (b"plain text \xc3\xa9", "plain text é"),
        ({"image": PNG}, f'{{"image":"{data_url(PNG)}"}}'),
        ([("a", PNG)], f'[["a","{data_url(PNG)}"]]'),
        ({"n": [1, b"x"]}, '{"n":[1,"x"]}'),
    ],
)
def test_bytes_that_a_tool_returns_are_kept(value: Any, text: str) -> None:
    assert result_text("chart", value) == text


def test_what_cannot_become_json_says_what_can() -> None:
    with pytest.raises(UnusableResult, match="return text, bytes, numbers"):
        result_text("chart", {"a": object()})
