"""What all processes on one Redis must agree on. Data that was made with another number of shards is refused."""

from pentad.shared.errors import SettingsError
from pentad.shared.keys import CLUSTER
from pentad.shared.store.store import Store, guarded


async def agree(store: Store, shards: int) -> None:
    """Write the number of shards down, or compare it. Raises ``SettingsError`` when it differs."""
    await guarded("shards", store.call, "HSETNX", CLUSTER, "shards", shards)
    found = int(await guarded("shards", store.call, "HGET", CLUSTER, "shards"))
    if found != shards:
        raise SettingsError(
            f"PENTAD_SHARDS is {shards}, but the data in Redis was made with {found}: set it to {found}"
        )
