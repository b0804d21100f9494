"""``pentad records index``: lists find what was archived by versions that entered nothing beside a record."""

import argparse
import asyncio
from collections import Counter
from typing import Any

from pentad.cli.gateway import run as run_async
from pentad.cli.gateway import streams
from pentad.cli.render import plural
from pentad.shared.errors import DamagedError
from pentad.shared.settings import Settings

_RECORDS_PER_READ = 16
"""Records that are read together."""


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Enter every record, also beside services that run; what is entered stays. Raises ``PentadError``."""
    return run_async(_index(settings))


async def _index(settings: Settings) -> int:
    from pentad.shared.memory.statements import is_statement
    from pentad.shared.records.record_store import Records

    records, out = Records(settings.records_url), streams()[0]
    for tenant in await records.tenants():
        names = [name for name in await records.names(tenant) if not is_statement(name)]
        done: Counter[str] = Counter()
        for begin in range(0, len(names), _RECORDS_PER_READ):
            done.update(
                await asyncio.gather(
                    *(_enter(records, tenant, name) for name in names[begin : begin + _RECORDS_PER_READ])
                )
            )
        out.write(f"{tenant}: lists find {plural(done['found'], 'record')}\n")
        if done["unreadable"]:
            out.write(
                f"{tenant}: {plural(done['unreadable'], 'record')} cannot be read, or says no time: not in lists\n"
            )
    return 0


async def _enter(records: Any, tenant: str, name: str) -> str:
    try:
        record = await records.read(tenant, name)
        if record is None:
            return "gone"
        entered = await records.enter(record)
        if await records.read(tenant, name) is None:  # erased meanwhile
            await records.remove(tenant, name, record)
            return "gone"
    except DamagedError:
        return "unreadable"
    return "found" if entered else "unreadable"
