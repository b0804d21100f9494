"""Transactions on a Neo4j server with its official driver, and its failures as our errors."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from pentad.shared.errors import MemoryOutageError, PentadError, SettingsError

if TYPE_CHECKING:
    from neo4j import AsyncDriver, AsyncManagedTransaction

T = TypeVar("T")

_driver_log = logging.getLogger("neo4j")

_SCHEMES = frozenset({"bolt", "bolt+s", "bolt+ssc", "neo4j", "neo4j+s", "neo4j+ssc"})
_CONNECTIONS = 32
_MOST_ERROR_CHARS = 300
_FIRST_RETRY_S = 0.02
"""Seconds before a transaction is repeated first, twice as many before each further time: locks are held for less."""
_ROWS_PER_TURN = 200
"""Rows that are read before the event loop serves others."""


class AlreadyThereError(MemoryOutageError):
    """A constraint or index exists: another process has made it at the same moment."""


class BrokenConstraintError(MemoryOutageError):
    """A constraint cannot be made, because what is stored breaks it."""


class Neo4jSession:
    """Managed transactions: the driver repeats them while the server says that this may help, within the time limit."""

    def __init__(self, uri: str, username: str | None, password: str | None, timeout_s: float) -> None:
        self._place = _place(uri)
        self._uri, self._timeout_s = uri, timeout_s
        self._auth = (username or "neo4j", password) if password is not None else None
        self._driver: AsyncDriver | None = None
        self._opening, self._merging = asyncio.Lock(), asyncio.Lock()
        self._is_closed = False

    async def read(self, work: Callable[[AsyncManagedTransaction], Awaitable[T]], timeout_s: float | None = None) -> T:
        """Run a transaction that reads. Raises ``MemoryOutageError``, and our errors that the work itself raises.

        ``timeout_s`` bounds it; None: the limit of this session.
        """
        return await self._do("execute_read", work, timeout_s or self._timeout_s)

    async def write(self, work: Callable[[AsyncManagedTransaction], Awaitable[T]], timeout_s: float | None = None) -> T:
        """Run a transaction that writes all of it or nothing. It raises what `read` raises, within the same limit."""
        return await self._do("execute_write", work, timeout_s or self._timeout_s)

    async def merge(self, work: Callable[[AsyncManagedTransaction], Awaitable[T]]) -> T:
        """Run a transaction that writes, one of this process at a time, as `write` does.

        Those that write to the same nodes at once would wait for each other's locks in a circle.
        """
        return await self._do("execute_write", work, self._timeout_s, self._merging)

    async def aclose(self) -> None:
        """Close the connections. Safe to call twice."""
        self._is_closed = True
        driver, self._driver = self._driver, None
        if driver is not None:
            with suppress(Exception):
                await driver.close()

    async def _do(
        self,
        how: str,
        work: Callable[[AsyncManagedTransaction], Awaitable[T]],
        timeout_s: float,
        turn: AbstractAsyncContextManager[Any] | None = None,
    ) -> T:
        if self._is_closed:
            raise MemoryOutageError(f"the connection to Neo4j at {self._place} is closed")
        driver = await self._connected()
        try:
            async with asyncio.timeout(timeout_s) as limit, turn or nullcontext(), driver.session() as session:
                done: T = await getattr(session, how)(work)
                return done
        except TimeoutError:
            if not limit.expired():
                raise
            raise MemoryOutageError(
                f"Neo4j at {self._place} did not answer in {timeout_s:g} s: try again later"
            ) from None
        except PentadError:
            raise
        except Exception as error:
            raise self._failure(error) from None

    async def _connected(self) -> AsyncDriver:
        async with self._opening:
            if self._driver is None:
                self._driver = await asyncio.to_thread(self._make)
            return self._driver

    def _make(self) -> AsyncDriver:
        """Make the driver. Run this in a thread: loading it takes half a second. Nothing is sent yet."""
        try:
            from neo4j import AsyncGraphDatabase, NotificationMinimumSeverity
        except ImportError as error:
            raise SettingsError(f"NEO4J_URI needs its driver ({error}): pip install 'pentad[stores]'") from None
        if _driver_log.level == logging.NOTSET:
            _driver_log.setLevel(logging.CRITICAL)  # it would write a line for each attempt: our errors say it once
        return AsyncGraphDatabase.driver(
            self._uri,
            auth=self._auth,
            max_connection_pool_size=_CONNECTIONS,
            connection_timeout=self._timeout_s,
            connection_acquisition_timeout=self._timeout_s,
            max_transaction_retry_time=self._timeout_s,
            initial_retry_delay=_FIRST_RETRY_S,
            notifications_min_severity=NotificationMinimumSeverity.OFF,
            user_agent="pentad",
        )

    def _failure(self, error: Exception) -> MemoryOutageError:
        from neo4j.exceptions import AuthError, Neo4jError

        said = (error.code or "") if isinstance(error, Neo4jError) else ""
        kind = said.rpartition(".")[2]
        if kind in _LOGIN_ADVICE:
            return MemoryOutageError(f"Neo4j at {self._place} {_LOGIN_ADVICE[kind]}")
        if isinstance(error, AuthError):
            return MemoryOutageError(
                f"Neo4j at {self._place} does not accept our name and password: check NEO4J_USERNAME and NEO4J_PASSWORD"
            )
        if kind.endswith("AlreadyExists"):
            return AlreadyThereError(f"Neo4j at {self._place} has this already")
        text = " ".join(f"{said} {error}".split())[:_MOST_ERROR_CHARS]
        failure = BrokenConstraintError if kind == "ConstraintCreationFailed" else MemoryOutageError
        return failure(f"Neo4j at {self._place} fails: {text}; check NEO4J_URI, or try again later")


_LOGIN_ADVICE = {
    "AuthenticationRateLimit": "was given wrong passwords and now refuses our user for some seconds: "
    "check NEO4J_USERNAME and NEO4J_PASSWORD, here and wherever else they are used",
    "CredentialsExpired": "wants another password for our user before anything else: "
    "choose one with `ALTER CURRENT USER SET PASSWORD FROM '...' TO '...'`, and set NEO4J_PASSWORD to it",
    "Forbidden": "does not let our user do this: grant it to read, write, and make indexes and constraints",
}
"""The advice where waiting does not help, by the kind of the server's error."""


async def rows(tx: AsyncManagedTransaction, query: str, **given: Any) -> list[dict[str, Any]]:
    """Return all rows of a query."""
    found, kept = await tx.run(query, given), list[dict[str, Any]]()
    async for row in found:  # of those that have come already none waits
        kept.append(row.data())
        if len(kept) % _ROWS_PER_TURN == 0:
            await asyncio.sleep(0)
    return kept


def _place(uri: str) -> str:
    """Return the address without user, password and query. Raises ``SettingsError``."""
    try:
        parts = urlsplit(uri)
        if parts.scheme not in _SCHEMES or not parts.hostname:
            raise ValueError
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        raise SettingsError("NEO4J_URI is no address: write it as neo4j://127.0.0.1:7687") from None
    return f"{parts.scheme}://{parts.hostname}{port}"
