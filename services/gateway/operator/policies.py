"""The registry of approval policies that an operator reads and changes."""

import asyncio
from collections.abc import Mapping, Sequence
from secrets import token_hex
from typing import Any

from pydantic import ConfigDict, Field, ValidationError

from pentad.contracts.approvals import MAX_RULES, ApprovalRule
from pentad.contracts.envelope import Contract
from pentad.contracts.ids import DEFAULT_TENANT, ExternalId
from pentad.contracts.tools import Effect
from pentad.services.gateway.edge.problems import ProblemError, busy, invalid, missing
from pentad.shared.entry_file import complaints
from pentad.shared.policies.policy import CallKind, Policy
from pentad.shared.policies.policy_list import KnownRule, check_patterns, in_effect
from pentad.shared.registries.registrations import REGISTERED_POLICIES, Registered
from pentad.shared.store.store import Store

_MAX_ATTEMPTS = 5
"""How often a change is tried when others change the registry at the same time."""
_MAX_ERROR_CHARS = 1000
"""Characters of an error about a policy."""
_OF_FILE = "is of the file of PENTAD_POLICIES: it is changed there"


class SupposedCall(Contract):
    """A tool call that an operator supposes, to see which policy would decide about it."""

    model_config = ConfigDict(extra="forbid")  # a misspelled field would change the answer

    tool: ExternalId
    args: dict[str, Any] = Field(default_factory=dict)
    effect: Effect = Effect.UNSAFE
    instruction: ExternalId = ""
    tenant_id: ExternalId = DEFAULT_TENANT


class PolicyRegistry:
    """Changes the registry of approval policies. Raises ``ProblemError``, and ``OutageError`` if Redis is unavailable.

    A change is written only if the registry has not changed since the check. ``file``: the policies of the file.
    """

    def __init__(self, store: Store, file: Sequence[ApprovalRule]) -> None:
        self._store, self._file = store, tuple(file)

    def use_file(self, file: Sequence[ApprovalRule]) -> None:
        """Take other policies of the file."""
        self._file = tuple(file)

    async def listing(self) -> list[dict[str, Any]]:
        """Return all policies with their sources, in the order in which they are asked."""
        return [_shown(known) for known in in_effect(self._file, (await self._read()).entries)]

    async def register(self, body: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
        """Add a policy, or replace the registered one with its name; return it, and whether it is new."""
        rule = await _rule(body)
        self._keep_out_of_file(rule.name)
        for _ in range(_MAX_ATTEMPTS):
            read = await self._read()
            new = rule.name not in {each.name for each in read.entries}
            if new and len(read.entries) >= MAX_RULES:
                raise ProblemError(409, f"there are {MAX_RULES} registered policies already: delete one")
            if await REGISTERED_POLICIES.write(self._store, read, rule.name, rule):
                return _shown(KnownRule(rule, "registered")), new
        raise busy("others change the registry at the same time: try again")

    async def decision(self, body: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the policy that would decide about a supposed call, with its source; None: no policy fits it."""
        try:
            call = SupposedCall.model_validate(body)
        except ValidationError as error:
            raise invalid("; ".join(complaints(error))[:_MAX_ERROR_CHARS]) from None
        known = in_effect(self._file, (await self._read()).entries)
        kind = CallKind(call.tenant_id, (call.instruction,), call.tool, call.effect)
        rule = await asyncio.to_thread(_deciding, known, kind, call.args)
        return next((_shown(each) for each in known if each.rule is rule), None)

    async def delete(self, name: str) -> None:
        """Remove a registered policy."""
        self._keep_out_of_file(name)
        for _ in range(_MAX_ATTEMPTS):
            read = await self._read()
            if name not in {each.name for each in read.entries}:
                raise missing("there is no such policy")
            if await REGISTERED_POLICIES.write(self._store, read, name, None):
                return
        raise busy("others change the registry at the same time: try again")

    async def _read(self) -> Registered[ApprovalRule]:
        return await REGISTERED_POLICIES.read(self._store)

    def _keep_out_of_file(self, name: str) -> None:
        if name in {rule.name for rule in self._file}:
            raise ProblemError(409, f"policy {name} {_OF_FILE}")


def _deciding(known: Sequence[KnownRule], kind: CallKind, args: Mapping[str, Any]) -> ApprovalRule | None:
    return Policy([each.rule for each in known]).rule_for(kind, args)


async def _rule(body: Mapping[str, Any]) -> ApprovalRule:
    given = dict(body)
    if given.get("name") is None:
        given["name"] = f"policy-{token_hex(4)}"
    try:
        rule = ApprovalRule.model_validate(given)
        await asyncio.to_thread(check_patterns, rule)
    except ValidationError as error:
        raise invalid("; ".join(complaints(error))[:_MAX_ERROR_CHARS]) from None
    except ValueError as error:
        raise invalid(str(error)[:_MAX_ERROR_CHARS]) from None
    return rule


def _shown(known: KnownRule) -> dict[str, Any]:
    return {**known.rule.model_dump(mode="json", exclude_none=True), "source": known.source}
