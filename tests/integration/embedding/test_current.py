"""The embedding service asks the registry's default, and another one when that changes."""

from collections.abc import Sequence
from itertools import count
from pathlib import Path

import pytest

from pentad.contracts.commands import EmbedCommand
from pentad.contracts.models import ModelEntry
from pentad.contracts.streams import EMBED
from pentad.services.embedding.app import EmbeddingService
from pentad.services.embedding.current_model import WatchedEmbedding
from pentad.shared.errors import SettingsError
from pentad.shared.models.embeddings import HashingEmbedding
from pentad.shared.models.ports import ModelUnavailable
from pentad.shared.registries.registrations import REGISTERED_MODELS
from pentad.shared.settings import Settings
from pentad.shared.store.store import Store
from tests.support.models.model_server import ScriptedModel
from tests.support.models.replies import say
from tests.support.redis.bus_client import Bus
from tests.support.waiting import wait_until


async def answered_by(store: Store, bus: Bus, reply: str) -> str:
    """The name of the model that embeds now."""
    key = f"pentad:{{0}}:embed:reply:{reply}"
    command = EmbedCommand(
        event_id=reply, at=await store.now(), tenant_id="default", session_id="s", texts=["a text"], reply_to=key
    )
    await store.call("XADD", EMBED.key(0), "*", "data", command.to_json())
    return str((await bus.answer(key))["model"])


async def test_a_default_that_is_registered_embeds_what_comes_from_then_on(store: Store, tmp_path: Path) -> None:
    service = EmbeddingService(Settings.model_validate({"redis_url": store.url, "pentad_data_dir": tmp_path}))
    await service.start()
    try:
        async with ScriptedModel(lambda _: say("ok")) as server, Bus(store.url) as bus:
            assert await answered_by(store, bus, "r1") == "simple-384"
            entry = ModelEntry(
                id="e", kind="embedding", endpoint=server.base_url, model="vectors", parameters={"dimensions": 64},
                default=True,
            )  # fmt: skip
            assert await REGISTERED_MODELS.write(store, await REGISTERED_MODELS.read(store), "e", entry)
            numbers = count()

            async def known() -> bool:
                return await answered_by(store, bus, f"n{next(numbers)}") == "vectors"

            await wait_until("the change to be known", known)
            asked = next(r.body for r in server.seen.requests if r.path.endswith("/embeddings"))
            assert (asked["model"], asked["dimensions"]) == ("vectors", 64)
            # One that cannot be asked from here changes nothing.
            broken = entry.model_copy(update={"api_key_env": "SURELY_UNSET_API_KEY"})
            assert await REGISTERED_MODELS.write(store, await REGISTERED_MODELS.read(store), "e", broken)
            assert await answered_by(store, bus, "r3") == "vectors"
    finally:
        await service.stop()


def test_a_default_of_the_file_that_cannot_be_asked_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text(
        '{"models":[{"id":"e","kind":"embedding","api_key_env":"SURELY_UNSET_API_KEY","default":true}]}'
    )
    settings = {"redis_url": "redis://h", "pentad_data_dir": tmp_path, "pentad_models": tmp_path / "m.json"}
    with pytest.raises(SettingsError, match="SURELY_UNSET_API_KEY is not set"):
        EmbeddingService(Settings.model_validate(settings))


async def test_how_the_model_does_follows_its_last_request() -> None:
    class Flaky(HashingEmbedding):
        """Away for the first request."""

        away = True

        async def embed(self, texts: Sequence[str]) -> list[list[float]]:
            if self.away:
                self.away = False
                raise ModelUnavailable("away")
            return await super().embed(texts)

    watched = WatchedEmbedding(Flaky(), ModelEntry(id="e", kind="embedding"))
    told = [watched.health(1_000_000)[0]]
    with pytest.raises(ModelUnavailable):
        await watched.embed(["a"])
    told += watched.health(1_000_000)
    assert len(await watched.embed(["a"])) == 1
    told += watched.health(1_000_000)
    assert [(each.state, each.error) for each in told] == [("ok", None), ("failing", "away"), ("ok", None)]
