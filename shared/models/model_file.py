"""The file of models, `PENTAD_MODELS`."""

from pathlib import Path

from pentad.contracts.models import ModelEntry
from pentad.shared.entry_file import EntryFile
from pentad.shared.models.model_list import check_file

_FILE = EntryFile("PENTAD_MODELS", "models", ModelEntry, "id", check_file, 1 << 20)


def read_model_file(path: Path) -> tuple[ModelEntry, ...]:
    """The models of a file, in its order. Raises ``SettingsError`` that names the place of each mistake."""
    return _FILE.read(path)
