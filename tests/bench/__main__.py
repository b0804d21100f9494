"""``make bench`` (``python -m tests.bench``): the promised figures, each beside the floor of the same run.

Exit 1 with ``--gate`` when a promise is not kept, twice in a row.
"""

import argparse
import asyncio
import importlib
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from tests.bench.common import Effort, Row, table

SUBJECTS = ("bus", "tools", "turn", "history", "relay", "routing", "memory", "graphs", "faces", "start")


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--only", choices=SUBJECTS, action="append", help="just this subject; may be repeated")
    parser.add_argument("--short", action="store_true", help="fewer and shorter rounds, under 40 s in all")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--gate", action="store_true", help="exit 1 when a promise is not kept")
    return parser.parse_args(argv)


async def _measure(subjects: Sequence[str], effort: Effort, gate: bool) -> list[Row]:
    """A subject that misses a promise is measured once more when it is to be a gate: the machine may have been busy."""
    rows: list[Row] = []
    for name in subjects:
        found = await _one(name, effort)
        if gate and any(row.kept is False for row in found):
            found = await _one(name, effort)
        rows += found
    return rows


async def _one(name: str, effort: Effort) -> list[Row]:
    begun, others = time.monotonic(), os.getloadavg()[0]
    subject = importlib.import_module(f"tests.bench.{name}")
    rows: list[Row] = await subject.run(effort)
    print(f"{name}: {time.monotonic() - begun:.0f} s; load before it {others:.1f}", file=sys.stderr, flush=True)
    return rows


def main(argv: Sequence[str]) -> int:
    """Measure, print the table; returns the exit code."""
    options = _options(argv)
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        rows = runner.run(_measure(options.only or SUBJECTS, Effort(options.short), options.gate))
    print(table(rows))
    if options.json is not None:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    missed = [row.name for row in rows if row.kept is False]
    if missed:
        print(f"not kept: {'; '.join(missed)}", file=sys.stderr)
    return 1 if missed and options.gate else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
