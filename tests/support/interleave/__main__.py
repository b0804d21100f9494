"""The long form: ``python -m tests.support.interleave --seeds 4000 [--stress KIND | --rule NAME | --rules]``.

Prints each seed that is wrong, or for each dropped rule the share of seeds that noticed.
"""

import argparse
import logging
import sys
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from time import perf_counter

from tests.support.interleave.rule import STRESSES, Rule
from tests.support.interleave.rules import NOTHING_DROPPED, RULES
from tests.support.interleave.server import Server
from tests.support.interleave.world import run
from tests.support.redis.redis_server import RedisServer

_SLICE = 50


def _some(first: int, count: int, rule: Rule) -> list[tuple[int, list[str]]]:
    """Run these seeds on a server of their own; returns those that were wrong."""
    logging.disable(logging.CRITICAL)
    with RedisServer() as redis:
        server = Server(redis.url)
        found = [(seed, run(server, seed, rule)) for seed in range(first, first + count)]
        server.close()
    return [(seed, problems) for seed, problems in found if problems]


def _report(pool: ProcessPoolExecutor, first: int, seeds: int, rule: Rule) -> int:
    begun, wrong = perf_counter(), []
    starts = range(first, first + seeds, _SLICE)
    for found in pool.map(_some, starts, (min(_SLICE, first + seeds - s) for s in starts), repeat(rule)):
        wrong += found
        if not rule.broken:
            for seed, problems in found:
                print(f"seed {seed}: {problems[:3]}", flush=True)
    name = f"without {rule.name}" if rule.broken else rule.name
    seen = f", first seed {wrong[0][0]}" if wrong else ""
    print(f"{name}: {len(wrong)} of {seeds} runs wrong{seen}, {perf_counter() - begun:.0f} s", flush=True)
    return len(wrong)


def main() -> int:
    """Exit code 1 when the scheme as it is breaks a promise, or a dropped rule is not noticed."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.interleave")
    parser.add_argument("--seeds", type=int, default=400)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--stress", choices=STRESSES, default="all", help="what is disturbed most")
    parser.add_argument("--rule", choices=sorted(RULES))
    parser.add_argument("--rules", action="store_true", help="drop each rule in turn")
    parser.add_argument("--processes", type=int, default=2)
    chosen = parser.parse_args()
    with ProcessPoolExecutor(chosen.processes) as pool:
        if not chosen.rules:
            rule = RULES[chosen.rule] if chosen.rule else NOTHING_DROPPED[chosen.stress]
            wrong = _report(pool, chosen.first, chosen.seeds, rule)
            return int((wrong == 0) if chosen.rule else (wrong > 0))
        counts = {name: _report(pool, chosen.first, chosen.seeds, rule) for name, rule in RULES.items()}
    return int(any(RULES[name].seeds and not count for name, count in counts.items()))


if __name__ == "__main__":
    sys.exit(main())
