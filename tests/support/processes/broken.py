"""A service that breaks one law on purpose, to show that the kill test notices.

``python -m tests.support.processes.broken RULE NAME [--port N]``
"""

import importlib
import sys
from collections.abc import Callable
from typing import Any

from pentad.shared.service.run import main_of
from pentad.shared.store.script import Script
from pentad.shared.store.store import Store
from pentad.shared.work.consumer import Consumer
from pentad.shared.work.entry import Entry
from tests.support.processes.system import MODULES


def acknowledge_first() -> None:
    """Acknowledge an entry before it is handled (law 2)."""
    handle = Consumer._once

    async def once(self: Consumer, entry: Entry) -> bool:
        await self.store.call("XACK", self.key, self.group, entry.id)
        return await handle(self, entry)

    Consumer._once = once  # type: ignore[method-assign]


def run_unsafe_again() -> None:
    """Start an unsafe call that had started (law 10)."""
    _patch_script("call_start", "if owner and ARGV[3] == 'unsafe' then return {'unknown', starts} end", "")


def _patch_script(name: str, old: str, new: str) -> None:
    made: Callable[..., None] = Store.__init__

    def init(self: Store, *args: Any, **kwargs: Any) -> None:
        made(self, *args, **kwargs)
        body = self.scripts[name].body
        assert old in body
        self.scripts = {**self.scripts, name: Script(name, body.replace(old, new))}

    Store.__init__ = init  # type: ignore[method-assign]


RULES = {"acknowledge-first": ("task-runner", acknowledge_first), "run-unsafe-again": ("tool-worker", run_unsafe_again)}
"""Service and function of each rule that breaks a law; the other services keep it."""

if __name__ == "__main__":
    _, rule, name, *arguments = sys.argv
    breaker, break_it = RULES[rule]
    if name == breaker:
        break_it()
    module = importlib.import_module(f"{MODULES[name]}.app")
    raise SystemExit(main_of(name, arguments, module.build))  # type: ignore[arg-type]
