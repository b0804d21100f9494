"""The models that a process knows from its start: those of the file, and those of the environment."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pentad.contracts.models import ModelEntry
from pentad.shared.addresses import shown_place
from pentad.shared.errors import SettingsError
from pentad.shared.immutable import immutable
from pentad.shared.models.embeddings import EmbeddingModel
from pentad.shared.models.model_keys import ModelKeys, model_keys
from pentad.shared.models.model_list import ENVIRONMENT_IDS, KnownModel, ModelList, beside, merged, read_model_file
from pentad.shared.models.model_makers import make_chat_model, make_embedding_model
from pentad.shared.models.ports import ChatModel
from pentad.shared.settings import Settings


@immutable
class ConfiguredModels:
    """The models and keys that do not change as long as the process runs."""

    environment: tuple[ModelEntry, ...]
    file: tuple[ModelEntry, ...]
    """Models that the program hands over, and those of the file."""
    keys: ModelKeys

    def and_registered(self, entries: Iterable[ModelEntry]) -> ModelList:
        """Return the list of all models, with these that were registered."""
        return merged(self.environment, self.file, entries)

    def with_chat_models_of(self, newer: ConfiguredModels) -> ConfiguredModels:
        """Return the chat models and keys of another reading, with the embedding models of this one.

        What was embedded by one model cannot be compared with what another embeds, so these stay until the next start.
        """
        embedding = [entry for entry in self.file if entry.kind == "embedding"]
        chat = [entry for entry in newer.file if entry.kind == "llm"]
        return ConfiguredModels(self.environment, (*chat, *embedding), newer.keys)

    def check_key(self, known: KnownModel) -> None:
        """Raise ``SettingsError`` for a registered model that asks for a key which may not be sent to its server."""
        if known.source == "registered" and (why := self.keys.refusal(known.entry)) is not None:
            raise SettingsError(f"model {known.entry.id}: {why}")


def configured_models(settings: Settings) -> ConfiguredModels:
    """Read the file and the variables. Raises ``SettingsError``."""
    read = () if settings.pentad_models is None else read_model_file(settings.pentad_models)
    file = beside(settings.models_of_program, read)
    return ConfiguredModels((_chat(settings), _embedding(settings)), file, model_keys(settings, file))


def environment_chat(settings: Settings) -> ChatModel:
    """Make the client of the environment's chat model. Raises ``SettingsError``."""
    key = settings.llm_api_key.get_secret_value() if settings.llm_api_key else None
    tags, parameters = settings.llm_think_tags, environment_parameters(settings)
    return make_chat_model(settings.llm_model_id, key, settings.llm_base_url, think_tags=tags, parameters=parameters)


def environment_parameters(settings: Settings) -> dict[str, Any]:
    """Return the parameters that the environment gives to chat models whose entries do not set them."""
    given = {"temperature": settings.llm_temperature, "max_tokens": settings.llm_max_tokens}
    return {name: value for name, value in given.items() if value is not None}


def environment_embedding(settings: Settings) -> EmbeddingModel:
    """Make the client of the environment's embedding model. Raises ``SettingsError``."""
    return make_embedding_model(
        kind=settings.embed_model_type,
        name=settings.embed_model_name,
        api_key=settings.embed_api_key.get_secret_value() if settings.embed_api_key else None,
        base_url=settings.embed_base_url,
    )


def _chat(settings: Settings) -> ModelEntry:
    """Return the environment's chat model as an entry that may be shown: it has nothing secret. It is not checked as
    entries are."""
    place = environment_chat(settings).place
    return ModelEntry.model_construct(
        id=ENVIRONMENT_IDS["llm"],
        protocol="offline" if place is None else "openai",
        endpoint=place,
        model=settings.llm_model_id if place else None,
        parameters=environment_parameters(settings) if place else {},
        think_tags=settings.llm_think_tags if place else None,
        context_tokens=settings.llm_context_tokens if place else None,
        default=True,
    )


def _embedding(settings: Settings) -> ModelEntry:
    return ModelEntry.model_construct(
        id=ENVIRONMENT_IDS["embedding"],
        kind="embedding",
        protocol=settings.embed_model_type,
        endpoint=shown_place(settings.embed_base_url) if settings.embed_base_url else None,
        model=settings.embed_model_name,
        default=True,
    )
