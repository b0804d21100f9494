"""Dead letters of what was erased are removed: none can bring it back."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json, to_json

from pentad.contracts.commands import EraseCommand
from pentad.contracts.dead_letters import DeadLetter
from pentad.contracts.ids import ANY_SHARD, is_identifier, shard_in
from pentad.contracts.streams import DEAD, INBOUND_DEAD
from pentad.shared.keys import TaskKeys
from pentad.shared.store.store import Store
from pentad.shared.work.entry import data_of

_READ = 20
"""Letters that are read at once: each has up to a MiB."""


async def remove_letters(store: Store, command: EraseCommand, shards: Sequence[int], until: int) -> int:
    """Remove the dead letters of a task, a session or a user, and of every erased task. ``until``: in ms, the last one.

    Safe to repeat. Raises ``OutageError``.
    """
    removed = 0
    for stream in (INBOUND_DEAD.key(), *(DEAD.key(shard) for shard in shards)):
        after = "-"
        while found := await store.call("XRANGE", stream, after, "+", "COUNT", _READ):
            gone = [entry for entry, fields in found if await _goes(store, command, entry, data_of(fields), until)]
            if gone:
                removed += await store.call("XDEL", stream, *gone)
            after = f"({found[-1][0].decode()}"
            await asyncio.sleep(0)
    return removed


async def _goes(store: Store, command: EraseCommand, entry: bytes, data: bytes, until: int) -> bool:
    try:
        letter = DeadLetter.model_validate_json(data)
    except (ValidationError, RecursionError):
        return False
    if letter.tenant_id != command.tenant_id:
        return False
    if int(entry.partition(b"-")[0]) <= until and _is_of(letter, command):
        return True
    task = letter.task_id
    if task is None or not is_identifier(task) or (shard := shard_in(task, ANY_SHARD)) is None:
        return False
    return bool(await store.call("EXISTS", TaskKeys(shard, command.tenant_id, task).erased))


def _is_of(letter: DeadLetter, command: EraseCommand) -> bool:
    if command.kind == "user":
        return any(_names_user(part, command.name) for part in letter.body.values())
    return command.name == (letter.task_id if command.kind == "task" else letter.session_id)


def _names_user(part: str, user: str) -> bool:
    """Whether a JSON object, or what is kept of a long one, names this user; an entry's id may stand before it."""
    try:
        return _has_user(from_json(part[part.index("{") :]), user)
    except ValueError:
        written = (to_json(user).decode(), json.dumps(user))
        return any(f'"user_id":{name}' in part.replace(" ", "") for name in written)


def _has_user(value: Any, user: str) -> bool:
    if isinstance(value, dict):
        return value.get("user_id") == user or any(_has_user(each, user) for each in value.values())
    return isinstance(value, list) and any(_has_user(each, user) for each in value)
