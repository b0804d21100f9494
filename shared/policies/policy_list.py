"""The list of the approval policies that are in effect: those of the file, and the registered ones."""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from pentad.contracts.approvals import MAX_RULES, ApprovalRule
from pentad.shared.entry_file import EntryFile
from pentad.shared.errors import SettingsError
from pentad.shared.policies.policy import Policy
from pentad.shared.settings import Settings

_MAX_FILE_BYTES = 16 << 20


class KnownRule(NamedTuple):
    """An approval policy and its source."""

    rule: ApprovalRule
    source: Literal["file", "registered"]


def configured_policies(settings: Settings) -> tuple[ApprovalRule, ...]:
    """Return the approval policies of the file. Raises ``SettingsError`` that names the place of each mistake."""
    return () if settings.pentad_policies is None else POLICY_FILE.read(settings.pentad_policies)


def in_effect(file: Iterable[ApprovalRule], registered: Iterable[ApprovalRule]) -> list[KnownRule]:
    """Return the rules in the order in which they are asked. A registered one with the name of one of the file is left
    out."""
    rules = [KnownRule(rule, "file") for rule in file]
    names = {known.rule.name for known in rules}
    rules += [KnownRule(rule, "registered") for rule in registered if rule.name not in names]
    return sorted(rules, key=lambda known: (known.rule.order, known.source != "file", known.rule.name))


def check_patterns(rule: ApprovalRule) -> None:
    """Raise ``ValueError`` that names the field for a pattern that is none."""
    Policy((rule,))


def _check(entries: Sequence[ApprovalRule]) -> None:
    names: set[str] = set()
    for number, rule in enumerate(entries):
        place = POLICY_FILE.place(number, rule.name)
        if rule.name in names:
            raise SettingsError(f"{place}.name: another policy has it")
        names.add(rule.name)
        try:
            check_patterns(rule)
        except ValueError as error:
            raise SettingsError(f"{place}.{error}") from None


POLICY_FILE = EntryFile("PENTAD_POLICIES", "policies", ApprovalRule, "name", _check, _MAX_FILE_BYTES, most=MAX_RULES)
"""A file with approval policies."""
