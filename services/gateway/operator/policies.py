"""The registry of approval policies that an operator reads and changes."""

import asyncio
from collections.abc import Mapping, Sequence
from secrets import token_hex
from typing import Any

from pydantic import ValidationError

from pentad.contracts.approvals import MAX_RULES, ApprovalRule, PolicyAnswer, PolicyQuestion
from pentad.contracts.tools import Effect
from pentad.services.gateway.edge.problems import ProblemError, busy, invalid, missing
from pentad.shared.entry_file import complaints
from pentad.shared.instructions.builtin import EXECUTOR
from pentad.shared.policies.policy import CallKind, Policy
from pentad.shared.policies.policy_list import KnownRule, check_patterns, in_effect
from pentad.shared.registries.registrations import REGISTERED_POLICIES, Registered
from pentad.shared.store.store import Store

_MAX_ATTEMPTS = 5
"""How often a change is tried when others change the registry at the same time."""
_MAX_ERROR_CHARS = 1000
"""Characters of an error about a policy."""
_OF_FILE = "is of the file of PENTAD_POLICIES: it is changed there"


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

    async def asked(self, question: PolicyQuestion, effect: Effect) -> PolicyAnswer:
        """Return what the policies in effect say about a tool call. ``effect``: of its tool, if it names none."""
        rules = [known.rule for known in in_effect(self._file, (await self._read()).entries)]
        effect = question.effect or effect
        kind = CallKind(question.tenant_id, (question.instruction or EXECUTOR.name,), question.tool, effect)
        rule = await asyncio.to_thread(lambda: Policy(rules).rule_for(kind, question.args))
        if rule is None:
            return PolicyAnswer(effect=effect)
        approvers = None if rule.approvers is None else list(rule.approvers)
        return PolicyAnswer(then=rule.then, policy=rule.name, reason=rule.reason, approvers=approvers, effect=effect)

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
