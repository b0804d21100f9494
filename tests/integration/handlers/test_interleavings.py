"""Random interleavings of the services' own handlers and scripts, with kills and lost replies, keep every promise.

The same runs with a rule of the scheme dropped break one: the checks can see. The long form is
``python -m tests.support.interleave --seeds 4000``.
"""

import logging
import re
from collections.abc import Iterator

import pytest

from tests.support.interleave.rule import Rule, Stress
from tests.support.interleave.rules import NOTHING_DROPPED, RULES
from tests.support.interleave.server import Server, virtual_scripts
from tests.support.interleave.world import run

SEEDS = range(16)
_NAMES = re.compile(r"(task|call)-0-[0-9a-f]+")
"""Ids are not the seed's choice."""


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


@pytest.mark.parametrize("stress", ["redrive", "timeout", "move"])
def test_what_is_set_aside_moved_or_never_answered_comes_to_one_end(server: Server, stress: Stress) -> None:
    """Dead letters are redriven by several operators who are killed in between; calls wait for their time limit."""
    for seed in range(6):
        assert run(server, seed, NOTHING_DROPPED[stress]) == [], f"seed {seed}"


@pytest.mark.parametrize("policy", ["queue", "interrupt"])
def test_messages_that_queue_or_interrupt_are_each_answered_in_order(server: Server, policy: Stress) -> None:
    for seed in range(8):
        assert run(server, seed, NOTHING_DROPPED[policy]) == [], f"seed {seed}"


@pytest.mark.parametrize("stress", ["life", "moving-life"])
def test_what_asks_and_what_is_paused_goes_on_where_it_was(server: Server, stress: Stress) -> None:
    """Tasks ask their users and say that they are done; users pause and resume them, twice and in the wrong order."""
    for seed in range(8):
        assert run(server, seed, NOTHING_DROPPED[stress]) == [], f"seed {seed}"


def test_no_more_are_active_than_may_be_and_who_waits_starts_in_order(server: Server) -> None:
    """One or two tasks of a session, two or three of the tenant; they ask, are paused and cancelled meanwhile."""
    for seed in range(8):
        assert run(server, seed, NOTHING_DROPPED["limits"]) == [], f"seed {seed}"


def test_a_graph_runs_each_node_once_whatever_is_killed_paused_or_cancelled(server: Server) -> None:
    """With branches, items, a graph in the graph, a judged edge, a question, and messages meanwhile."""
    for seed in range(8):
        assert run(server, seed, NOTHING_DROPPED["graphs"]) == [], f"seed {seed}"


@pytest.mark.parametrize("rule", RULES.values())
def test_each_rule_stands_in_its_script(rule: Rule) -> None:
    """Also those that only the long form drops."""
    assert virtual_scripts(rule)


@pytest.mark.slow
@pytest.mark.parametrize("rule", [rule for rule in RULES.values() if rule.seeds and not rule.rare])
def test_a_dropped_rule_is_noticed(server: Server, rule: Rule) -> None:
    seeds = range(rule.first, rule.first + rule.seeds)
    assert any(run(server, seed, rule) for seed in seeds), f"{rule.seeds} seeds did not miss it"


def test_a_seed_is_the_same_run_again(server: Server) -> None:
    rule = RULES["message_id_guard"]
    once, again = ([_NAMES.sub("", p) for p in run(server, 3, rule)] for _ in range(2))
    assert once == again
