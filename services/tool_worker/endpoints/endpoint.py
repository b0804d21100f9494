"""One endpoint of HTTP as a worker calls it: the arguments checked, the secrets filled in, each attempt in its time."""

import asyncio
from dataclasses import replace
from time import monotonic, perf_counter, time
from typing import Any

from pentad.contracts.http_tools import HttpTool
from pentad.contracts.tool_servers import is_header_text
from pentad.contracts.tools import Effect, ToolOutcome
from pentad.services.tool_worker.domain import unknown
from pentad.services.tool_worker.endpoints.answers import outcome_of, pause_of, without_secrets
from pentad.services.tool_worker.endpoints.requests import request_of
from pentad.services.tool_worker.sources import ToolInvocation
from pentad.shared.clipping import plain
from pentad.shared.errors import OutageError
from pentad.shared.outbound.address_guard import LostAnswerError, OutboundError
from pentad.shared.outbound.outside_client import OutsideClient, OutsideRequest
from pentad.shared.plugins.errors import InvalidArguments
from pentad.shared.plugins.explicit_schema import arguments_alone
from pentad.shared.secrets.user_secrets import UserSecrets

MAX_ATTEMPTS = 3
"""Requests of one attempt of a call, where it may be made again."""
_PAUSE_S = 0.5
"""Seconds before a request whose answer was lost is made again."""
_MAX_WHY = 500
"""Characters of the reason of a failure."""


class ToolEndpoint:
    """An endpoint. Raises ``PluginError`` for arguments that cannot be checked."""

    def __init__(self, tool: HttpTool) -> None:
        self.tool, self._needs = tool, tool.secrets
        self._arguments = arguments_alone(tool.name, tool.parameters)
        self.spec = tool.spec()

    async def call(self, invocation: ToolInvocation, client: OutsideClient, secrets: UserSecrets) -> ToolOutcome:
        """Make one attempt of a call. Every failure is an outcome."""
        begun = perf_counter()
        outcome = await self._call(invocation, client, secrets)
        took = round((perf_counter() - begun) * 1000)
        return ToolOutcome(outcome.kind, outcome.text, took, made=outcome.made)

    async def _call(self, invocation: ToolInvocation, client: OutsideClient, secrets: UserSecrets) -> ToolOutcome:
        name, context, values = self.tool.name, invocation.context, dict[str, str]()
        if self._needs:
            try:
                found = await secrets.find(context.tenant_id, context.user_id, self._needs)
            except OutageError as error:
                return ToolOutcome("error", f"{name} was not called: {error}")
            if found.missing:
                return ToolOutcome("error", f"{name} was not called: {_missing(invocation, found.missing)}")
            values = found.values
        try:
            request = self._request(invocation.args, context.idempotency_key, values)
        except InvalidArguments as error:
            return ToolOutcome("error", str(error))
        call = context.tool_call_id if invocation.keeps_files else None
        return await self._patiently(client, request, values, invocation.timeout_s, call)

    def _request(self, args: dict[str, Any], key: str, values: dict[str, str]) -> OutsideRequest:
        """Return the request of a call. Raises ``InvalidArguments``."""
        misfit = next((name for name, value in values.items() if not is_header_text(value)), None)
        if misfit is not None:
            raise InvalidArguments(
                f"{self.tool.name} was not called: the secret {misfit} has characters that cannot stand in a header, "
                "such as line ends: set it anew"
            )
        return request_of(self.tool, self._arguments.validate(args), key, values)

    async def _patiently(
        self, client: OutsideClient, request: OutsideRequest, values: dict[str, str], timeout_s: float, call: str | None
    ) -> ToolOutcome:
        """Send a request, and send it again where that may be and the time allows it."""
        name, effect, limit = self.tool.name, self.tool.actual_effect, monotonic() + timeout_s
        for attempt in range(1, MAX_ATTEMPTS + 1):
            again = effect is not Effect.UNSAFE and attempt < MAX_ATTEMPTS
            try:
                answer = await client.send(replace(request, timeout_s=max(0.001, limit - monotonic())))
                pause = pause_of(answer, time())
                if pause is None or not again or monotonic() + pause >= limit:
                    return await asyncio.to_thread(outcome_of, name, answer, effect, values, call)
            except LostAnswerError as error:
                why = plain(without_secrets(str(error), values), _MAX_WHY)
                if effect is Effect.UNSAFE:
                    return unknown(1, f"{name} was called, and its answer is lost: {why}")
                pause = _PAUSE_S
                if monotonic() + pause >= limit:
                    return ToolOutcome("timeout", f"{name}: no result within {timeout_s:g} s: {why}")
                if not again:
                    return ToolOutcome("error", f"{name}: no answer in {MAX_ATTEMPTS} attempts: {why}")
            except OutboundError as error:
                why = plain(without_secrets(str(error), values), _MAX_WHY)
                return ToolOutcome("error", f"{name} was not called: {why}")
            await asyncio.sleep(pause)
        raise AssertionError("the last attempt returns")


def _missing(invocation: ToolInvocation, names: tuple[str, ...]) -> str:
    context = invocation.context
    whose = f"tenant {context.tenant_id}" if context.user_id is None else f"user {context.user_id}"
    return f"it needs the secret {', '.join(names)}, and {whose} has none; an operator can set it by POST /v1/secrets"
