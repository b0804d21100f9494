"""Decides to which server the key of a model may be sent. Pure.

A model that is registered while the system runs names both its server and the variable of its key. Whoever can
register one, or write the registry, must not get at the keys that way: a key goes where the operator, who holds it,
uses it already, or where ``PENTAD_KEY_HOSTS`` says.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

from pentad.contracts.models import ModelEntry
from pentad.shared.immutable import immutable
from pentad.shared.settings import Settings

DASHSCOPE_URL = "https://dashscope.aliyuncs.com/compatible-mode/v1"
OPENAI_URL = "https://api.openai.com/v1"
ANTHROPIC_URL = "https://api.anthropic.com"
_PROVIDERS = {"openai": OPENAI_URL, "anthropic": ANTHROPIC_URL, "dashscope": DASHSCOPE_URL}
"""The address of each protocol's own provider, for entries without an endpoint."""
_DEFAULT_PORTS = {"http": 80, "https": 443}


@immutable
class ModelKeys:
    """The servers to which the key of each variable may be sent, by scheme, host and port."""

    servers: frozenset[tuple[str, str]]

    def refusal(self, entry: ModelEntry) -> str | None:
        """Return why the key that a registered entry names is not sent to its server; None when it is, or it names
        none."""
        variable = entry.api_key_env
        if variable is None:
            return None
        wanted = _server(entry.endpoint or _PROVIDERS.get(entry.protocol, ""))
        if (variable, wanted) in self.servers:
            return None
        known = sorted(server for name, server in self.servers if name == variable)
        where = f"goes to {' and '.join(known)} alone" if known else "is not known to be that of any server"
        return (
            f"the key {variable} {where}: to send it to {wanted} too, start the services with "
            f"PENTAD_KEY_HOSTS={variable}={wanted}, or enter the model in the file of PENTAD_MODELS"
        )


def model_keys(settings: Settings, file: Iterable[ModelEntry]) -> ModelKeys:
    """Return the keys that the operator uses: in the environment, in the file of models, and in
    ``PENTAD_KEY_HOSTS``."""
    used = [("LLM_API_KEY", settings.llm_base_url or OPENAI_URL)]
    if settings.embed_model_type in _PROVIDERS:
        used.append(("EMBED_API_KEY", settings.embed_base_url or _PROVIDERS[settings.embed_model_type]))
    used += [
        (entry.api_key_env, entry.endpoint or _PROVIDERS.get(entry.protocol, "")) for entry in file if entry.api_key_env
    ]
    used += settings.pentad_key_hosts
    return ModelKeys(frozenset((variable, _server(url)) for variable, url in used))


def _server(url: str) -> str:
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = parts.port or _DEFAULT_PORTS.get(parts.scheme)
    shown = f"[{host}]" if ":" in host else host
    plain = port == _DEFAULT_PORTS.get(parts.scheme)
    return f"{parts.scheme}://{shown}" if plain else f"{parts.scheme}://{shown}:{port}"
