"""Checks an answer against its schema in a process of its own, whose time and memory the kernel bounds.

A process is started for each check: that costs about 60 ms of processor time, so only large answers, and schemas
whose cost is unknown beforehand, are checked this way. The process reads one order from its standard input and
writes one verdict.
"""

import asyncio
import os
import resource
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic_core import from_json, to_json

from pentad.shared.errors import OutageError
from pentad.shared.instructions.schema_check import SchemaCheck, WrongOutput
from pentad.shared.json_schema import WrongSchema
from pentad.shared.settings import tool_environment

CPU_S = 2
"""Seconds of processor time that a check may take."""
_MAX_WALL_S = 20.0
"""Seconds that a check may take on a machine that has no time for it."""
_MAX_MEMORY = 1 << 30
"""Bytes of address space that a check may use."""
_MAX_PROCESSES = 2
"""Processes that one service may run at a time."""
_OUT_OF_MEMORY = 3
"""The exit code of a process that ran out of memory in Python; in the checker itself, a signal ends it."""
_MAX_STDERR_BYTES = 2_000
_MODULE = "pentad.shared.instructions.schema_process"
_TOO_LONG = (
    f"a check against output_schema was ended after {CPU_S} s or at {_MAX_MEMORY >> 20} MiB: make the schema simpler "
    "(fewer alternatives of anyOf or oneOf within each other, fewer references to itself, shorter patterns)"
)


async def check_off_loop(schema: Mapping[str, Any], text: str | None) -> str:
    """Run `check_in_process` for an event loop: two at once, and others wait."""
    return await asyncio.get_running_loop().run_in_executor(_threads(), check_in_process, schema, text)


def check_in_process(schema: Mapping[str, Any], text: str | None) -> str:
    """Return the value of the answer that fits, as JSON. With None as text only the schema is tried, and the result
    is ''.

    Raises ``WrongOutput``, ``WrongSchema`` and ``OutageError``.
    """
    order = to_json(
        {"schema": to_json(schema).decode(), "text": None if text is None else text.encode("utf-8", "replace").decode()}
    )
    try:
        ended = subprocess.run(
            [sys.executable, "-m", _MODULE],
            env=tool_environment(),  # whoever looks into it finds no key there
            input=order,
            capture_output=True,
            cwd=Path(__file__).parents[3],  # we are found there wherever the service runs
            timeout=_MAX_WALL_S,
            check=False,
            process_group=0,  # the terminal's Ctrl-C is the service's to handle
        )
    except subprocess.TimeoutExpired:
        raise WrongSchema(_TOO_LONG) from None
    except OSError as error:
        raise OutageError(f"no process can be started that checks an answer: {error}") from None
    if ended.returncode < 0 or ended.returncode == _OUT_OF_MEMORY:
        raise WrongSchema(_TOO_LONG)
    if ended.returncode:
        raise RuntimeError(
            f"the check of an answer has failed: {ended.stderr[-_MAX_STDERR_BYTES:].decode(errors='replace')}"
        )
    verdict = from_json(ended.stdout)
    if "output" in verdict:
        raise WrongOutput(verdict["output"])
    if "schema" in verdict:
        raise WrongSchema(verdict["schema"])
    return str(verdict["fits"])


@lru_cache(maxsize=1)
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_MAX_PROCESSES, thread_name_prefix="schema-check")


def _verdict(order: Mapping[str, Any]) -> dict[str, str]:
    try:
        check = SchemaCheck(from_json(order["schema"]))
        if order["text"] is None:
            check.probe()
            return {"fits": ""}
        return {"fits": check.fitting(order["text"])}
    except WrongOutput as error:
        return {"output": str(error)}
    except WrongSchema as error:
        return {"schema": str(error)}


def main() -> None:
    """Carry out the order from standard input; the kernel ends a process that takes too much."""
    os.nice(5)
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_AS, (_MAX_MEMORY, _MAX_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        sys.stdout.buffer.write(to_json(_verdict(from_json(sys.stdin.buffer.read()))))
    except MemoryError:
        sys.exit(_OUT_OF_MEMORY)


if __name__ == "__main__":
    main()
