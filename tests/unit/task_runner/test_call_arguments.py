"""A call's arguments are read where the model's text has one reading; else the model is told in words what is wrong."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pentad.services.task_runner.domain.call_arguments import parse_arguments
from pentad.shared.lenient_json import MAX_MENDED, MAX_STRINGS


@pytest.mark.parametrize(
    ("raw", "args"),
    [
        ('{"a":1}', {"a": 1}),
        ("", {}),
        (" \n", {}),
        ("null", {}),
        ('{"a":1e308}', {"a": 1e308}),
        ('{"a":"one\ntwo\tthree\x00"}', {"a": "one\ntwo\tthree\x00"}),
        ('{"a":1,"b":[1,2,],}', {"a": 1, "b": [1, 2]}),
        ('{"a":"x,]",\n}', {"a": "x,]"}),
        (r'{"a":"it\'s"}', {"a": "it's"}),
        (r'{"a":"C:\\\'s"}', {"a": "C:\\'s"}),
        (json.dumps('{"a":1}'), {"a": 1}),
        (json.dumps(json.dumps({"a": "b"})), {"a": "b"}),
        (json.dumps('{"a":1,}'), {"a": 1}),
        (json.dumps("null"), {}),
        ('```json\n{"a":1}\n```', {"a": 1}),
        ('```\n{"a":1,}\n```\n', {"a": 1}),
        ('```JSON {"a":1}```', {"a": 1}),
        ('```python\n{"a":True}\n```', {"a": True}),
        (json.dumps('```json\n{"a":1}\n```'), {"a": 1}),
        ('\ufeff{"a":1}', {"a": 1}),
        ("\ufeff", {}),
        ('{"a":1}{"a":1}', {"a": 1}),
        ('{"a":1,"b":2}\n{"b":2,"a":1,}', {"a": 1, "b": 2}),
        ('{"a":1} {"a":1} {"a":1}', {"a": 1}),
        ('{}{"a":1}', {"a": 1}),
        ('{}{}{"a":1}{"a":1}', {"a": 1}),
        ("{}{}", {}),
        ('{"a":True,"b":[False,None],"c":"None, True"}', {"a": True, "b": [False, None], "c": "None, True"}),
        ("None", {}),
    ],
)
def test_arguments_with_one_reading_are_read(raw: str, args: dict[str, object]) -> None:
    """Promise: what is kept, sent on and shown to the model again is JSON that says the same."""
    parsed = parse_arguments(raw)
    assert (parsed.args, parsed.problem) == (args, "")
    assert json.loads(parsed.raw) == args


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        ("{", "they end before the object does"),
        ('{"city":"Ber', "they end before the object does"),
        ('{"a":1,', "they end before the object does"),
        ('{"a":"one\n', "they end before the object does"),
        ("[1]", "are not a JSON object"),
        ("7", "are not a JSON object"),
        ('"text"', "are not JSON: what is wrong is near 'text'"),
        (json.dumps(json.dumps(json.dumps('{"a":1}'))), "are not a JSON object"),
        ('{"a":NaN}', "near"),
        ('{"a":[{"b":-Infinity}]}', "near"),
        ('{"a":[1e999]}', "are not JSON (a number in it is too large)"),
        ('{"a":1} {"a":2}', "2 different JSON objects one after the other: make a call for each that you mean"),
        ('{"a":1}{"a":true}', "2 different JSON objects"),
        ('{"a":1}{}', "2 different JSON objects"),
        ('{"a":1} is what I call it with', "more after the object of the arguments, near 'is what I call it with'"),
        ('{"a":1}{"a":', "more after the object"),
        ('{"a":1}[1]', "more after the object"),
        ('{"a":1}}', "more after the object"),
        ("{}" + '{"a":1}' * 20, "more after the object"),
        ('so: {"a":1}', "near"),
        ('{"a":Truely}', "near"),
        ("{'a':1}", "near \"{'a':1}\""),
        ('{"a":1,,}', "near"),
        ("{" + '"a":1,' * MAX_STRINGS + "}", "near"),
    ],
)
def test_arguments_that_cannot_be_read_are_told_in_words_and_kept(raw: str, problem: str) -> None:
    """Promise: nothing is guessed, and the model learns what to send."""
    parsed = parse_arguments(raw)
    assert (parsed.args, parsed.raw) == (None, raw)
    assert problem in parsed.problem
    assert "send one JSON object" in parsed.problem
    assert "column" not in parsed.problem
    assert len(parsed.problem) < 300


@given(st.dictionaries(st.text(), st.recursive(st.none() | st.integers() | st.text(), st.lists), max_size=5), st.data())
def test_an_object_is_never_completed(args: dict[str, object], data: st.DataObject) -> None:
    """Promise: what was cut off anywhere is not run with what has come of it."""
    raw = json.dumps(args, ensure_ascii=False)
    cut = data.draw(st.integers(1, len(raw) - 1))
    assert parse_arguments(raw).args == args
    assert parse_arguments(raw[:cut]).args is None


def test_a_long_text_is_read_as_it_is_and_its_mistakes_are_not_mended() -> None:
    """Promise: to look for mistakes costs no more than some milliseconds, however long the text is."""
    right, wrong = json.dumps({"a": "x" * MAX_MENDED}), '{"a":"' + "\n" * MAX_MENDED + '"}'
    assert parse_arguments(right).args == {"a": "x" * MAX_MENDED}
    assert "\\n for a line end" in parse_arguments(wrong).problem
    short = wrong.replace("\n", "", 100)
    assert parse_arguments(short).args == {"a": "\n" * (MAX_MENDED - 100)}


def test_arguments_of_too_many_values_are_not_read() -> None:
    parsed = parse_arguments('{"a":[1,2,3]}', most_values=3)
    assert (parsed.args, parsed.problem[:55]) == (None, "the arguments are not JSON (it has more than 3 values):")
