"""Removes traces of erased tasks and users from Redis: events, cached vectors, dead letters, waiting messages."""

import asyncio
import json
from collections.abc import Collection, Iterable, Sequence
from itertools import product
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json, to_json

from pentad.contracts.commands import EraseCommand
from pentad.contracts.dead_letters import DeadLetter
from pentad.contracts.ids import ANY_SHARD, is_identifier, shard_in
from pentad.contracts.streams import DEAD, INBOUND_DEAD
from pentad.shared.actors.erased_marks import ErasedMark, entry_order
from pentad.shared.actors.headers import read_session
from pentad.shared.actors.mail import read_session_mail
from pentad.shared.actors.session_header import excerpt
from pentad.shared.embedder.vectors import cache_of_task, content_key
from pentad.shared.keys import SessionKeys, TaskKeys, bell, load, tag, vector
from pentad.shared.kinds import BELL_LENGTH
from pentad.shared.owners import session_holder
from pentad.shared.segments.segment import segments_of
from pentad.shared.store.store import Store
from pentad.shared.work.entry import data_of

_EVENTS_PER_READ = 100
"""Events that are read at once: one has up to a MiB."""
_KEYS_PER_DELETE = 500


async def remove_events(store: Store, session: SessionKeys, tasks: Collection[str], until: int = 0) -> None:
    """Remove a session's events about these tasks, and all its events up to ``until``, in ms; tell who follows it.

    Safe to repeat. Raises ``OutageError``.
    """
    if until:
        await store.call("XTRIM", session.events, "MINID", "=", f"{until + 1}-0")
    after = "-"
    while found := await store.call("XRANGE", session.events, after, "+", "COUNT", _EVENTS_PER_READ):
        gone = [entry for entry, fields in found if _task_of(data_of(fields)) in tasks]
        if gone:
            await store.call("XDEL", session.events, *gone)
        after = f"({found[-1][0].decode()}"
    await store.call("XADD", bell(session.shard), "MAXLEN", "~", BELL_LENGTH, "*", "s", session.actor, "gone", "1")


def _task_of(data: bytes) -> Any:
    try:
        event = from_json(data)
    except ValueError:
        return None
    return event.get("task_id") if isinstance(event, dict) else None


async def remove_vectors(
    store: Store, session: SessionKeys, task: str, models: Collection[str], texts: Iterable[str]
) -> None:
    """Remove cached vectors of these texts: those of the session, and those made while the task was learned from.

    Safe to repeat. Raises ``OutageError``.
    """
    known = dict.fromkeys(text.encode("utf-8", "replace").decode() for text in texts)
    caches = (session_holder(session.session), cache_of_task(task))
    names = (content_key(model, session.tenant, *each) for model in models for each in product(caches, known))
    keys = [vector(session.shard, name) for name in names]
    for begin in range(0, len(keys), _KEYS_PER_DELETE):
        await store.call("DEL", *keys[begin : begin + _KEYS_PER_DELETE])


def embedded_texts(tenant: str, task: str, messages: Sequence[dict[str, Any]]) -> list[str]:
    """Return every text of a task that was ever embedded: segments, users' messages, beginnings and ends of answers."""
    contents = [content for message in messages if isinstance(content := message.get("content"), str) and content]
    segments = segments_of(tenant, task, messages)
    return [*contents, *map(excerpt, contents), *(segment.text for segment in segments)]


_LETTERS_PER_READ = 20
"""Dead letters that are read at once: each has up to a MiB."""


async def remove_dead_letters(store: Store, command: EraseCommand, shards: Sequence[int], until: int) -> int:
    """Remove the dead letters of a task, a session or a user up to ``until`` (ms), and those of every erased task.

    Safe to repeat. Raises ``OutageError``.
    """
    removed = 0
    for stream in (INBOUND_DEAD.key(), *(DEAD.key(shard) for shard in shards)):
        after = "-"
        while found := await store.call("XRANGE", stream, after, "+", "COUNT", _LETTERS_PER_READ):
            gone = [
                entry
                for entry, fields in found
                if await _is_erased_letter(store, command, entry, data_of(fields), until)
            ]
            if gone:
                removed += await store.call("XDEL", stream, *gone)
            after = f"({found[-1][0].decode()}"
            await asyncio.sleep(0)
    return removed


async def _is_erased_letter(store: Store, command: EraseCommand, entry: bytes, data: bytes, until: int) -> bool:
    try:
        letter = DeadLetter.model_validate_json(data)
    except (ValidationError, RecursionError):
        return False
    if letter.tenant_id != command.tenant_id:
        return False
    if int(entry.partition(b"-")[0]) <= until and _is_about(letter, command):
        return True
    task = letter.task_id
    if task is None or not is_identifier(task) or (shard := shard_in(task, ANY_SHARD)) is None:
        return False
    return bool(await store.call("EXISTS", TaskKeys(shard, command.tenant_id, task).erased))


def _is_about(letter: DeadLetter, command: EraseCommand) -> bool:
    if command.kind == "user":
        return any(_names_user(part, command.name) for part in letter.body.values())
    return command.name == (letter.task_id if command.kind == "task" else letter.session_id)


def _names_user(part: str, user: str) -> bool:
    """Whether a JSON object, or its truncated form, names this user; an entry's id may stand before it."""
    try:
        return _has_user(from_json(part[part.index("{") :]), user)
    except ValueError:
        written = (to_json(user).decode(), json.dumps(user))
        return any(f'"user_id":{name}' in part.replace(" ", "") for name in written)


def _has_user(value: Any, user: str) -> bool:
    if isinstance(value, dict):
        return value.get("user_id") == user or any(_has_user(each, user) for each in value.values())
    return isinstance(value, list) and any(_has_user(each, user) for each in value)


_KEYS_PER_SCAN = 1000
"""Keys that one scan of the server passes."""
_NO_ENTRY = "0-0"
_MESSAGES_PER_READ = 100
"""Messages of one session that are read at once."""


async def remove_waiting_messages(store: Store, shard: int, tenant: str, user: str, mark: ErasedMark) -> None:
    """Remove a user's waiting messages, up to a mark, from all sessions of a shard. Raises ``OutageError``.

    A router that decides on such a message at that moment is refused, and finds the next one.
    """
    cursor, begins = b"0", f"{tag(shard)}:session:{tenant}:"
    while True:
        command = ("SCAN", cursor, "MATCH", f"{begins}*:mail", "COUNT", _KEYS_PER_SCAN, "TYPE", "zset")
        cursor, found = await store.call(*command)
        for key in found:
            session = read_session(key.removeprefix(begins.encode()).removesuffix(b":mail"))
            await _remove_from_session(store, SessionKeys(shard, tenant, session), user, mark)
        if cursor == b"0":
            return


async def _remove_from_session(store: Store, keys: SessionKeys, user: str, mark: ErasedMark) -> None:
    read = 0
    while members := await store.call("ZRANGE", keys.messages, read, read + _MESSAGES_PER_READ - 1):
        gone = [member for member in members if _is_erased_message(member, user, mark)]
        if gone:
            await store.run("erase_mail", [keys.header, keys.messages, load(keys.shard)], [keys.tenant, *gone])
        read += len(members) - len(gone)


def _is_erased_message(member: bytes, user: str, mark: ErasedMark) -> bool:
    try:
        entry, message = read_session_mail(member.split(b" ", 2)[2])
        order = entry_order(entry)
    except (ValueError, IndexError):
        return False
    if message.user_id != user:
        return False
    # Ids of entries do not go back with the clock, so theirs is the order that counts. A message that was redriven has
    # the time of that and the number 0, and where nothing had been accepted there is no id to compare with.
    by_time = order[1] == 0 or mark.entry == _NO_ENTRY
    return order <= entry_order(mark.entry) or (by_time and order[0] <= mark.at)
