"""Running an instruction to its end, across lost connections."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from pentad.contracts.runs import InstructionRun
from pentad.errors import Busy, GatewayUnreachable
from pentad.feed import PATIENCE_S, backoff
from pentad.inspection import path_of
from pentad.rest import Rest

_WAIT_S = 20.0
"""Seconds that one request waits for the end: less than requests may last."""


async def run_to_its_end(
    rest: Rest, instruction: str, body: Mapping[str, Any], patience_s: float = PATIENCE_S
) -> InstructionRun:
    """Ask until the run has ended. ``body`` has its ``session_id`` and ``message_id``: asked again, it still runs once.

    Raises ``NotFound`` and ``ClientError``; ``GatewayUnreachable`` and ``Busy`` after ``patience_s`` without an answer.
    """
    path = path_of("instructions", instruction, "run")
    await rest.request("GET", "/")  # where nobody answers at all, that is told at once
    heard, failures = time.monotonic(), 0
    while True:
        try:
            found = await rest.call("POST", path, body=body, wait=_WAIT_S)
        except (Busy, GatewayUnreachable) as error:
            if time.monotonic() - heard > patience_s:
                raise
            told = error.retry_after if isinstance(error, Busy) else None
            await asyncio.sleep(min(backoff(failures) if told is None else told, patience_s))
            failures += 1
            continue
        if "status" in found:
            return InstructionRun.model_validate(found)
        heard, failures = time.monotonic(), 0
