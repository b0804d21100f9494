"""Sign-ins to MCP servers that are under way, between the tool-worker that asks and the gateway to which a person comes
back; and the address of a gateway that browsers of its own machine reach.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from secrets import token_hex
from typing import Literal

from pydantic import ValidationError

from pentad.contracts.envelope import Contract
from pentad.shared.errors import OutageError
from pentad.shared.keys import GATEWAY_ADDRESS, sign_in, token_lock
from pentad.shared.store.store import Store

CALLBACK_PATH = "/v1/oauth/callback"
"""Path of the gateway to which a person comes back."""
BACK_S = 600
"""Seconds for which it is kept with what a person has come back: authorization codes do not live longer."""
MAX_STATE_CHARS = 128
"""Characters that the state of a sign-in may have."""
_ADDRESS_EVERY_S, _ADDRESS_TTL_S = 15.0, 60
_LOCK_MS = 45_000
"""Milliseconds after which a lock ends whose holder was killed: longer than a request for a token may take."""
_LOCK_LOOK_S = 0.1
"""Seconds between two looks whether a lock is free."""

Kept = Literal["kept", "same", "other", "none"]


class OpenSignIn(Contract):
    """The call for which a person was asked to sign in."""

    tenant: str
    user: str | None = None
    task: str
    call: str
    server: str


class CameBack(Contract):
    """The answer with which a person has come back: a code, or the reason why there is none."""

    code: str = ""
    issuer: str | None = None
    """Issuer of the code, as the page names it."""
    error: str = ""


class SignIns:
    """Sign-ins that are under way, each found by its state, which nobody can guess. Raises ``OutageError``."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def ask(self, state: str, asked: OpenSignIn, seconds: int) -> None:
        """Keep what a sign-in is for."""
        key, _ = sign_in(state)
        await self._store.call("SET", key, asked.to_json(), "EX", seconds)

    async def came_back(self, state: str, back: CameBack) -> tuple[Kept, OpenSignIn | None]:
        """Keep what a person has come back with, and return what the sign-in is for; None for one that is unknown."""
        outcome, asked = await self._store.run("sign_in_back", sign_in(state), [back.to_json(), BACK_S])
        word: Kept = outcome.decode()
        return word, None if word == "none" else OpenSignIn.model_validate_json(asked)

    async def back(self, state: str) -> CameBack | None:
        """Return what a person has come back with; None before that."""
        _, key = sign_in(state)
        raw = await self._store.call("GET", key)
        with suppress(ValidationError):
            return None if raw is None else CameBack.model_validate_json(raw)
        return None

    async def close(self, state: str) -> None:
        """End a sign-in: nobody can come back for it any more."""
        await self._store.call("DEL", *sign_in(state))

    async def gateway_address(self) -> str | None:
        """Return the address of a gateway that browsers of its machine reach; None where there is none."""
        raw = await self._store.call("GET", GATEWAY_ADDRESS)
        return None if raw is None else str(raw.decode())

    @asynccontextmanager
    async def token_lock(self, place: str) -> AsyncIterator[None]:
        """Hold the lock of a token: no other worker renews it meanwhile. Waits for who holds it, or was killed."""
        key, holder = token_lock(place), token_hex(16)
        while await self._store.call("SET", key, holder, "NX", "PX", _LOCK_MS) is None:
            await asyncio.sleep(_LOCK_LOOK_S)
        try:
            yield
        finally:
            with suppress(OutageError):
                await self._store.run("unlock", [key], [holder])


async def keep_telling_address(store: Store, address: str) -> None:
    """Tell tool-workers the address of this gateway for as long as it runs. Outages do no harm."""
    while True:
        with suppress(OutageError):
            await store.call("SET", GATEWAY_ADDRESS, address, "EX", _ADDRESS_TTL_S)
        await asyncio.sleep(_ADDRESS_EVERY_S)
