"""Kinds of mail and timers, the bell's length, a task's states: the scripts spell what Python does."""

import re
from typing import get_args

from pentad.contracts.events import TaskStatus
from pentad.shared.actors.headers import ENDED, LIVE
from pentad.shared.kinds import APPROVAL, BELL_LENGTH, MAIL_KINDS, MOVE, REDRIVE, RESULT, TIMER_KINDS, USER
from pentad.shared.store.script import script_files

SCRIPTS = "\n".join(script_files().values())


def test_scripts_post_and_look_for_mail_of_known_kinds() -> None:
    posted = re.findall(r"\bpost\([^()]*'(\w+)'", SCRIPTS)
    looked_for = re.findall(r"newer_signal\('(\w+)'\)", SCRIPTS)
    kept = re.findall(r"\bkind ~= '(\w+)'", SCRIPTS)
    assert {RESULT, USER, REDRIVE, MOVE, APPROVAL} == set(posted)
    assert {RESULT, APPROVAL, "cancel"} == set(looked_for)
    assert {RESULT, REDRIVE, MOVE} == set(kept)
    assert {*posted, *looked_for, *kept} <= MAIL_KINDS


def test_scripts_fire_timers_of_known_kinds() -> None:
    told_apart = re.findall(r"ARGV\[2\] == '(\w+)'", script_files()["fire"])
    assert set(told_apart) == {"archive", "remember", "deadline"}
    assert set(told_apart) <= TIMER_KINDS


def test_every_timer_but_the_archivers_becomes_mail_of_its_kind() -> None:
    assert TIMER_KINDS - {"archive", "remember"} <= MAIL_KINDS


def test_the_bell_has_one_length() -> None:
    assert set(re.findall(r"'MAXLEN', '~', '(\d+)'", SCRIPTS)) == {str(BELL_LENGTH)}


def test_scripts_tell_live_tasks_from_ended_ones_as_headers_do() -> None:
    lines = [line for line in SCRIPTS.splitlines() if line.count("status ==") > 2 or line.count("status ~=") > 2]
    spelled = [frozenset(re.findall(r"status [=~]= '(\w+)'", line)) for line in lines]
    assert set(spelled) == {ENDED, frozenset(LIVE)}
    assert {*LIVE, *ENDED} == {*get_args(TaskStatus)}
