"""Makes clients of models: from the settings (the offline model until an endpoint or a key is given) and from entries.

A protocol is imported where its first client is made, so that a service that asks no model starts without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pentad.contracts.models import ModelEntry, ThinkTagsHabit
from pentad.shared.errors import SettingsError
from pentad.shared.models.answer_limits import with_defaults
from pentad.shared.models.embeddings import EmbeddingModel, HashingEmbedding
from pentad.shared.models.model_keys import DASHSCOPE_URL
from pentad.shared.models.ports import STALL_S, UNNAMED, ChatModel
from pentad.shared.settings import model_key

if TYPE_CHECKING:
    from pentad.shared.models.local_embedding import LocalEmbedding

_DASHSCOPE_MAX_TEXTS = 10
"""Texts that one request of DashScope may hold."""


def make_chat_model(
    model_id: str | None,
    api_key: str | None,
    base_url: str | None,
    *,
    stall_s: float = STALL_S,
    think_tags: ThinkTagsHabit | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> ChatModel:
    """Make a real model when `api_key` or `base_url` is given, else the offline one. Empty text means not given.

    Without `base_url` it is OpenAI's own; without `model_id` the first that the server lists; without `api_key` the
    key is sent as `none`. `parameters` go into each request. Raises `SettingsError` for a key that cannot be sent.
    """
    key, url = _clean(api_key), _clean(base_url)
    if key is None and url is None:
        return _offline()
    from pentad.shared.models.openai_chat import OpenAIChat

    sent = _sendable(key, "LLM_API_KEY")
    more: dict[str, Any] = {"parameters": parameters, "think_tags": think_tags}
    return OpenAIChat(url, sent, _clean(model_id), stall_s=stall_s, **more)


def make_of_entry(entry: ModelEntry, defaults: Mapping[str, Any] = MappingProxyType({})) -> ChatModel:
    """Make the client of a chat model of the registry. Raises ``SettingsError`` for one that this process cannot ask.

    ``defaults``: the environment's parameters, for what the entry does not set.
    """
    parameters = with_defaults(entry.parameters, defaults)
    if entry.protocol == "offline":
        return _offline()
    if entry.protocol == "anthropic":
        from pentad.shared.models.anthropic.chat import AnthropicChat

        assert entry.model is not None, "an entry of this protocol names its model"
        return AnthropicChat(entry.endpoint, _key_of(entry), entry.model, parameters=parameters)
    from pentad.shared.models.openai_chat import OpenAIChat

    url = entry.endpoint or (DASHSCOPE_URL if entry.protocol == "dashscope" else None)
    more: dict[str, Any] = {"parameters": parameters, "think_tags": entry.think_tags}
    return OpenAIChat(url, _key_of(entry), entry.model, **more)


def make_embedding_of_entry(entry: ModelEntry) -> EmbeddingModel:
    """Make the client of an embedding model of the registry.

    Raises ``SettingsError`` for one that this process cannot ask.
    """
    key = _key_of(entry)
    return make_embedding_model(entry.protocol, entry.model, key, entry.endpoint, entry.parameters.get("dimensions"))


def described(name: str, place: str | None) -> str:
    """Describe a model to a person, from its `name` and `place`."""
    if place is None:
        return "the offline model, a rule-based stand-in"
    return f"the first model of {place}" if name == UNNAMED else f"{name} at {place}"


def make_embedding_model(
    kind: str,
    name: str | None = None,
    api_key: str | None = None,
    base_url: str | None = None,
    dimensions: int | None = None,
) -> EmbeddingModel:
    """Make an embedding model.

    `simple` hashes; `local` computes in this process; `openai` and `dashscope` ask an endpoint for model `name`, for
    vectors of so many `dimensions`. Raises `SettingsError` for any other kind, for `local` without its extra or with
    another model, for `dashscope` without a key, and for a key that cannot be sent.
    """
    if kind == "simple":
        return HashingEmbedding()
    if kind == "local":
        return _local(_clean(name))
    from pentad.shared.models.openai_embedding import OpenAIEmbedding

    key, url = _sendable(_clean(api_key), "EMBED_API_KEY"), _clean(base_url)
    if kind == "openai":
        return OpenAIEmbedding(url, key, _clean(name) or "text-embedding-3-small", dimensions=dimensions)
    if kind == "dashscope":
        if key is None and url is None:
            raise SettingsError("EMBED_MODEL_TYPE=dashscope needs a key: set EMBED_API_KEY")
        model = _clean(name) or "text-embedding-v4"
        return OpenAIEmbedding(url or DASHSCOPE_URL, key, model, dimensions=dimensions, most_texts=_DASHSCOPE_MAX_TEXTS)
    raise SettingsError(f"EMBED_MODEL_TYPE={kind} is not known: use simple, local, openai or dashscope")


def _offline() -> ChatModel:
    from pentad.shared.models.offline.model import OfflineModel

    return OfflineModel()


def _local(name: str | None) -> LocalEmbedding:
    from pentad.shared.models.local_embedding import LocalEmbedding

    model = LocalEmbedding()
    if name not in (None, model.name):
        raise SettingsError(
            f"EMBED_MODEL_TYPE=local has one model, {model.name}: leave EMBED_MODEL_NAME empty, or use openai, "
            "which takes any server with an OpenAI-compatible /embeddings in EMBED_BASE_URL, also one on this machine"
        )
    return model


def _key_of(entry: ModelEntry) -> str | None:
    """Return the key of an entry, None when it names none. Raises ``SettingsError`` when its variable is not set."""
    if entry.api_key_env is None:
        return None
    key = _sendable(model_key(entry.api_key_env), entry.api_key_env)
    if key is None:
        raise SettingsError(f"model {entry.id}: {entry.api_key_env} is not set where it is asked: set it there")
    return key


def _clean(value: str | None) -> str | None:
    return (value or "").strip() or None


def _sendable(key: str | None, variable: str) -> str | None:
    if key is not None and not (key.isascii() and key.isprintable()):
        raise SettingsError(f"{variable} holds characters that no key has: copy it again")
    return key
