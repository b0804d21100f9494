"""The form in which schedules are kept: later versions read it, and this one refuses what is newer."""

import pytest
from pydantic import ValidationError

from pentad.shared.schedules.schedule_state import ScheduleState

KEPT = (
    b'{"version":1,"created":1795780800000,"status":"active","next":1795784400000,"set_at":1795780800250,'
    b'"runs":[{"due_at":"2026-11-27T12:00:00.000Z","status":"completed","reason":"answered",'
    b'"message_id":"s.20261127T120000.000Z","session_id":"chat","task_id":"task-0-1",'
    b'"sent_at":"2026-11-27T12:00:00.250Z","ended_at":"2026-11-27T12:00:01.000Z"},'
    b'{"due_at":"2026-11-27T12:30:00.000Z","until":"2026-11-27T12:40:00.000Z","status":"missed","reason":"late"}]}'
)


def test_what_the_first_version_has_kept_is_read_and_written_as_it_was() -> None:
    assert ScheduleState.model_validate_json(KEPT).to_json() == KEPT


def test_what_a_newer_version_has_kept_is_refused() -> None:
    with pytest.raises(ValidationError, match="version"):
        ScheduleState.model_validate_json(KEPT.replace(b'"version":1', b'"version":2'))
