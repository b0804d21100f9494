"""Evaluation cases of routing, one for every message that a person moves, in the folder ``PENTAD_EVAL_CASES``.

A case is a file of one line, named by its message: a repeated request, or another process after a crash, writes the
same, and a second move of the message changes the task where it belongs. The case is written before the move is
requested, so that no move is missed; errors are logged and counted, and the move goes on.
"""

import asyncio
import json
import logging
import os
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

from pentad.services.gateway.domain.eval_case import Case, MovedMessage, case_of, labelled, lines_before
from pentad.services.gateway.tasks.queries import Queries
from pentad.shared import metrics
from pentad.shared.errors import PentadError
from pentad.shared.keys import SessionKeys
from pentad.shared.random_hex import random_hex
from pentad.shared.telemetry import ThrottledLog

MOST_BYTES = 64 * 1024 * 1024
"""Bytes that the folder may have: more cases are refused until a person has removed some."""
_LIMIT_S = 1.0
"""Seconds that a move waits for its case to be written."""
_say = ThrottledLog(logging.getLogger(__name__))


class RefusedCaseError(PentadError):
    """A case is not written; the text says why."""


class EvalCases:
    """Writes cases to a folder one by one, in a thread of its own, so that a hanging disk blocks nothing else."""

    def __init__(self, folder: Path, queries: Queries) -> None:
        self._folder, self._queries = folder, queries
        self._thread = ThreadPoolExecutor(1, "eval-cases")
        self._writing: Future[None] | None = None
        self._turn = asyncio.Lock()

    async def keep(self, keys: SessionKeys, source: str, message_id: str, to: str) -> None:
        """Write the case of a message that a person moves from the task ``source`` to ``to``. Raises nothing."""
        try:
            async with asyncio.timeout(_LIMIT_S), self._turn:
                await self._keep(keys, source, message_id, to)
            metrics.eval_cases.labels("kept").inc()
            return
        except RefusedCaseError as error:
            _say.warning("refused", "an evaluation case is not kept: %s", error)
        except Exception as error:
            _say.warning("lost", "an evaluation case could not be kept: %s", type(error).__name__, exc=error)
        metrics.eval_cases.labels("lost").inc()

    def close(self) -> None:
        """End the thread that writes cases."""
        self._thread.shutdown(wait=False)

    async def _keep(self, keys: SessionKeys, source: str, message_id: str, to: str) -> None:
        if self._writing is not None and not self._writing.done():
            raise RefusedCaseError(f"{self._folder} does not take the one before")
        name = _name_of(keys, message_id)
        moved = await self._moved(keys, source, message_id)
        if moved is None:
            raise RefusedCaseError("nothing is known any more of what the message said")
        tasks = {*await self._queries.candidates(keys), source, to}
        said = {task: lines_before(moved, await self._queries.transcript(keys.tenant, task) or []) for task in tasks}
        about = {"tenant_id": keys.tenant, "session_id": keys.session, "message_id": message_id, "task_id": source}
        case = case_of(name, moved, to, said, about)
        self._writing = self._thread.submit(_write, self._folder / f"{name}.json", case, to)
        await asyncio.wrap_future(self._writing)

    async def _moved(self, keys: SessionKeys, source: str, message_id: str) -> MovedMessage | None:
        """Return the moved message from the session's last turns, else from the task's transcript."""
        turns = await self._queries.messages(keys)
        lines = turns if _found(turns, message_id) else await self._queries.transcript(keys.tenant, source) or []
        line = _found(lines, message_id)
        return None if line is None else MovedMessage(message_id, str(line["content"]), str(line["at"]))


def _found(lines: list[dict[str, Any]], message_id: str) -> dict[str, Any] | None:
    said = (line for line in lines if line.get("role") == "user" and not line.get("origin"))
    return next((line for line in said if line.get("message_id") == message_id), None)


def _name_of(keys: SessionKeys, message_id: str) -> str:
    """Return the name of a case. Cases of one session share its first half, so that they are found together."""
    return "-".join(sha256(part.encode()).hexdigest()[:16] for part in (f"{keys.tenant}/{keys.session}", message_id))


def _write(path: Path, case: Case | None, to: str) -> None:
    """Write a case, in the thread. Raises ``RefusedCaseError`` and ``OSError``."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    known = _read(path)
    case = case if known is None else labelled(known, to)
    if case is None:
        return
    line = json.dumps(case, ensure_ascii=False).encode() + b"\n"
    if sum(entry.stat().st_size for entry in os.scandir(path.parent)) + len(line) > MOST_BYTES:
        raise RefusedCaseError(f"{path.parent} holds {MOST_BYTES >> 20} MiB: take cases away")
    fresh = path.with_name(f".{path.name}.{random_hex(8)}")
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(line)
    fresh.replace(path)


def _read(path: Path) -> Case | None:
    """Return the case in a file; None if there is no file, or it contains no case."""
    try:
        known = json.loads(path.read_bytes())
        labelled(known, "")
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
    return dict(known)
