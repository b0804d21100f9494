"""Calls outside a conversation: of tools, durably, and of models."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from pentad.client.feed import backoff
from pentad.client.gateway import Rest
from pentad.client.inspection import path_of
from pentad.contracts.runs import ToolRun
from pentad.errors import Busy, GatewayUnreachable, ToolFailed

_WAIT_S = 20.0
"""Seconds that one request waits for the end: less than requests may last."""


class Tools:
    """Calls tools outside a conversation: durably, without a model. Everything raises ``ClientError``.

    ``user_id``: for whom tools are called, where a call names no other.
    """

    def __init__(self, rest: Rest, user_id: str | None, patience_s: float) -> None:
        self._rest, self._user, self._patience_s = rest, user_id, patience_s

    async def execute(
        self,
        name: str,
        args: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        *,
        call_id: str | None = None,
        user_id: str | None = None,
    ) -> str:
        """Call a tool and return its result: a text as it is, anything else as JSON. Arguments as of ``call``.

        Raises ``ToolFailed`` when the tool has failed, and ``NotFound`` for a tool that is not there.
        """
        run = await self.call(name, args, timeout, call_id=call_id, user_id=user_id)
        if run.status != "completed":
            raise ToolFailed(run)
        return run.result or ""

    async def call(
        self,
        name: str,
        args: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        *,
        call_id: str | None = None,
        user_id: str | None = None,
    ) -> ToolRun:
        """Call a tool, wait for the end, and tell all of it, a failed call too. Lost connections are made again.

        ``timeout``: seconds after which the call is given up, beside the tool's own limit. ``call_id``: asked for again
        under it within 24 hours, the call runs once and gives the same result. Cancelling this does not end the call.
        """
        named = call_id or _new_call_id()
        await self._rest.request("GET", "/")  # where nobody answers at all, that is told at once
        body = self._body(args, named, user_id, timeout) | {"wait": _WAIT_S}
        run = await self._asked("POST", path_of("tools", name, "call"), body=body)
        while not run.ended:
            run = await self._asked("GET", path_of("tools", "calls", named), wait=_WAIT_S)
        return run

    async def begin(
        self,
        name: str,
        args: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        *,
        call_id: str | None = None,
        user_id: str | None = None,
    ) -> ToolRun:
        """Ask for a call and return at once. Arguments as of ``call``; ``state`` says how far the call is."""
        body = self._body(args, call_id or _new_call_id(), user_id, timeout)
        return await self._asked("POST", path_of("tools", name, "call"), body=body)

    async def state(self, call_id: str) -> ToolRun:
        """Return how far a call is, with its result at the end. Raises ``NotFound`` for one that is not known."""
        return ToolRun.model_validate(await self._rest.call("GET", path_of("tools", "calls", call_id)))

    def _body(
        self, args: Mapping[str, Any] | None, call_id: str, user_id: str | None, timeout_s: float | None
    ) -> dict[str, Any]:
        asked = {"call_id": call_id, "user_id": user_id or self._user, "timeout": timeout_s}
        return {"args": dict(args or {})} | {name: value for name, value in asked.items() if value is not None}

    async def _asked(self, method: str, path: str, **asked: Any) -> ToolRun:
        """Ask until there is an answer: asked again with its ``call_id``, the call still runs once.

        Raises ``GatewayUnreachable`` and ``Busy`` when there was none for as long as this agent is patient.
        """
        since, failures = time.monotonic(), 0
        while True:
            try:
                return ToolRun.model_validate(await self._rest.call(method, path, **asked))
            except (Busy, GatewayUnreachable) as error:
                if time.monotonic() - since > self._patience_s:
                    raise
                told = error.retry_after if isinstance(error, Busy) else None
                await asyncio.sleep(min(backoff(failures) if told is None else told, self._patience_s))
                failures += 1


def _new_call_id() -> str:
    return f"c-{uuid4().hex}"
