"""Which approval policy decides about a tool call."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pentad.contracts.approvals import MAX_PATTERN, MAX_RULE, MAX_TESTS, ApprovalRule
from pentad.contracts.tools import Effect
from pentad.shared.policies.policy import MAX_SEARCHED, CallKind, Policy
from pentad.shared.policies.policy_list import check_patterns, in_effect

CALL = CallKind("acme", ("executor",), "send_mail", Effect.UNSAFE)


def rule(name: str = "r", then: str = "ask", **fields: Any) -> ApprovalRule:
    return ApprovalRule.model_validate({"name": name, "then": then, **fields})


def fits(kind: CallKind = CALL, given: Any = None, **fields: Any) -> bool:
    """Whether a rule is the one that decides about a call with these arguments."""
    return Policy([rule(**fields)]).rule_for(kind, given or {}) is not None


def holds(test: dict[str, Any], value: Any, then: str = "deny") -> bool:
    return fits(given={"x": value}, then=then, args={"x": test})


@pytest.mark.parametrize(
    ("fields", "meant"),
    [
        ({}, True),
        ({"tool": "send_*"}, True),
        ({"tool": "send"}, False),
        ({"tool": "*mail"}, True),
        ({"tool": "SEND_*"}, False),
        ({"tool": "send?mail"}, True),
        ({"tool": "[a-r]*"}, False),
        ({"tool": "[!a-r]*"}, True),
        ({"tool": "send.mail"}, False),
        ({"effect": "unsafe"}, True),
        ({"effect": "pure"}, False),
        ({"instruction": "exec*"}, True),
        ({"instruction": "billing"}, False),
        ({"tenant_id": "acme"}, True),
        ({"tenant_id": "bolt"}, False),
        ({"tool": "send_*", "effect": "pure"}, False),
    ],
)
def test_a_rule_is_about_the_calls_that_have_all_that_it_names(fields: dict[str, Any], meant: bool) -> None:
    assert fits(**fields) is meant


def test_a_rule_about_an_instruction_is_about_a_graph_and_its_node() -> None:
    call = CALL._replace(instructions=("survey", "clerk"))
    assert [fits(kind=call, instruction=name) for name in ("survey", "clerk", "executor")] == [True, True, False]


@pytest.mark.parametrize(
    ("test", "value", "meant"),
    [
        ({"matches": r"\.env$"}, "a/.env", True),
        ({"matches": r"\.env$"}, "a/.envy", False),
        ({"matches": "*.env"}, "a/b.env", True),
        ({"matches": "*.env"}, "a/b.env.txt", False),
        ({"matches": "*.env"}, "a\n.env", True),
        ({"matches": "^5$"}, 5, True),
        ({"matches": "^true$"}, True, True),
        ({"matches": '"a":1'}, {"a": 1}, True),
        ({"matches": "secret"}, ["x", "my secret"], True),
        ({"equals": 5}, 5.0, True),
        ({"equals": {"a": [1, None]}}, {"a": [1, None]}, True),
        ({"equals": {"a": [1]}}, {"a": [True]}, False),
        ({"one_of": ["a", 7, None]}, 7, True),
        ({"one_of": ["a", 7]}, "b", False),
        ({"one_of": ["a", None]}, None, True),
        ({"above": 10}, 11, True),
        ({"above": 10}, 10, False),
        ({"below": -1.5}, -2, True),
        ({"above": 1}, 10**300, True),
        ({"above": 1, "below": 5}, 3, True),
        ({"above": 1, "below": 5}, 7, False),
        ({"above": 1, "matches": "^3"}, 4, False),
        ({"above": 1}, None, False),
        ({"above": 1}, "many", False),
        ({"above": 1}, [7], False),
    ],
)
def test_all_that_a_test_names_must_hold(test: dict[str, Any], value: Any, meant: bool) -> None:
    assert holds(test, value) is meant
    assert holds(test, value, then="allow") is meant


@pytest.mark.parametrize(
    ("test", "value"),
    [
        ({"above": 10}, "11"),
        ({"above": 10}, " 1e3 "),
        ({"above": 0}, True),
        ({"equals": 5}, "5"),
        ({"equals": 1}, True),
        ({"equals": True}, "yes"),
        ({"equals": True}, 1),
        ({"equals": False}, "Off"),
        ({"equals": {"a": 1}}, '{"a": 1}'),
        ({"one_of": [[1, 2]]}, "[1, 2]"),
        ({"equals": "a"}, " a "),
        ({"matches": "secret"}, "x" * (MAX_SEARCHED + 1)),
        ({"matches": "secret"}, ["x" * MAX_SEARCHED]),
    ],
)
def test_what_a_tool_may_read_as_the_value_that_is_meant_is_denied_and_not_allowed(
    test: dict[str, Any], value: Any
) -> None:
    assert [holds(test, value, then) for then in ("deny", "ask", "allow")] == [True, True, False]


@pytest.mark.parametrize("args", [{}, {"y": "secret"}, {"to": "a"}, {"to": {"name": "secret"}}, {"to": None}])
@pytest.mark.parametrize("test", [{"matches": "."}, {"below": 9}, {"equals": "secret"}])
def test_an_argument_that_is_not_there_fits_no_test(args: dict[str, Any], test: dict[str, Any]) -> None:
    assert not fits(given=args, then="deny", args={"to.address": test})


@pytest.mark.parametrize(
    "args",
    [
        {"to": {"address": "eve"}},
        {"to.address": "eve"},
        {"to": '{"address": "eve"}'},
        {"to": "```json\n{'address': 'eve'}\n```".replace("'", '"')},
        {"to.address": "ok", "to": {"address": "eve"}},
    ],
)
def test_a_dotted_name_reaches_into_objects_however_they_are_written(args: dict[str, Any]) -> None:
    assert fits(given=args, then="deny", args={"to.address": {"equals": "eve"}})


def test_the_first_rule_that_fits_decides_and_a_deny_before_all_others() -> None:
    rules = [
        rule("a", "allow", args={"to": {"equals": "ada"}}),
        rule("b", "ask", tool="send_*"),
        rule("c", "deny", args={"to": {"equals": "eve"}}),
        rule("d", "deny", args={"to": {"matches": "e"}}),
    ]
    policy = Policy(rules)
    assert [found.name for to in ("ada", "bob", "eve", "me") if (found := policy.rule_for(CALL, {"to": to}))] == [
        *("a", "b", "c", "d")
    ]
    assert policy.rule_for(CALL._replace(tool="echo"), {"to": "bob"}) is None


WORDS = st.sampled_from(["ada", "eve", "x"])
RULES = st.builds(
    lambda name, then, order, tool, args: rule(name, then, order=order, tool=tool, args=args),
    st.text("abcdef", min_size=1, max_size=3),
    st.sampled_from(["allow", "ask", "deny"]),
    st.integers(0, 3),
    st.sampled_from([None, "send_*", "echo"]),
    st.one_of(st.none(), WORDS.map(lambda word: {"to": {"equals": word}})),
)


@given(st.lists(RULES, max_size=12, unique_by=lambda each: each.name), WORDS, st.integers(0, 12))
def test_a_deny_that_fits_always_wins_wherever_it_stands(rules: list[ApprovalRule], to: str, of_file: int) -> None:
    ordered = [known.rule for known in in_effect(rules[:of_file], rules[of_file:])]
    assert [each.order for each in ordered] == sorted(each.order for each in rules)
    found = Policy(ordered).rule_for(CALL, {"to": to})
    fitting = [each for each in ordered if Policy([each]).rule_for(CALL, {"to": to})]
    denying = [each for each in fitting if each.then == "deny"]
    assert found == next(iter([*denying, *fitting]), None)


def test_rules_are_asked_by_order_then_those_of_the_file_then_by_name() -> None:
    file = [rule("z"), rule("b", order=500), rule("same", then="deny")]
    registered = [rule("b2"), rule("a"), rule("first", order=1), rule("same", then="allow", order=0)]
    shown = [(known.rule.name, known.source, known.rule.then) for known in in_effect(file, registered)]
    assert [name for name, _, _ in shown] == ["first", "same", "z", "a", "b2", "b"]
    assert ("same", "file", "deny") in shown, "a registered rule cannot take the place of one of the file"


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"then": "maybe"}, "then"),
        ({"name": "a b"}, "name"),
        ({"name": "@version"}, "name"),
        ({"tool": ""}, "tool"),
        ({"tool": "x" * 129}, "tool"),
        ({"tool": ["send"]}, "tool"),
        ({"effect": "evil"}, "effect"),
        ({"efect": "pure"}, "efect"),
        ({"args": {}}, "args"),
        ({"args": []}, "args"),
        ({"args": {"x": {}}}, "args.x: it tests nothing"),
        ({"args": {"x": {"equals": None}}}, "args.x: it tests nothing"),
        ({"args": {"x": {"match": "a"}}}, "args.x.match"),
        ({"args": {"x": {"matches": ""}}}, "args.x.matches"),
        ({"args": {"x": {"matches": "a" * (MAX_PATTERN + 1)}}}, "args.x.matches"),
        ({"args": {"x": {"matches": 7}}}, "args.x.matches"),
        ({"args": {"x": {"above": "7"}}}, "args.x.above"),
        ({"args": {"x": {"above": True}}}, "args.x.above"),
        ({"args": {"x": {"below": float("nan")}}}, "args.x.below"),
        ({"args": {"x": {"one_of": []}}}, "args.x.one_of"),
        ({"args": {"x": {"one_of": [1] * 101}}}, "args.x.one_of"),
        ({"args": {"": {"equals": 1}}}, "args"),
        ({"args": {"a..b": {"equals": 1}}}, "args"),
        ({"args": {"a." * 8 + "b": {"equals": 1}}}, "args"),
        ({"args": {"x" * 257: {"equals": 1}}}, "args"),
        ({"args": {f"x{n}": {"equals": 1} for n in range(MAX_TESTS + 1)}}, "args"),
        ({"args": {"x": {"equals": "a" * MAX_RULE}}}, "16,384 bytes"),
        ({"approvers": []}, "approvers"),
        ({"approvers": ["a b"]}, "approvers.0"),
        ({"approvers": ["a"] * 101}, "approvers"),
        ({"approvers": "ann"}, "approvers"),
        ({"then": "deny", "approvers": ["ann"]}, "approvers: only a rule with then = ask"),
        ({"then": "allow", "expires_s": 60}, "expires_s: only a rule with then = ask"),
        ({"expires_s": 0.5}, "expires_s"),
        ({"expires_s": 2_592_001}, "expires_s"),
        ({"expires_s": "60"}, "expires_s"),
        ({"order": -1}, "order"),
        ({"order": True}, "order"),
        ({"order": 1.5}, "order"),
        ({"reason": "x" * 2_001}, "reason"),
        ({"tenant_id": "a/b"}, "tenant_id"),
    ],
)
def test_what_is_no_rule_is_refused_by_the_name_of_its_field(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError) as refused:
        rule(**fields)
    told = [".".join(str(part) for part in each["loc"]) + ": " + each["msg"] for each in refused.value.errors()]
    assert any(says in text.replace("Value error, ", "").replace(": : ", ": ") for text in told), told


@pytest.mark.parametrize(
    "pattern", ["(a|b", "(?=a)b", r"(a)\1", r"(\w{1000}){1000}", "(a{999}){999}", "*.env)", "[a*", "+"]
)
def test_a_pattern_that_is_neither_an_expression_nor_a_glob_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"args\.x\.matches: it is neither a glob"):
        check_patterns(rule(args={"x": {"matches": pattern}}))


@pytest.mark.parametrize("pattern", ["*.env", "**/x", "?x", "*.[ch]", r"(a|b)+$", "^/etc/", "(?i)key", "a*", "ключ"])
def test_other_patterns_are_taken(pattern: str) -> None:
    check_patterns(rule(args={"x": {"matches": pattern}}))


@pytest.mark.parametrize("pattern", [r"(a+)+$", r"(a|a)*b", r"(.*)*x", r"^(\w+\s?)*$", "*a*a*a*a*a*a*a*a*b"])
def test_no_text_makes_a_pattern_take_long(pattern: str) -> None:
    for text in ("a" * MAX_SEARCHED, "a!" * (MAX_SEARCHED // 2)):
        holds({"matches": pattern}, text)  # one that backtracks does not come back


def test_a_glob_is_what_its_signs_say_and_nothing_else() -> None:
    for sign in r"\.+()|{}^$&~-#/ é":
        assert fits(kind=CALL._replace(tool=f"a{sign}b"), tool=f"a{sign}b")
        assert not fits(kind=CALL._replace(tool="aXb"), tool=f"a{sign}b")
    for glob, name in (("[a&&b]", "&"), ("[]]", "]"), ("[!]]", "x"), ("[a-]", "-"), ("[", "["), ("[z-a]", "z")):
        assert fits(kind=CALL._replace(tool=name), tool=glob), glob


def test_many_kinds_of_calls_are_not_all_remembered() -> None:
    policy = Policy([rule(tool="t7*")])
    found = [policy.rule_for(CALL._replace(tool=f"t{n}"), {}) for n in range(3_000)]
    assert sum(each is not None for each in found) == 1 + 10 + 100
    assert len(policy._about) <= 1_024


def test_a_rule_is_written_and_read_as_the_same() -> None:
    made = rule(args={"a.b": {"one_of": ["x", None, {"y": None}], "above": 3}}, approvers=["ann", "key"], expires_s=60)
    assert ApprovalRule.model_validate(json.loads(made.to_json())) == made
