"""The tree keeps every rule, and every rule notices a breach."""

from pathlib import Path

import pytest

from tests.architecture.names import NAME_RULES, script_breaches
from tests.architecture.rules import RULES, Rule
from tests.architecture.source import PACKAGES, ROOT, Module, modules, scripts
from tests.architecture.words import WORD_RULES

ALL = {rule.__name__: rule for rule in (*RULES, *NAME_RULES, *WORD_RULES)}

PLANTED: list[tuple[str, str, str]] = [
    ("docstrings_stand_alone", "shared/words.py", '"""Of the mail that says so."""'),
    ("docstrings_stand_alone", "shared/words.py", '"""Sessions with unread messages"""'),
    ("docstrings_stand_alone", "shared/words.py", 'MAX_LETTERS = 3\n"""What is left behind is told."""'),
    ("constants_are_named_by_a_noun", "shared/words.py", "_AT_ONCE = 16"),
    ("constants_are_named_by_a_noun", "shared/words.py", "_MOST = 3"),
    ("contracts_use_pydantic_and_the_standard_library_only", "contracts/words.py", "import redis"),
    ("contracts_use_pydantic_and_the_standard_library_only", "contracts/words.py", "from yaml import safe_load"),
    (
        "contracts_use_pydantic_and_the_standard_library_only",
        "contracts/words.py",
        "def f():\n    import pentad.shared.errors",
    ),
    ("only_settings_read_the_environment", "shared/work/broker.py", "import os\nurl = os.environ['REDIS_URL']"),
    ("only_settings_read_the_environment", "pentad/cli/up.py", "import os\nurl = os.getenv('REDIS_URL')"),
    ("only_settings_read_the_environment", "shared/errors.py", "from os import environ as surroundings"),
    ("domain_imports_what_is_pure", "services/router/domain.py", "import time"),
    ("domain_imports_what_is_pure", "services/router/domain.py", "from uuid import uuid4"),
    ("domain_imports_what_is_pure", "services/router/domain.py", "from random import random"),
    ("domain_imports_what_is_pure", "services/router/domain/choice.py", "from pentad.shared.store.store import Store"),
    ("domain_imports_what_is_pure", "services/router/domain.py", "from pentad.services.router.handlers import Routing"),
    (
        "domain_imports_what_is_pure",
        "shared/recall/fusion.py",
        "from pentad.shared.models.model_makers import make_model",
    ),
    ("domain_has_no_clock_no_chance_and_no_effect", "shared/segments/anchors.py", "at = datetime.now(UTC)"),
    ("domain_has_no_clock_no_chance_and_no_effect", "services/router/domain.py", "at = datetime.now(UTC)"),
    ("domain_has_no_clock_no_chance_and_no_effect", "services/router/domain.py", "day = date.today()"),
    ("domain_has_no_clock_no_chance_and_no_effect", "services/router/domain.py", "text = open('notes').read()"),
    ("domain_has_no_clock_no_chance_and_no_effect", "services/router/domain.py", "async def decide() -> None: ..."),
    ("no_module_is_a_catch_all", "shared/utils.py", "X = 1"),
    ("no_module_is_a_catch_all", "services/router/helpers/text.py", "X = 1"),
    ("init_files_are_empty", "shared/plugins/__init__.py", "from pentad.shared.plugins.registry import tool"),
    ("init_files_are_empty", "contracts/__init__.py", '"""What is said."""'),
    ("names_are_not_exported_again", "shared/errors.py", "__all__ = ['Identifier']"),
    ("names_are_not_exported_again", "shared/errors.py", "from pentad.contracts.ids import Identifier as Identifier"),
    ("names_are_not_exported_again", "shared/errors.py", "from pentad.contracts.ids import *"),
    ("names_are_not_exported_again", "shared/errors.py", "def __getattr__(name): ..."),
    ("imports_are_absolute", "shared/work/broker.py", "from ..errors import PentadError"),
    ("keys_are_spelled_in_the_registry", "services/router/handlers.py", "KEY = 'pentad:inbound'"),
    ("keys_are_spelled_in_the_registry", "services/router/handlers.py", "key = f'pentad:{{{shard}}}:wake:task'"),
    ("keys_are_spelled_in_the_registry", "shared/inbound/ingress.py", "KEY = b'{pentad:inbound}:lease'"),
    ("groups_are_spelled_in_the_registry", "services/router/handlers.py", "call('XACK', key, 'router', entry)"),
    ("groups_are_spelled_in_the_registry", "shared/inbound/ingress.py", "mine = group['name'] == b'router'"),
    ("event_types_are_spelled_in_contracts", "pentad/cli/view.py", "over = event.type == 'task_end'"),
    ("error_codes_are_spelled_in_contracts", "pentad/cli/view.py", "gap = event.code == 'cursor_expired'"),
]


@pytest.mark.parametrize("rule", ALL.values(), ids=ALL)
def test_the_tree_keeps(rule: Rule) -> None:
    assert [breach for module in modules() for breach in rule(module)] == []


@pytest.mark.parametrize(("rule", "path", "text"), PLANTED)
def test_a_planted_breach_is_noticed(rule: str, path: str, text: str, tmp_path: Path) -> None:
    planted = tmp_path / path
    planted.parent.mkdir(parents=True)
    planted.write_text(text)
    (module,) = modules(tmp_path)
    assert [breach.partition(":")[0] for breach in ALL[rule](module)] == [path]


def test_every_rule_has_a_breach_that_proves_it() -> None:
    assert {rule for rule, _, _ in PLANTED} == set(ALL)


def test_what_is_for_readers_may_name_keys_and_types() -> None:
    module = Module(
        "shared/inbound/ingress.py", '"""Moves ``pentad:inbound``: see ``task_end``."""\nX = 1\n"""In pentad:dead."""'
    )
    assert [breach for rule in NAME_RULES for breach in rule(module)] == []


def test_rules_see_every_package() -> None:
    seen = {module.path.partition("/")[0] for module in modules()}
    assert seen == set(PACKAGES)
    assert all((ROOT / package / "__init__.py").is_file() for package in PACKAGES)


def test_scripts_spell_no_key_and_no_type() -> None:
    assert script_breaches(scripts()) == []


@pytest.mark.parametrize(
    "line", ["local key = 'pentad:dead'", "call('XADD', k, '*', 'data', '{\"type\":\"task_end\"}')"]
)
def test_a_planted_breach_in_a_script_is_noticed(line: str, tmp_path: Path) -> None:
    planted = tmp_path / "shared" / "store" / "scripts" / "post.lua"
    planted.parent.mkdir(parents=True)
    planted.write_text(f"-- KEYS pentad:inbound\n{line}\n")
    (breach,) = script_breaches(scripts(tmp_path))
    assert breach.startswith("shared/store/scripts/post.lua:2: spells ")
