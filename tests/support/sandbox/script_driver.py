"""A process that runs scripts for a test: a request a line on standard input, what came of it a line on output.

So a sandbox can be tried as another user, and within limits that the test's own process must not have.
"""

import asyncio
import json
import sys
from dataclasses import asdict
from typing import Any

from pentad.shared.sandbox.limits import ScriptLimits
from pentad.shared.sandbox.sandbox import Sandbox
from tests.support.sandbox.restricted_pod import restrict_like_a_pod


async def _serve(options: dict[str, Any]) -> None:
    limits = ScriptLimits(**options.get("limits", {}))
    sandbox = Sandbox(limits, landlock_at_most=options.get("landlock"), bubblewrap=options.get("bubblewrap"))
    try:
        confining = await sandbox.prove()
        _say({"words": confining.words})
        while line := await asyncio.to_thread(sys.stdin.readline):
            asked = json.loads(line)
            end = await sandbox.run(asked["code"], asked["args"])
            told = asdict(end)
            told["files"] = [[file.name, file.size, file.data is not None] for file in end.files]
            _say(told)
    finally:
        await sandbox.aclose()


def _say(told: dict[str, Any]) -> None:
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    if given.get("restricted"):
        restrict_like_a_pod()
    asyncio.run(_serve(given))
