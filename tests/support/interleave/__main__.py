"""The long form: ``python -m tests.support.interleave --seeds 4000 [--rule NAME | --rules]``.

Prints each seed that is wrong, or for each dropped rule the share of seeds that noticed.
"""

import argparse
import logging
import sys
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from time import perf_counter

from tests.support.interleave.rules import RULES
from tests.support.interleave.server import Server
from tests.support.interleave.world import run
from tests.support.redis_server import RedisServer

_SLICE = 50


def _some(first: int, count: int, rule: str | None) -> list[tuple[int, list[str]]]:
    """Run these seeds on a server of their own; returns those that were wrong."""
    logging.disable(logging.CRITICAL)
    with RedisServer() as redis:
        server = Server(redis.url)
        found = [(seed, run(server, seed, RULES[rule] if rule else None)) for seed in range(first, first + count)]
        server.close()
    return [(seed, problems) for seed, problems in found if problems]


def _report(pool: ProcessPoolExecutor, first: int, seeds: int, rule: str | None) -> int:
    begun, wrong = perf_counter(), []
    starts = range(first, first + seeds, _SLICE)
    for found in pool.map(_some, starts, (min(_SLICE, first + seeds - s) for s in starts), repeat(rule)):
        wrong += found
        if rule is None:
            for seed, problems in found:
                print(f"seed {seed}: {problems[:3]}", flush=True)
    name = f"without {rule}" if rule else "as designed"
    print(f"{name}: {len(wrong)} of {seeds} runs wrong, {perf_counter() - begun:.0f} s", flush=True)
    return len(wrong)


def main() -> int:
    """Exit code 1 when the scheme as it is breaks a promise, or a dropped rule is not noticed."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.interleave")
    parser.add_argument("--seeds", type=int, default=400)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--rule", choices=sorted(RULES))
    parser.add_argument("--rules", action="store_true", help="drop each rule in turn")
    parser.add_argument("--processes", type=int, default=2)
    chosen = parser.parse_args()
    with ProcessPoolExecutor(chosen.processes) as pool:
        if not chosen.rules:
            wrong = _report(pool, chosen.first, chosen.seeds, chosen.rule)
            return int((wrong == 0) if chosen.rule else (wrong > 0))
        counts = {name: _report(pool, chosen.first, chosen.seeds, name) for name in RULES}
    return int(any(RULES[name].seeds and not count for name, count in counts.items()))


if __name__ == "__main__":
    sys.exit(main())
