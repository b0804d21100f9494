"""Which store of vectors a process uses: a server where one is set, else the embedded one that an archiver has open."""

from pentad.shared.memory.archiver_vectors import ArchiverVectors
from pentad.shared.memory.child_vectors import ChildVectors
from pentad.shared.settings import Settings
from pentad.shared.store.store import Store
from pentad.shared.vectors.qdrant_vectors import QdrantVectors
from pentad.shared.vectors.vector_store import Vectors


def vectors_of(settings: Settings, store: Store) -> Vectors:
    """The memory as any service reaches it. Nothing is opened before the first call."""
    return server_vectors(settings) or ArchiverVectors(store)


def server_vectors(settings: Settings) -> QdrantVectors | None:
    """The server that is set. Raises ``SettingsError`` for what is no address."""
    if settings.qdrant_url is None:
        return None
    key = settings.qdrant_api_key
    return QdrantVectors(settings.qdrant_url, key.get_secret_value() if key else None)


def embedded_vectors(settings: Settings) -> ChildVectors:
    """The memory in the data directory: for archivers, of which one at a time has it open."""
    return ChildVectors(settings.pentad_data_dir.absolute() / "memory" / "vectors")
