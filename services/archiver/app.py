"""The archiver's composition root."""

from pentad.contracts.streams import ARCHIVE
from pentad.services.archiver.handlers import Archiving
from pentad.shared.records import Records
from pentad.shared.service.consuming import EntryService
from pentad.shared.settings import Settings

_SLOTS = 16


class Archiver(EntryService):
    """Writes finished tasks to the record store and removes them from Redis."""

    name = "archiver"
    check = "archiving"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        records, grace_ms = Records(settings.records_url), round(settings.pentad_grace_s * 1000)
        archiving = Archiving(self.store, records, grace_ms, settings.session_ttl_s)
        self.serve_entries(ARCHIVE, archiving.handle, _SLOTS)


def build(settings: Settings) -> Archiver:
    """The archiver, ready to start."""
    return Archiver(settings)
