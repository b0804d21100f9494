"""An archiver for a process of its own, which behaves as the file ``play`` says and tells what it was started with.

Beside what `Fake` plays: ``archiver lie`` (it tells its parent no JSON), ``archiver shout`` (a line without an end).
"""

import json
import logging
import os
import sys
import threading
from collections.abc import Mapping

from pentad.shared import metrics
from pentad.shared.settings import Settings
from tests.integration.service.system import Fake

log = logging.getLogger("pentad.services.archiver.played")

_TOLD = {"archiver lie": b"no json\n", "archiver shout": b"x" * (9 << 20)}


class PlayedArchiver(Fake):
    """Counts each of its starts, and logs it in its loop and in a thread."""

    def __init__(self, settings: Settings) -> None:
        super().__init__("archiver", settings)
        self._key = settings.llm_api_key

    async def start(self) -> None:
        await super().start()
        metrics.archived.labels("played").inc()
        metrics.remember_seconds.labels().observe(2.0)
        metrics.memory_points.labels().set(7)
        log.info("it has begun")
        try:
            raise ValueError("on purpose")
        except ValueError:
            log.exception("it failed")
        speaking = threading.Thread(target=log.warning, args=("said in a thread",))
        speaking.start()
        speaking.join()

    async def stop(self) -> None:
        metrics.archived.labels("stopped").inc()
        await super().stop()

    def notes(self) -> Mapping[str, str]:
        return {
            "key": self._key.get_secret_value() if self._key else "",
            "seen": json.dumps({name: os.environ.get(name) for name in ("MY_SECRET", "PENTAD_ADMIN_KEY")}),
            "folder": os.getcwd(),
        }


def build(settings: Settings) -> PlayedArchiver:
    """The archiver, or a child that breaks the rules of its connection."""
    play = settings.pentad_data_dir / "play"
    told = _TOLD.get(play.read_text().strip()) if play.exists() else None
    if told is not None:
        connection, rest = json.loads(sys.argv[1])["socket_fd"], memoryview(told)
        os.set_blocking(connection, True)
        while rest:
            rest = rest[os.write(connection, rest) :]
    return PlayedArchiver(settings)
