"""Approval policies of a file, which operators write beside their settings."""

import json
from pathlib import Path

import pytest

from pentad.contracts.approvals import MAX_RULES
from pentad.shared.errors import SettingsError
from pentad.shared.policies.policy_list import configured_policies
from pentad.shared.settings import Settings, load_settings

TOML = """
[[policies]]
name = "no-secrets"
tool = "read_*"
args.path.matches = "*.env"
then = "deny"

[[policies]]
name = "dear"
args = { amount = { above = 100 } }
then = "ask"
approvers = ["ann", "key"]
"""


def settings(path: Path) -> Settings:
    return load_settings({"PENTAD_POLICIES": str(path)})


def listed(*rows: object) -> str:
    return json.dumps({"policies": rows})


def test_without_the_setting_there_are_none() -> None:
    assert configured_policies(load_settings({})) == ()


def test_toml_and_json_say_the_same(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text(TOML)
    read = configured_policies(settings(tmp_path / "p.toml"))
    assert [(each.name, each.then, each.approvers) for each in read] == [
        ("no-secrets", "deny", None),
        ("dear", "ask", ["ann", "key"]),
    ]
    (tmp_path / "p.json").write_text(listed(*(json.loads(each.to_json()) for each in read)))
    assert configured_policies(settings(tmp_path / "p.json")) == read


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[]", "must hold a list `policies`"),
        (listed({"then": "ask"}), "policies[0].name: Field required"),
        (listed({"name": "a", "then": "ask", "tol": "x"}), "policies[0] ('a').tol: Extra inputs"),
        (listed({"name": "a", "then": "ask"}, {"name": "a", "then": "deny"}), "policies[1] ('a').name: another policy"),
        (
            listed({"name": "a", "then": "deny", "args": {"x": {"matches": "(a|b"}}}),
            "policies[0] ('a').args.x.matches: it is neither a glob",
        ),
        (listed(*({"name": f"p{n}", "then": "ask"} for n in range(MAX_RULES + 1))), "1001 policies: at most 1000"),
        (listed(*({"name": f"p{n}", "then": "ask"} for n in range(10_000))), "10000 policies: at most 1000"),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path: Path, text: str, place: str) -> None:
    (tmp_path / "p.json").write_text(text)
    with pytest.raises(SettingsError) as refused:
        configured_policies(settings(tmp_path / "p.json"))
    said = str(refused.value)
    assert said.startswith(f"PENTAD_POLICIES is wrong: {tmp_path / 'p.json'}: ")
    assert place in said
