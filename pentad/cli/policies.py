"""``pentad policies``: the operators' rules about tool calls, in the order in which they are asked."""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pentad.cli.gateway import operator_for, streams
from pentad.cli.gateway import run as run_async
from pentad.cli.render import fitted, style_for, table
from pentad.contracts.plain_json import read_json
from pentad.errors import NotFound, Refused
from pentad.shared.policies.policy_list import POLICY_FILE
from pentad.shared.settings import Settings

_HEADER = ("ORDER", "POLICY", "FROM", "THEN", "APPROVERS", "CALLS")


def run(args: argparse.Namespace, settings: Settings) -> int:
    """A table of all policies, or a change. Raises ``Refused``, ``Conflict``, ``NotFound`` and ``SettingsError``."""
    if args.action == "add":
        return run_async(_add(args, settings))
    return run_async(_list(args, settings) if args.action is None else _remove(args, settings))


async def _list(args: argparse.Namespace, settings: Settings) -> int:
    out, _ = streams()
    async with operator_for(args, settings) as agent:
        found = await agent.inspection.approval_policies()
    if args.json:
        out.writelines(json.dumps(each, ensure_ascii=False) + "\n" for each in found)
    elif found:
        out.write(table(_HEADER, fitted(_HEADER, [_row(each) for each in found]), style_for(out, settings)) + "\n")
    else:
        out.write("no policies: docs/approvals.md says how to write one\n")
    return 0


def _row(policy: Mapping[str, Any]) -> tuple[str, ...]:
    words = [f"{name} {policy[name]}" for name in ("tool", "effect", "instruction") if name in policy]
    for argument, test in policy.get("args", {}).items():
        words += [f"{argument} {name} {json.dumps(value, ensure_ascii=False)}" for name, value in test.items()]
    if "tenant_id" in policy:
        words.append(f"of {policy['tenant_id']}")
    approvers = ", ".join(policy.get("approvers", ())) or "-"
    return str(policy["order"]), policy["name"], policy["source"], policy["then"], approvers, ", ".join(words) or "all"


async def _add(args: argparse.Namespace, settings: Settings) -> int:
    out, _ = streams()
    given = _given(args.policy)
    async with operator_for(args, settings) as agent:
        for fields in given:
            policy = await agent.management.register_policy(**fields)
            out.write(f"{policy['name']} is in effect within about a second\n")
    return 0


def _given(text: str) -> Sequence[dict[str, Any]]:
    """Return the policies that are added: JSON of one, or those of a file like that of ``PENTAD_POLICIES``."""
    if not text.lstrip().startswith("{"):
        rules = replace(POLICY_FILE, variable="FILE").read(Path(text))
        return [rule.model_dump(mode="json", exclude_none=True) for rule in rules]
    try:
        found = read_json(text)
    except (TypeError, ValueError) as error:  # TypeError: half a character
        raise Refused(f"the policy is no JSON: {error}") from None
    if not isinstance(found, dict) or not isinstance(found.get("then"), str):
        raise Refused('then: a policy says what becomes of calls: {"tool": "send_*", "then": "ask"}')
    return [found]


async def _remove(args: argparse.Namespace, settings: Settings) -> int:
    out, _ = streams()
    async with operator_for(args, settings) as agent:
        try:
            await agent.management.delete_policy(args.name)
        except NotFound as error:
            raise NotFound(f"{error}: `pentad policies` lists them") from None
    out.write(f"{args.name} is removed\n")
    return 0
