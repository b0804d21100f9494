"""The users of Redis that an operator installs are made from the registry of streams and the names of keys."""

from fnmatch import fnmatchcase

import pytest

from pentad.contracts.streams import SERVICES
from pentad.shared import keys
from tests.support.documents.redis_users import OPERATOR, PATH, service_users, text

USERS = service_users("pw")
NAMES = {
    name: value
    for name, value in vars(keys).items()
    if name.isupper() and isinstance(value, str) and "pentad:" in value and name != "PREFIX"
}
"""Every key, or beginning of keys, outside of shards."""


def _may(user: str, key: str, *, write: bool) -> bool:
    """As Redis compares, but for the braces: there are no others than ours."""
    marks = ("~",) if write else ("~", "%R~")
    patterns = [rule.removeprefix(mark) for rule in USERS[user] for mark in marks if rule.startswith(mark)]
    return any(fnmatchcase(key, pattern) for pattern in patterns)


def test_the_file_is_todays() -> None:
    assert PATH.read_text() == text(), "run: python -m tests.support.documents.redis_users"
    assert set(USERS) == {*SERVICES, OPERATOR}


@pytest.mark.parametrize("name", NAMES)
def test_a_key_outside_of_shards_is_some_services(name: str) -> None:
    if NAMES[name] == keys.NEW_INBOUND:  # made by `pentad inbound renew`, which is the operator's
        assert _may(OPERATOR, NAMES[name], write=True)
    else:
        assert any(_may(service, NAMES[name], write=True) for service in SERVICES)


@pytest.mark.parametrize("key", [keys.MODELS_REGISTRY, keys.INSTRUCTIONS_REGISTRY])
def test_the_gateway_alone_writes_what_operators_register(key: str) -> None:
    assert [user for user in USERS if _may(user, key, write=True)] == ["gateway", OPERATOR]


OTHERS = ["pentad:inbound", "pentad:dead", "pentad:{0}:erase", "pentad:{0}:archive", "pentad:{0}:wake:session"]
OTHERS += ["pentad:{0}:session:t:s", "pentad:{0}:seen:t:s:m", "pentad:{0}:timers", "pentad:{0}:load"]


@pytest.mark.parametrize("key", [*OTHERS, "pentad:{0}:vector:d"])
def test_the_tool_worker_does_not_even_read_what_is_others(key: str) -> None:
    assert not _may("tool-worker", key, write=False)


@pytest.mark.parametrize("user", USERS)
def test_no_user_has_more_commands_than_it_needs_or_tells_passwords(user: str) -> None:
    commands = [rule for rule in USERS[user] if rule[0] in "+-"]
    assert commands[:1] == ["-@all"]
    assert {"-@dangerous", "-@scripting"} < set(commands)
    assert not any("config" in rule for rule in commands) or user == OPERATOR, "CONFIG GET tells the default password"
