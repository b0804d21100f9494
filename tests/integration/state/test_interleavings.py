"""Random interleavings of the services' own handlers and scripts, with kills and lost replies, keep every promise.

The same runs with a rule of the scheme dropped break one: the checks can see. The long form is
``python -m tests.support.interleave --seeds 4000``.
"""

import logging
from collections.abc import Iterator

import pytest

from tests.support.interleave.rules import RULES, Rule
from tests.support.interleave.server import Server
from tests.support.interleave.world import run

SEEDS = range(16)


@pytest.fixture
def server(server_url: str) -> Iterator[Server]:
    logging.disable(logging.CRITICAL)  # a run is a thousand warnings about what it does to itself
    server = Server(server_url)
    yield server
    server.close()
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("first", SEEDS[::8])
def test_nothing_is_lost_doubled_reordered_or_stuck(server: Server, first: int) -> None:
    for seed in range(first, first + 8):
        assert run(server, seed) == [], f"seed {seed}"


@pytest.mark.parametrize("rule", [rule for rule in RULES.values() if rule.seeds])
def test_a_dropped_rule_is_noticed(server: Server, rule: Rule) -> None:
    seeds = range(rule.first, rule.first + rule.seeds)
    assert any(run(server, seed, rule) for seed in seeds), f"{rule.seeds} seeds did not miss it"


def test_a_seed_is_the_same_run_again(server: Server) -> None:
    rule = RULES["message_id_guard"]
    assert [p.split("sent")[0] for p in run(server, 3, rule)] == [p.split("sent")[0] for p in run(server, 3, rule)]
