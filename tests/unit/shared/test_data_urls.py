"""Bytes in a result become text that a client can use, and that a prompt has in a line."""

import json
import random
from base64 import b64encode, encodebytes, urlsafe_b64encode
from dataclasses import dataclass
from hashlib import sha256, sha384
from pathlib import Path
from textwrap import wrap
from time import thread_time
from typing import Any
from uuid import UUID

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


SEEDED = random.Random(24)
RANDOM = SEEDED.randbytes(2_000)
PROSE = " ".join("".join(SEEDED.choices("etaoinshrdlu", k=SEEDED.randint(2, 9))) for _ in range(4_000))
SVG = "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 9 9'><path d='M0 0L9 9'/><text>a b</text></svg>"


def lines(data: bytes, width: int, end: str = "\n") -> str:
    return end.join(wrap(b64encode(data).decode(), width))


ENCODINGS = {
    "lines of 76": (encodebytes(PNG).decode().rstrip(), PNG),
    "lines of 64": (lines(PNG, 64), PNG),
    "lines of a small file": (lines(PNG[:250], 64), PNG[:250]),
    "lines with CR": (lines(RANDOM, 76, "\r\n"), RANDOM),
    "lines within JSON": (json.dumps(encodebytes(RANDOM).decode().rstrip())[1:-1], RANDOM),
    "lines that are indented": (lines(RANDOM, 60, "\n    "), RANDOM),
    "the other alphabet": (urlsafe_b64encode(PNG).decode(), PNG),
    "no known kind": (b64encode(RANDOM).decode(), RANDOM),
    "no known kind, without padding": (urlsafe_b64encode(RANDOM).decode().rstrip("="), RANDOM),
    "mostly zeros": (b64encode(bytes(3_000) + RANDOM + bytes(3_000)).decode(), bytes(6_000) + RANDOM),
    "a text": (b64encode(PROSE.encode()).decode(), PROSE.encode()),
    "Chinese": (b64encode("我们今天去公园，看到了很多花。".encode() * 60).decode(), bytes(45 * 60)),
    "escaped slashes": (b64encode(RANDOM).decode().replace("/", "\\/"), RANDOM),
    "digits": (PNG.hex(), PNG),
    "large digits": (RANDOM.hex().upper(), RANDOM),
    "digits with 0x": ("0x" + RANDOM.hex(), RANDOM),
    "digits in lines": ("\n".join(wrap(RANDOM.hex(), 60)), RANDOM),
}


@pytest.mark.parametrize("name", ENCODINGS)
@pytest.mark.parametrize(("before", "after"), [("", ""), ("the file: ", " is\nwhole."), ('{"image": "', '", "n": 1}')])
def test_whatever_way_bytes_are_encoded_they_are_described_in_their_place(name: str, before: str, after: str) -> None:
    """Promise: a long run that only encodes bytes is a line, whatever kind of file it is and however it is wrapped."""
    encoded, data = ENCODINGS[name]
    kind = media_type_of(data)
    told = without_bytes(before + encoded + after)
    assert told == f"{before}[a file of {len(data):,} bytes, {kind}, which is not shown here]{after}"


@pytest.mark.parametrize(
    "url",
    [
        "data:image/svg+xml," + SVG.replace("<", "%3C").replace(">", "%3E"),
        "data:image/svg+xml," + "".join(f"%{ord(c):02X}" if c in "<>/'= :" else c for c in SVG),
        "data:image/svg+xml;utf8," + SVG,
        "data:image/svg+xml;charset=utf-8," + SVG.replace("'", '"'),
        "data:image/svg+xml;utf8," + json.dumps(SVG.replace("'", '"')).replace("/", "\\/")[1:-1],
        "data:image/png;base64," + lines(PNG, 76),
        "data:image/png;base64," + b64encode(PNG).decode().replace("/", "%2F").replace("+", "%2B").replace("=", "%3D"),
        "data:image/png;base64," + b64encode(PNG).decode().replace("/", "\\/"),
        "data:text/html,%3Cp%3E" + "hello%20" * 20,
    ],
)
def test_every_data_url_is_described_in_its_place(url: str) -> None:
    """Promise: a file in a URL is a line, in base64, with percent signs, or as it is."""
    kind = url[5:].replace(",", ";").partition(";")[0]
    for before, after in (("", ""), ("<", ">"), ("a (", ") b"), ('{"icon": "', '"}')):
        told = without_bytes(before + url + after)
        assert told.startswith(f"{before}[a file of "), told
        assert told.endswith(f" bytes, {kind}, which is not shown here]{after}"), told


def test_two_drawings_are_two_files_and_the_text_between_them_stays() -> None:
    one = "data:image/svg+xml;utf8," + SVG
    assert without_bytes(f"{one} and\n{one}.").count(" and\n[") == 1
    cut = "see data:image/svg+xml,%3Csvg and so on\n" + one
    assert without_bytes(cut).startswith("see data:image/svg+xml,%3Csvg and so on\n[a file of ")


ORDINARY = {
    "prose": PROSE,
    "one word": "x" * 100_000,
    "words without blanks": PROSE.replace(" ", ""),
    "names in camel case": "".join(word.capitalize() for word in PROSE.split()),
    "names with numbers": "".join(f"{word.capitalize()}{n % 100}" for n, word in enumerate(PROSE.split())),
    "a long identifier": PROSE.replace(" ", "_"),
    "a slug": PROSE.replace(" ", "-"),
    "a path": "/usr/local/Lib3/" + PROSE.title().replace(" ", "/"),
    "source": Path(__file__).read_text().replace("\\", ""),
    "a table of numbers": "\n".join("\t".join(str(SEEDED.randint(0, 10**6)) for _ in range(9)) for _ in range(300)),
    "CSV": "\n".join(f"{n},{n * n},Name{n},2030-01-{n % 28 + 1:02}" for n in range(1_000)),
    "DNA": "".join(SEEDED.choices("ACGT", k=10_000)),
    "DNA in lines": "\n".join("".join(SEEDED.choices("ACGT", k=60)) for _ in range(200)),
    "a protein": "".join(SEEDED.choices("ACDEFGHIKLMNPQRSTVWY", k=5_000)),
    "a protein in lines": "\n".join("".join(SEEDED.choices("ACDEFGHIKLMNPQRSTVWY", k=80)) for _ in range(90)),
    "Chinese": "我们今天去公园，看到了很多花。" * 200,
    "digits of a number": "".join(SEEDED.choices("0123456789", k=10_000)),
    "bits": "".join(SEEDED.choices("01", k=10_000)),
    "UUIDs": "\n".join(str(UUID(bytes=SEEDED.randbytes(16))) for _ in range(500)),
    "hashes": "\n".join(sha256(bytes([n])).hexdigest() for n in range(200)),
    "long hashes": "\n".join(sha384(bytes([n])).hexdigest() for n in range(200)),
    "hashes in base64": "\n".join(b64encode(sha256(bytes([n])).digest()).decode() for n in range(200)),
    "ids": "\n".join(urlsafe_b64encode(SEEDED.randbytes(16)).decode().rstrip("=") for _ in range(500)),
    "a key that is asked for": "ssh-rsa " + b64encode(RANDOM[:540]).decode(),
    "lines of a drawing": ("-" * 76 + "\n") * 50,
    "a rule": "=" * 5_000,
    "a list in JSON": json.dumps([SEEDED.randint(0, 255) for _ in range(2_000)]),
    "URLs": "\n".join(f"https://example.org/a/b?id={SEEDED.randbytes(24).hex()}&n={n}" for n in range(200)),
    "a drawing's source": SVG * 20,
    "talk of data": "data:image/png, data:text/plain,hello and data:image/svg+xml,<svg> are URLs. " * 40,
}


@pytest.mark.parametrize("name", ORDINARY)
def test_what_is_written_to_be_read_stays(name: str) -> None:
    """Promise: a text that encodes no bytes reaches the model as the tool returned it."""
    assert without_bytes(ORDINARY[name]) is ORDINARY[name]


HOSTILE = (
    *("a ", "a" * 59 + " ", "a" * 60 + " ", "a" * 60 + "\n", "a" * 76 + "\n", ("a" * 76 + "\n") * 3 + "a" * 77 + "\n"),
    *(
        "data:",
        "data:a/b;",
        "data:image/svg+xml,",
        "data:image/svg+xml,<svg",
        "data:image/svg+xml,%3Csvg ",
        "\\/",
        "\\n",
    ),
    *("data:image/svg+xml,%3Csvg\n", "data:;base64,", "data:;base64," + "a" * 63 + "\n", "data:;base64," + "a" * 70),
    *(
        "iVBORw0KGgo" + "a" * 260 + " ",
        "我",
        "Ab1" * 342 + " ",
        b64encode(RANDOM[:770]).decode() + " ",
        "0a" * 520 + "\n",
    ),
)
PROMISED_S = 0.05


def _cost(text: str) -> float:
    begun = thread_time()
    without_bytes(text)
    return thread_time() - begun


@pytest.mark.parametrize("piece", HOSTILE)
def test_a_megabyte_of_anything_takes_no_time_to_speak_of(piece: str) -> None:
    """Promise: a tool's result holds no event loop."""
    text = (piece * (2**20 // len(piece) + 1))[: 2**20]
    assert min(_cost(text) for _ in range(3)) < 3 * PROMISED_S, "three times, for a machine that is slow or busy"
    assert min(_cost(f"{text}%3C/svg%3E</svg>") for _ in range(3)) < 3 * PROMISED_S


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
