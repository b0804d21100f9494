"""Which model answers, from the settings: the offline model until an endpoint or a key is given."""

from __future__ import annotations

from shared.errors import SettingsError
from shared.models.embeddings import EmbeddingModel, HashingEmbedding
from shared.models.offline import OfflineModel
from shared.models.openai_chat import OpenAIChat
from shared.models.openai_embedding import OpenAIEmbedding
from shared.models.ports import ChatModel


def make_chat_model(
    model_id: str | None, api_key: str | None, base_url: str | None, *, stall_s: float = 60.0
) -> ChatModel:
    """A real model when `api_key` or `base_url` is given, else the offline one. Empty text means not given.

    Without `base_url` it is OpenAI's own; without `model_id` the first that the server lists; without `api_key` the
    key is sent as `none`. Raises `SettingsError` for a key that cannot be sent.
    """
    key, url = _clean(api_key), _clean(base_url)
    if key is None and url is None:
        return OfflineModel()
    return OpenAIChat(url, _sendable(key, "LLM_API_KEY"), _clean(model_id), stall_s=stall_s)


def make_embedding_model(
    kind: str, name: str | None = None, api_key: str | None = None, base_url: str | None = None
) -> EmbeddingModel:
    """`simple` hashes; `openai` asks an endpoint for model `name`. Raises `SettingsError` for any other kind."""
    if kind == "simple":
        return HashingEmbedding()
    if kind == "openai":
        key = _sendable(_clean(api_key), "EMBED_API_KEY")
        return OpenAIEmbedding(_clean(base_url), key, _clean(name) or "text-embedding-3-small")
    raise SettingsError(f"EMBED_MODEL_TYPE={kind} is not supported here: use simple or openai")


def _clean(value: str | None) -> str | None:
    return (value or "").strip() or None


def _sendable(key: str | None, variable: str) -> str | None:
    if key is not None and not (key.isascii() and key.isprintable()):
        raise SettingsError(f"{variable} holds characters that no key has: copy it again")
    return key
