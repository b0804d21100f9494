"""An anchor is an opaque string that stands for one place; nonsense is refused clearly."""

import base64
import json
import re
from typing import Any

import pytest

from pentad.contracts.records import Anchor, SegmentType
from pentad.shared.segments.anchors import (
    MOST_CHARS,
    BadAnchorError,
    anchor_of,
    anchor_text,
    message_name,
    message_of,
    quote_digest,
    segment_id,
    task_point_id,
)


def anchor(**changed: Any) -> Anchor:
    values: dict[str, Any] = {
        "task_id": "task-0-7f3a2c91",
        "step": 1,
        "position": 4,
        "part": 0,
        "segment": 2,
        "start": 10,
        "end": 30,
        "type": SegmentType.RESPONSE,
        "at": "2030-01-31T12:00:00.000Z",
        "quote": quote_digest("a quote"),
    }
    return Anchor(**values | changed)


LARGEST = anchor(task_id="x" * 128, at="9" * 40, **dict.fromkeys(("step", "position", "segment", "end"), 2**31 - 1))


def packed(value: object) -> str:
    return "a1." + base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


@pytest.mark.parametrize("given", [anchor(), anchor(at="", step=0), anchor(task_id="~@-._".rjust(9, "t")), LARGEST])
def test_an_anchor_is_read_as_it_was_written(given: Anchor) -> None:
    text = anchor_text(given)
    assert anchor_of(text) == given
    assert len(text) <= MOST_CHARS
    assert re.fullmatch(r"[A-Za-z0-9._-]+", text)


@pytest.mark.parametrize(
    "text",
    [
        *("", "a1", "a1.", ".", "a1.!!!!", "nonsense", "a1.e30", "a1." + "A" * 1_000, "x" * 10_000_000, "\x00", "ä1.ö"),
        *(packed([]), packed({}), packed("x"), packed(None), packed([1] * 10), packed(["x"] * 10), "a1." + "W" * 500),
        *(anchor_text(anchor())[:-3], anchor_text(anchor()) + "=", anchor_text(anchor()) + " ", "a1.\ud800"),
        packed(["task-0-1", -1, 0, 0, 0, 0, 1, "response", "", "0" * 32]),
        packed(["task-0-1", 0, 0, 0, 0, 5, 5, "response", "", "0" * 32]),
        packed(["../../etc", 0, 0, 0, 0, 0, 1, "response", "", "0" * 32]),
        packed(["task-0-1", 0, 0, 0, 0, 0, 2**31, "response", "", "0" * 32]),
        packed(["task-0-1", 0, 0, 0, 0, 0, 1, "rumour", "", "0" * 32]),
        packed(["task-0-1", True, 0, 0, 0, 0, 1, "response", "", "0" * 32]),
    ],
    ids=lambda text: ascii(text[:40]),
)
def test_what_is_no_anchor_is_refused(text: str) -> None:
    with pytest.raises(BadAnchorError, match="anchor") as caught:
        anchor_of(text)
    assert len(str(caught.value)) < 200


def test_an_anchor_of_another_version_is_told_from_a_damaged_one() -> None:
    with pytest.raises(BadAnchorError, match="not of version a1"):
        anchor_of("a2" + anchor_text(anchor())[2:])


def test_an_id_is_a_uuid_of_the_place_alone() -> None:
    same = anchor(type=SegmentType.REASONING, end=29, quote=quote_digest("another"))
    name = segment_id("t1", anchor())
    assert name == segment_id("t1", same)
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", name)
    others = [anchor(task_id="task-0-8"), anchor(position=5), anchor(part=1), anchor(segment=3)]
    names = {
        name,
        segment_id("t2", anchor()),
        task_point_id("t1", "task-0-7f3a2c91"),
        *(segment_id("t1", o) for o in others),
    }
    assert len(names) == 7


def test_what_is_kept_and_what_clients_have_is_read_by_the_next_version() -> None:
    assert segment_id("t1", anchor()) == "7a18901c-98b8-866f-aa85-781e701c0de1"
    assert task_point_id("t1", "task-0-7f3a2c91") == "c72ead7a-75fe-8ac0-ae21-867ffdd1f0fb"
    text = (
        "a1.WyJ0YXNrLTAtN2YzYTJjOTEiLDEsNCwwLDIsMTAsMzAsInJlc3BvbnNlIiwiMjAzMC0wM"
        "S0zMVQxMjowMDowMC4wMDBaIiwiYWNmZDUzMTk1NTkzY2VlNDNhZDE2ZjYwNmYxOGYzNDUiXQ"
    )
    assert anchor_of(text) == anchor()


def test_an_anchor_names_its_message_whichever_piece_it_points_at() -> None:
    pieces = {
        message_of(anchor_text(anchor(segment=number, start=9 * number, end=9 * number + 9))) for number in range(3)
    }
    assert pieces == {message_name("task-0-7f3a2c91", 4, 0)}
    others = (anchor(position=5), anchor(part=1), anchor(task_id="task-0-2"))
    assert len({message_of(anchor_text(each)) for each in others} | pieces) == 4


@pytest.mark.parametrize("text", ["", "a1.", "a1.????", "a1.bnVsbA", "a1.W10", "b2.x", "a1." + "W" * 400])
def test_what_is_no_anchor_names_no_message(text: str) -> None:
    assert message_of(text) == ""
