"""One MCP server as a worker serves it: the connection that lists its tools, and those of users with own secrets."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from time import monotonic, time_ns

from pentad.contracts.ids import rfc3339
from pentad.contracts.suspensions import Resumption
from pentad.contracts.tool_servers import ServerCondition, ServerReport, ServerSource, ToolServer
from pentad.contracts.tools import ToolOutcome
from pentad.services.tool_worker.servers.connection import ServerConnection, SignInNeededError
from pentad.services.tool_worker.servers.connection_pool import ConnectionPool, connection_key
from pentad.services.tool_worker.servers.links import Bearer, Challenge, SignInError
from pentad.services.tool_worker.servers.sign_in import AskAgainError, SignIn, owner_of
from pentad.services.tool_worker.servers.tool_list import (
    NO_TOOLS,
    OfferedTools,
    offered_tools,
    sign_in_name,
    with_sign_in,
)
from pentad.services.tool_worker.servers.user_tokens import NoBearer, UserBearer
from pentad.services.tool_worker.sources import OnProgress, ToolInvocation
from pentad.shared import metrics
from pentad.shared.errors import OutageError
from pentad.shared.immutable import immutable
from pentad.shared.outbound.address_guard import AddressGuard
from pentad.shared.plugins.context import ToolContext
from pentad.shared.secrets.secret_store import SecretOwner
from pentad.shared.secrets.user_secrets import UserSecrets
from pentad.shared.settings import Settings
from pentad.shared.store.store import Store
from pentad.shared.telemetry import ThrottledLog

log = logging.getLogger(__name__)
_say = ThrottledLog(log)

_LOOK_S = 5.0
"""Seconds between two looks at secrets and at connections that are not used."""
_NAMED_TOOLS = 3
"""Tools that are not offered, of which the log tells the reason."""
_KEPT_S = 60.0
"""Seconds for which the tools of a server that is away are offered: it may be back before they are called."""


_TOKENS_TRIED = 2
"""Tokens of one user that one call tries: another worker may just have kept another."""
_DISCOVER_S = 60.0
"""Seconds between two questions where persons sign in to a server that wants to know who asks."""
_SIGN_IN_S = 50.0
"""Seconds that asking a person, and going on after that, may take; they are several requests."""
_LIST_S = 20.0
"""Seconds that a call which has signed a person in waits for the list of tools."""
_SHOWN_TOOLS = 30
"""Tools that such a call names."""
_MISFIT = "the secret {} has characters that cannot stand where it is needed, such as line ends: set it anew"


@immutable
class ServerParts:
    """The parts that servers of one worker share."""

    secrets: UserSecrets
    guard: AddressGuard | None
    """Checks addresses of servers; None for those of the operator's own file."""
    settings: Settings
    store: Store


class ServedServer:
    """A server. ``changed``: called when its tools have become others."""

    def __init__(
        self, server: ToolServer, source: ServerSource, parts: ServerParts, changed: Callable[[], None]
    ) -> None:
        self.server, self.source = server, source
        self._parts, self._changed = parts, changed
        self._needs = server.secrets
        trusted = source == "file"
        self._sign_in = SignIn(server, parts.settings, parts.store, trusted=trusted) if server.can_sign_in else None
        self._challenge: Challenge | None = Challenge() if server.oauth is not None else None
        """The server's words of how to sign in, once it is known that persons do; None before."""
        self._signed_out = False
        """Whether the list of tools waits for somebody who signs in."""
        self._discover_at = 0.0
        """When it may be asked again where persons sign in, by the monotonic clock."""
        self._look_now = asyncio.Event()
        """Set when the keeper has something to do at once."""
        self.offered: OfferedTools = NO_TOOLS
        self._lister: ServerConnection | None = None
        self._pool = ConnectionPool(server, parts.guard, parts.settings.pentad_step_timeout_s)
        """Connections, that of the list among them."""
        self._trouble: str | None = None
        """Why there is no connection for the list."""
        self._since = rfc3339(time_ns() // 1_000_000)
        self._lost_at: float | None = None
        self._keeper: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to connect."""
        if not self._needs and self.server.oauth is None:
            self._list_with({})
        self._keeper = asyncio.create_task(self._keep())

    async def tried(self) -> None:
        """Wait until the first attempt to connect has ended; at once where the secrets for it are not there."""
        if self._lister is not None:
            await self._lister.tried()

    def alive(self) -> bool:
        """Whether the task that keeps the server runs."""
        return self._keeper is not None and not self._keeper.done()

    async def stop(self) -> None:
        """End all connections."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait({self._keeper})
        metrics.mcp_ready.labels(self.server.name).set(0)
        await self._pool.stop()
        if self._sign_in is not None:
            await self._sign_in.aclose()

    async def call(self, invocation: ToolInvocation, on_progress: OnProgress) -> ToolOutcome:
        """Make a call with the secrets of whom it is for. Every failure is an outcome."""
        tool = self.offered.own_names.get(invocation.tool)
        if self._sign_in is not None and (tool is not None or invocation.tool == sign_in_name(self.server)):
            return await self._call_as_user(self._sign_in, tool, invocation, on_progress)
        if tool is None:
            return ToolOutcome("error", f"the server {self.server.name!r} has no {invocation.tool!r} any more")
        context, values = invocation.context, dict[str, str]()
        if self._needs:
            try:
                found = await self._parts.secrets.find(context.tenant_id, context.user_id, self._needs)
            except OutageError as error:
                return _not_called(invocation, error)
            if found.missing:
                return ToolOutcome("error", _missing(invocation, found.missing))
            if (name := self.server.misfit(found.values)) is not None:
                return _not_called(invocation, _MISFIT.format(name))
            values = found.values
        return await self._call(self._connection(values), tool, invocation, on_progress, invocation.resumed)

    async def _call(
        self,
        connection: ServerConnection | None,
        tool: str,
        invocation: ToolInvocation,
        on_progress: OnProgress,
        resumed: Resumption | None,
    ) -> ToolOutcome:
        if connection is None:
            text = (
                f"the server {self.server.name!r} is used by {len(self._pool)} others at this moment: try again later"
            )
            return ToolOutcome("error", text)
        return await connection.call(
            tool, invocation.args, invocation.timeout_s, on_progress, resumed, invocation.files_of
        )

    # Calls of users who sign in

    async def _call_as_user(
        self, sign_in: SignIn, tool: str | None, invocation: ToolInvocation, on_progress: OnProgress
    ) -> ToolOutcome:
        """Make a call as who has signed in; ask a person to where that is needed. ``tool`` None: only sign in."""
        context, resumed = invocation.context, invocation.resumed
        challenge, why = self._challenge or Challenge(), ""
        came_back = sign_in.is_of(resumed)
        try:
            if resumed is not None and came_back:
                try:
                    async with asyncio.timeout(_SIGN_IN_S):
                        resumed = await sign_in.finish(context, resumed)
                    self._renew_connection(owner_of(context))
                except AskAgainError as error:
                    resumed, came_back, why = None, False, str(error)
            bearer = await sign_in.bearer(owner_of(context))
            if tool is None:
                return await self._sign_in_outcome(sign_in, bearer, invocation, why)
            if bearer is None and (self._challenge is None or self._lists_without_token):
                try:
                    return await self._call(
                        self._connection({}, bearer=NoBearer()), tool, invocation, on_progress, resumed
                    )
                except SignInNeededError as error:
                    challenge = self._challenge = error.challenge
                    bearer = await sign_in.bearer(owner_of(context), fresh=True)
            for _ in range(_TOKENS_TRIED):
                if bearer is None:
                    break
                connection = self._connection({}, owner_of(context), bearer)
                try:
                    return await self._call(connection, tool, invocation, on_progress, resumed)
                except SignInNeededError as error:
                    challenge = self._challenge = error.challenge
                    if came_back:
                        return _not_called(
                            invocation, "the server refuses the token with which the person has just signed in"
                        )
                    if challenge.wants_more:
                        break
                    bearer = await sign_in.bearer(owner_of(context), fresh=True)
                    self._renew_connection(owner_of(context))
            return await self._ask(sign_in, context, challenge, resumed, why)
        except TimeoutError:
            return _not_called(invocation, f"to sign in took longer than {_SIGN_IN_S:g} s: try again later")
        except (SignInError, OutageError) as error:
            return _not_called(invocation, error)

    @staticmethod
    async def _ask(
        sign_in: SignIn, context: ToolContext, challenge: Challenge, resumed: Resumption | None, why: str
    ) -> ToolOutcome:
        """Return the question to a person. Raises what `SignIn.ask` does, and ``TimeoutError``."""
        async with asyncio.timeout(_SIGN_IN_S):
            return ToolOutcome("suspended", "", suspension=await sign_in.ask(context, challenge, resumed, why))

    async def _sign_in_outcome(
        self, sign_in: SignIn, bearer: UserBearer | None, invocation: ToolInvocation, why: str
    ) -> ToolOutcome:
        """Return what the tool that signs in answers: a question to the person, or which tools there are now."""
        context, named = invocation.context, f"the server {self.server.name!r}"
        if bearer is None:
            return await self._ask(sign_in, context, self._challenge or Challenge(), None, why)
        if self._signed_out:
            self._list_as(owner_of(context), bearer)
        lister = self._lister
        if lister is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(min(_LIST_S, invocation.timeout_s)):
                    await lister.tried()
        names = sorted(self.offered.own_names)
        if not names:
            why = "" if lister is None or lister.error is None else f": {lister.error}"
            return ToolOutcome("ok", f"{named} knows the person, and its tools are not known yet{why}")
        more = f" and {len(names) - _SHOWN_TOOLS} more" if len(names) > _SHOWN_TOOLS else ""
        return ToolOutcome("ok", f"{named} knows the person. Its tools: {', '.join(names[:_SHOWN_TOOLS])}{more}")

    @property
    def _lists_without_token(self) -> bool:
        """Whether the server is spoken to without a token, and has listed its tools so."""
        return (
            self._pool.listing == connection_key({}) and self._lister is not None and self._lister.condition == "ready"
        )

    def _renew_connection(self, owner: SecretOwner) -> None:
        """End the connection of an owner whose token was refused, so that the next call makes another."""
        key = connection_key({}, owner)
        found = self._pool.find(key)
        if found is None or found.condition == "ready":
            return
        if key == self._pool.listing:
            self._lister = self._pool.listing = None
            self._signed_out = True
        self._pool.close(key)

    def report(self) -> ServerReport:
        """Return how the server does. Nothing in it is secret."""
        lister, offered = self._lister, self.offered
        return ServerReport(
            name=self.server.name,
            source=self.source,
            transport=self.server.transport,
            place=self.server.place,
            condition=self._condition if lister is None else lister.condition,
            since=self._since if lister is None else lister.since,
            error=self._trouble if lister is None else _joined(lister.error, self._trouble),
            said=None if lister is None else lister.said,
            tools=len(offered.specs),
            left_out=offered.left_out,
            left_out_count=offered.left_out_count,
            secrets=tuple(self._needs),
            protocol=None if lister is None else lister.protocol,
            connections=len(self._pool),
        )

    @property
    def _condition(self) -> ServerCondition:
        """Return the condition of a server to which there is no connection for the list."""
        if self._sign_in is None:
            return "no_secret"
        return "signed_out" if self._signed_out else "connecting"

    # Connections

    def _connection(
        self, values: dict[str, str], owner: SecretOwner | None = None, bearer: Bearer | None = None
    ) -> ServerConnection | None:
        """Return the connection of these secrets, or of who has signed in; None when too many are used."""
        return self._pool.get(connection_key(values, owner), values, bearer)

    # The list of tools

    def _list_as(self, owner: SecretOwner, bearer: Bearer) -> None:
        """Read the list of tools as who has signed in."""
        self._signed_out = False
        self._list_with({}, owner, bearer)

    def _list_with(
        self, values: dict[str, str], owner: SecretOwner | None = None, bearer: Bearer | None = None
    ) -> None:
        """Read the list of tools over the connection of these secrets, or of who has signed in."""
        key = connection_key(values, owner)
        if bearer is None and self._sign_in is not None:
            bearer = NoBearer()
        if self._pool.listing is not None:
            self._pool.close(self._pool.listing)
        self._pool.close(key)  # one of a user's: it does not tell of its list
        self._pool.listing, self._trouble = key, None
        self._lister = self._pool.connect(key, values, self._look, bearer)
        self._look()

    def _look(self) -> None:
        """Take up what the connection of the list has found."""
        lister = self._lister
        if lister is None:
            return
        metrics.mcp_ready.labels(self.server.name).set(lister.condition == "ready")
        if lister.condition == "ready":
            self._lost_at = None
            self._offer(offered_tools(self.server, lister.listed, cut=lister.cut))
            return
        if lister.challenge is not None:
            self._look_now.set()
        if self._lost_at is None:
            self._lost_at = monotonic()

    def _offer(self, offered: OfferedTools) -> None:
        if self._sign_in is not None and self._challenge is not None and not self._lists_without_token:
            offered = with_sign_in(self.server, offered)
        if offered == self.offered:
            return
        if offered.left_out:
            said = "; ".join(f"{each.tool}: {each.why}" for each in offered.left_out[:_NAMED_TOOLS])
            line = "%d tools of the MCP server %r are not offered; `pentad mcp` says which: %s"
            _say.warning(f"{self.server.name} {said}", line, offered.left_out_count, self.server.name, said)
        self.offered = offered
        self._changed()

    async def _keep(self) -> None:
        """Look for secrets, close what is not used, and withdraw the tools of a server that stays away."""
        while True:
            with suppress(OutageError):
                if self._needs:
                    await self._find_secrets()
                elif self._sign_in is not None:
                    await self._find_who_lists(self._sign_in)
            now = monotonic()
            self._pool.close_idle()
            if self._lost_at is not None and not self._signed_out and now - self._lost_at > _KEPT_S:
                self._offer(NO_TOOLS)
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S):
                    await self._look_now.wait()
            self._look_now.clear()

    async def _find_who_lists(self, sign_in: SignIn) -> None:
        """Have the list read by somebody who has signed in, where it is not read without; else offer to sign in."""
        lister, named = self._lister, self.server.list_as
        if (
            lister is not None
            and lister.challenge is not None
            and await self._asks_for_sign_in(sign_in, lister.challenge)
        ):
            if self._lister is not lister or self._pool.listing is None:  # a call has ended it meanwhile
                return
            was_a_person = self._pool.listing != connection_key({})
            self._pool.close(self._pool.listing)
            self._lister = self._pool.listing = None
            if was_a_person:  # not again at once: the token may be good, and not for the list
                self._become_signed_out()
                return
        if self._lister is not None and (named is None or self._pool.listing != connection_key({})):
            return
        owner = _owner(named) if named is not None else await sign_in.tokens.first_owner()
        bearer = None if owner is None else await sign_in.bearer(owner)
        if owner is not None and bearer is not None:
            self._list_as(owner, bearer)
        elif self._lister is None and not self._signed_out:
            self._become_signed_out()

    def _become_signed_out(self) -> None:
        """Offer the tool that signs in; those that are known already stay, and ask a person when they are called."""
        self._signed_out, self._trouble = True, self._who_must_sign_in()
        metrics.mcp_ready.labels(self.server.name).set(0)
        self._offer(replace(self.offered))

    async def _asks_for_sign_in(self, sign_in: SignIn, challenge: Challenge) -> bool:
        """Return whether a server that refuses a connection says where persons sign in."""
        if self._challenge is None or challenge != self._challenge:
            now = monotonic()
            if now < self._discover_at:
                return False
            self._discover_at = now + _DISCOVER_S
            try:
                await sign_in.discover(challenge)
            except SignInError as error:
                self._trouble = str(error)
                return False
            self._challenge = challenge
        return True

    def _who_must_sign_in(self) -> str:
        who = "nobody" if self.server.list_as is None else f"{self.server.list_as} has not"
        has = "has signed in" if self.server.list_as is None else "signed in"
        return f"{who} {has}: a call of {sign_in_name(self.server)} asks a person to"

    async def _find_secrets(self) -> None:
        """Connect for the list as soon as there are secrets for it, and anew when they are others."""
        secrets = self._parts.secrets
        named = self.server.list_as
        owner = _owner(named) if named is not None else await secrets.owner_of(self._needs)
        found = None if owner is None else await secrets.find(owner.tenant, owner.user, self._needs)
        if found is not None and not found.missing and (name := self.server.misfit(found.values)) is not None:
            self._trouble = _MISFIT.format(name)
            return
        if found is not None and not found.missing:
            if self._pool.listing != connection_key(found.values):
                self._list_with(found.values)
            return
        whose = "nobody" if named is None else named
        self._trouble = f"{whose} has all of the secrets that it needs: {', '.join(self._needs)}"
        if named is not None:
            self._trouble = f"{named} does not have all of the secrets that it needs: {', '.join(self._needs)}"
        if self._lister is not None and self._pool.listing is not None:
            self._pool.close(self._pool.listing)
            self._lister = self._pool.listing = None
            self._lost_at = monotonic()


def _owner(text: str) -> SecretOwner:
    tenant, _, user = text.partition("/")
    return SecretOwner(tenant, user or None)


def _joined(error: str | None, trouble: str | None) -> str | None:
    """Return why a server that is connected to does not do well; None for one that does."""
    return error if error is None or trouble is None else f"{error}; {trouble}"


def _not_called(invocation: ToolInvocation, why: object) -> ToolOutcome:
    return ToolOutcome("error", f"{invocation.tool} was not called: {why}")


def _missing(invocation: ToolInvocation, names: tuple[str, ...]) -> str:
    context = invocation.context
    whose = f"tenant {context.tenant_id}" if context.user_id is None else f"user {context.user_id}"
    listed = ", ".join(names)
    return (
        f"{invocation.tool} was not called: it needs the secret {listed}, and {whose} has none; an operator can set it "
        "by POST /v1/secrets"
    )
