"""Finds the approval policy that decides about a tool call. Pure.

A rule that asks or denies is careful: a value that a tool would read as the one that is meant fits it too, and a text
that is too long to be searched fits. A rule that allows takes values as they are.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic_core import to_json

from pentad.contracts.approvals import ApprovalRule, ArgumentTest
from pentad.contracts.tools import Effect
from pentad.shared.immutable import immutable
from pentad.shared.lenient_json import read_lenient
from pentad.shared.policies.patterns import Pattern, expression, glob

MAX_SEARCHED = 131_072
"""Characters of an argument that are searched for a pattern; a longer one is not."""
_MAX_KEPT = 1_024
"""Kinds of calls for which the rules that are about them are remembered."""
_MAX_NUMBER = 64
"""Characters of a text that may be a number."""
_TRUE = frozenset("1 true t yes y on".split())
_FALSE = frozenset("0 false f no n off".split())
"""Texts that tools read as yes and no."""


class CallKind(NamedTuple):
    """A kind of tool calls: what rules say about it depends on the arguments alone."""

    tenant: str
    instructions: tuple[str, ...]
    """Instruction or graph that the task runs, and the instruction of the graph's node."""
    tool: str
    effect: Effect


class Policy:
    """The approval policies that are in effect, ready to be asked about each tool call.

    ``rules``: in their order. Raises ``ValueError`` for a rule with a pattern that is none.
    """

    def __init__(self, rules: Sequence[ApprovalRule] = ()) -> None:
        self._rules = [_Rule.of(rule) for rule in rules]
        self._about: dict[CallKind, tuple[_Rule, ...]] = {}

    def __bool__(self) -> bool:
        return bool(self._rules)

    def rule_for(self, kind: CallKind, args: Mapping[str, Any]) -> ApprovalRule | None:
        """Return the rule that decides about a call: the first deny that fits, else the first other one; None: none."""
        about = self._about.get(kind)
        if about is None:
            about = self._rules_about(kind)
        for each in about:
            if each.fits(args):
                return each.rule
        return None

    def _rules_about(self, kind: CallKind) -> "tuple[_Rule, ...]":
        found = [each for each in self._rules if each.is_about(kind)]
        about = tuple(sorted(found, key=lambda each: each.rule.then != "deny"))  # a sort keeps the order of the rest
        if len(self._about) >= _MAX_KEPT:
            self._about = {}
        self._about[kind] = about
        return about


@immutable
class _Rule:
    """A rule with its patterns compiled."""

    rule: ApprovalRule
    tool: Pattern | None
    instruction: Pattern | None
    tests: "tuple[_Test, ...]"

    @classmethod
    def of(cls, rule: ApprovalRule) -> "_Rule":
        careful = rule.then != "allow"
        tests = tuple([_Test.of(name, test, careful=careful) for name, test in (rule.args or {}).items()])
        tool = None if rule.tool is None else glob(rule.tool)
        return cls(rule, tool, None if rule.instruction is None else glob(rule.instruction), tests)

    def is_about(self, kind: CallKind) -> bool:
        """Whether the rule is about such calls, whatever their arguments are."""
        rule = self.rule
        return (
            rule.tenant_id in (None, kind.tenant)
            and rule.effect in (None, kind.effect.value)
            and (self.tool is None or self.tool(kind.tool))
            and (self.instruction is None or any(map(self.instruction, kind.instructions)))
        )

    def fits(self, args: Mapping[str, Any]) -> bool:
        return all(test.fits(args) for test in self.tests)


@immutable
class _Test:
    """The test of one argument. ``careful``: it also fits what a tool may read as the value that is meant."""

    name: str
    test: ArgumentTest
    pattern: Pattern | None
    careful: bool

    @classmethod
    def of(cls, name: str, test: ArgumentTest, *, careful: bool) -> "_Test":
        try:
            pattern = None if test.matches is None else expression(test.matches)
        except ValueError as error:
            raise ValueError(f"args.{name}.matches: {error}") from None
        return cls(name, test, pattern, careful)

    def fits(self, args: Mapping[str, Any]) -> bool:
        """Whether the call has the argument, and what it has under this name is as the test says."""
        return any(map(self._fits, _values(args, self.name.split("."), careful=self.careful)))

    def _fits(self, value: Any) -> bool:
        test = self.test
        return (
            (self.pattern is None or self._is_found(self.pattern, value))
            and (test.equals is None or self._is(value, test.equals))
            and (test.one_of is None or any(self._is(value, each) for each in test.one_of))
            and (test.above is None or ((number := self._number(value)) is not None and number > test.above))
            and (test.below is None or ((number := self._number(value)) is not None and number < test.below))
        )

    def _is_found(self, pattern: Pattern, value: Any) -> bool:
        text = value if isinstance(value, str) else to_json(value).decode()
        return pattern(text) if len(text) <= MAX_SEARCHED else self.careful

    def _is(self, value: Any, meant: Any) -> bool:
        if _is_same(value, meant):
            return True
        if not self.careful:
            return False
        if isinstance(meant, bool):
            text = to_json(value).decode() if isinstance(value, int | float) else value
            return isinstance(text, str) and text.strip().lower() in (_TRUE if meant else _FALSE)
        if isinstance(meant, int | float):
            return self._number(value) == meant
        if isinstance(value, str) and not isinstance(meant, str):
            return _is_same(_read(value), meant)
        return isinstance(meant, str) and isinstance(value, str) and value.strip() == meant.strip()

    def _number(self, value: Any) -> float | None:
        if isinstance(value, bool):
            return float(value) if self.careful else None
        if isinstance(value, int | float):
            return value
        if self.careful and isinstance(value, str) and len(value) <= _MAX_NUMBER:
            try:
                return float(value)
            except ValueError:
                return None
        return None


def _values(args: Any, parts: Sequence[str], *, careful: bool) -> Iterator[Any]:
    """Return what arguments have under a dotted name: of objects in objects, or of a name that has dots itself.

    ``careful``: a text that is the JSON of an object counts as this object.
    """
    if careful and isinstance(args, str):
        args = _read(args)
    if not isinstance(args, Mapping):
        return
    for end in range(1, len(parts) + 1):
        name = ".".join(parts[:end])
        if name not in args:
            continue
        if end == len(parts):
            yield args[name]
        else:
            yield from _values(args[name], parts[end:], careful=careful)


def _read(text: str) -> Any:
    """Return what a text is as JSON, read as tools' arguments are; None for what is none."""
    try:
        return read_lenient(text)[0]
    except ValueError:
        return None


def _is_same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal; to JSON, true is no number, and 1 is 1.0."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_same(value, other[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return bool(one == other)
