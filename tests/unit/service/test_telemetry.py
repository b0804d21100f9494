"""Logging: one line per record on stderr, libraries silent, payloads by opt-in only."""

import json
import logging
import re
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from pentad.shared.telemetry import LogForm, configure_logging, log_passed, pass_log_on, passing_log, payload


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    configure_logging()
    for handler in list(root.handlers):
        root.removeHandler(handler)
    for handler in handlers:
        root.addHandler(handler)
    root.setLevel(level)
    for name in ("contracts", "shared", "services", "pentad"):
        logging.getLogger(name).setLevel(logging.NOTSET)


def test_libraries_are_silent_below_warning_at_any_level(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("debug")
    logging.getLogger("some.library").info("chatter")
    logging.getLogger("pentad.services.router").debug("ours")
    logging.getLogger("some.library").warning("trouble")
    first, second = capsys.readouterr().err.splitlines()
    assert "DEBUG pentad.services.router: ours" in first
    assert "WARNING some.library: trouble" in second


def test_ours_are_as_silent_as_one_likes(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("warning")
    logging.getLogger("pentad.services.router").info("routed")
    assert capsys.readouterr().err == ""
    configure_logging()
    logging.getLogger("pentad.services.router").info("routed")
    assert "INFO pentad.services.router: routed\n" in capsys.readouterr().err


def test_a_record_may_be_a_json_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(form="json")
    try:
        raise RuntimeError("first\nsecond")
    except RuntimeError:
        logging.getLogger("pentad.shared.work").exception("a\n%s", '"b"')
    (line,) = capsys.readouterr().err.splitlines()
    said = json.loads(line)
    assert said["at"].endswith("Z")
    assert (said["level"], said["logger"], said["message"]) == ("error", "pentad.shared.work", 'a\n"b"')
    assert said["error"].startswith("RuntimeError: first\nsecond at ")


def test_a_record_is_one_line_with_the_time_in_utc(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging()
    try:
        raise RuntimeError("first\nsecond")
    except RuntimeError:
        logging.getLogger("pentad.shared.work").exception("a\nb")
    (line,) = capsys.readouterr().err.splitlines()
    assert "ERROR pentad.shared.work: a b [RuntimeError: first second at " in line
    assert line.split()[0].endswith("Z")


class Secretive(BaseModel):
    number: int


@pytest.mark.parametrize("shown", [False, True])
def test_payloads_are_shown_by_opt_in_only(capsys: pytest.CaptureFixture[str], shown: bool) -> None:
    configure_logging(payloads=shown)
    logging.getLogger("pentad.shared.work").warning("refused %s", payload("my diary"))
    try:
        Secretive.model_validate({"number": "my diary"})
    except ValueError:
        logging.getLogger("pentad.shared.work").exception("did not fit")
    text = capsys.readouterr().err
    assert ("my diary" in text) == shown
    assert "number" in text
    if not shown:
        assert "refused <str of 8>" in text


@pytest.mark.parametrize("form", ["console", "json"])
def test_records_of_another_process_look_like_ours(capsys: pytest.CaptureFixture[str], form: LogForm) -> None:
    def speak() -> str:
        try:
            raise RuntimeError("first\nsecond")
        except RuntimeError:
            logging.getLogger("pentad.shared.work").exception("a %s", payload("secret"))
        logging.getLogger("pentad.shared.work").info("quiet")
        logging.getLogger("some.library").info("chatter")
        return capsys.readouterr().err

    configure_logging("warning", form=form)
    ours = speak()
    sent: list[dict[str, Any]] = []
    pass_log_on(*passing_log(), sent.append)
    assert speak() == ""
    configure_logging("warning", form=form)
    for record in sent:
        log_passed(json.loads(json.dumps(record)))
    theirs = capsys.readouterr().err
    assert len(theirs.splitlines()) == 1
    assert _without_time(theirs) == _without_time(ours)
    log_passed(sent[0] | {"levelno": logging.INFO})
    assert capsys.readouterr().err == "", "this log does not take it"


def _without_time(line: str) -> str:
    return re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", line)
