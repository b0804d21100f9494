"""Where a turn's CPU goes: each service under a sampling profiler, beside the load of the turn's bench.

``python -m tests.bench.profile_service [--clients N] [--turns N]`` runs six services and prints, for each, its dearest
functions in µs a turn: by themselves, and with all that they call. A sample is taken per tick of the process's CPU
clock (4 ms on most kernels), so waiting costs nothing and C code counts for the Python line that called it.
"""

import argparse
import asyncio
import json
import runpy
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

from tests.bench.common import Cpu
from tests.bench.conversation import SocketClient, have_turns
from tests.bench.processes import model
from tests.support.processes.system import MODULES, ROOT, System
from tests.support.redis.redis_server import RedisServer

_TICK_S = 0.001
_SHOWN = 28
_DEEP = 80

Place = tuple[str, str, int]
"""File, function, line."""


class Sampler:
    """Counts where the main thread is, by its own CPU clock."""

    def __init__(self) -> None:
        self.own: Counter[Place] = Counter()
        self.whole: Counter[Place] = Counter()
        self.lines: Counter[Place] = Counter()
        self.samples = 0

    def start(self) -> None:
        """Sample from here on."""
        signal.signal(signal.SIGPROF, self._sample)
        signal.setitimer(signal.ITIMER_PROF, _TICK_S, _TICK_S)

    def clear(self, *_: object) -> None:
        """Forget what was seen: the warm-up is over."""
        for counter in (self.own, self.whole, self.lines):
            counter.clear()
        self.samples = 0

    def _sample(self, _number: int, frame: FrameType | None) -> None:
        self.samples += 1
        seen: set[Place] = set()
        if frame is not None:
            code = frame.f_code
            self.own[code.co_filename, code.co_qualname, code.co_firstlineno] += 1
        for _ in range(_DEEP):
            if frame is None:
                break
            code = frame.f_code
            place = (code.co_filename, code.co_qualname, code.co_firstlineno)
            if place not in seen:
                seen.add(place)
                self.whole[place] += 1
                self.lines[code.co_filename, code.co_qualname, frame.f_lineno] += 1
            frame = frame.f_back

    def write(self, name: str) -> None:
        """Leave the result in the working directory."""
        found = {"samples": self.samples}
        for kind in ("own", "whole", "lines"):
            found[kind] = [[*place, n] for place, n in getattr(self, kind).most_common(400)]  # type: ignore[assignment]
        Path(f"profile-{name}.json").write_text(json.dumps(found))


def _serve(name: str, argv: list[str]) -> None:
    sampler = Sampler()
    signal.signal(signal.SIGUSR2, sampler.clear)
    sampler.start()
    sys.argv = [name, *argv]
    try:
        runpy.run_module(MODULES[name], run_name="__main__")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        sampler.write(name)


def _short(path: str) -> str:
    for mark in ("site-packages/", "python3.11/", "python3.12/", "python3.13/"):
        path = path.rpartition(mark)[2]
    return path.removeprefix(f"{ROOT}/").removeprefix("pentad/")


def _package(path: str) -> str:
    parts = _short(path).split("/")
    return "/".join(parts[:2]) if parts[0] in ("services", "shared") else parts[0].removesuffix(".py")


def _list(title: str, rows: list[list[object]], per_sample: float, only_ours: bool = False) -> None:
    print(f"  {title}")
    ours = ("services/", "shared/", "contracts/")
    kept = [row for row in rows if not only_ours or _short(str(row[0])).startswith(ours)]
    for path, function, line, count in kept[:_SHOWN]:
        print(f"    {float(str(count)) * per_sample:7.0f} us  {_short(str(path))}:{line} {function}")


def _show(name: str, found: dict[str, list[list[object]]], cpu_ms: float) -> None:
    samples = max(1, int(str(found["samples"])))
    per_sample = cpu_ms * 1000 / samples
    print(f"\n{name}: {cpu_ms:.2f} ms a turn ({samples} samples)")
    packages: Counter[str] = Counter()
    for path, _, _, count in found["own"]:
        packages[_package(str(path))] += int(str(count))
    print("  " + ", ".join(f"{p} {n * per_sample:.0f}" for p, n in packages.most_common(14)))
    _list("by themselves", found["own"], per_sample)
    _list("with what they call, ours only", found["whole"], per_sample, only_ours=True)
    _list("lines, ours only", found["lines"], per_sample, only_ours=True)


async def _profile(clients: int, turns: int, names: list[str]) -> None:
    with TemporaryDirectory(prefix="pentad-profile-") as directory:
        async with model("--turn") as (_, model_url), RedisServer(aof="everysec") as redis:
            environment = {"LLM_BASE_URL": model_url, "LLM_MODEL_ID": "scripted"}
            launcher = ("-m", "tests.bench.profile_service")
            system = System(redis.url, Path(directory), environment=environment, launcher=launcher, warm=False)
            async with system:
                url = system.named("gateway")[0].url
                await have_turns(lambda: SocketClient(url), clients, 20)
                pids = {p.name: p.running.pid for p in system.processes if p.running is not None}
                for process in system.processes:
                    assert process.running is not None
                    process.running.send_signal(signal.SIGUSR2)
                watch, begun = Cpu({name: [pid] for name, pid in pids.items()}), time.perf_counter()
                spent = await have_turns(lambda: SocketClient(url), clients, turns // clients)
                cpu, wall = watch.spent(), time.perf_counter() - begun
            print(f"{len(spent)} turns by {clients} clients, {len(spent) / wall:.0f}/s under the profiler")
            for name in names:
                found = json.loads((Path(directory) / f"profile-{name}.json").read_text())
                _show(name, found, cpu[name] / len(spent) * 1e3)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.profile_service", description=__doc__)
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--turns", type=int, default=600)
    parser.add_argument("--only", choices=tuple(MODULES), action="append")
    return parser.parse_args()


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] in MODULES:
        _serve(sys.argv[1], sys.argv[2:])
    else:
        import uvloop

        options = _options()
        names = options.only or ["gateway", "router", "task-runner", "tool-worker"]
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_profile(options.clients, options.turns, names))
