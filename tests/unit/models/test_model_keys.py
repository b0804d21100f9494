"""A model's key goes to the servers that the operator uses it for, whatever is registered while the system runs."""

from pathlib import Path

import pytest

from pentad.contracts.models import ModelEntry
from pentad.shared.errors import SettingsError
from pentad.shared.models.configured_models import configured_models
from pentad.shared.models.model_list import KnownModel
from pentad.shared.settings import load_settings


def entry(endpoint: str | None, key: str | None = "LLM_API_KEY", **fields: object) -> ModelEntry:
    return ModelEntry.model_validate({"id": "m", "endpoint": endpoint, "api_key_env": key, "model": "x", **fields})


def goes(entry: ModelEntry, **variables: str) -> bool:
    return configured_models(load_settings(variables)).keys.refusal(entry) is None


LOCAL = {"LLM_BASE_URL": "http://127.0.0.1:8000/v1"}


@pytest.mark.parametrize(
    ("endpoint", "sent"),
    [
        ("http://127.0.0.1:8000/v1", True),
        ("http://127.0.0.1:8000/other", True),
        ("http://127.0.0.1:8001/v1", False),
        ("https://127.0.0.1:8000/v1", False),
        ("http://localhost:8000/v1", False),
        ("http://127.0.0.1:8000.evil.example/v1", False),
        ("http://evil.example/127.0.0.1:8000/v1", False),
        (None, False),
    ],
)
def test_the_environments_key_goes_to_the_environments_server_alone(endpoint: str | None, sent: bool) -> None:
    """Security: a local process that registers a model of its own gets no key of the environment."""
    try:
        asked = entry(endpoint)
    except ValueError:
        assert not sent
        return
    assert goes(asked, **LOCAL) is sent


def test_without_an_address_it_is_the_providers_own() -> None:
    """Security: OpenAI's key goes to OpenAI, by its address or by none."""
    assert goes(entry(None))
    assert goes(entry("https://API.openai.com:443/v1"))
    assert not goes(entry("http://api.openai.com/v1"))
    assert not goes(entry("http://127.0.0.1:1/v1"))
    assert not goes(entry("https://x.example", "EMBED_API_KEY"))
    assert goes(entry("https://dashscope.aliyuncs.com/x", "EMBED_API_KEY"), EMBED_MODEL_TYPE="dashscope")


def test_any_other_variable_must_be_named_with_its_server(tmp_path: Path) -> None:
    """Security: no variable of the process is sent because a registered entry names it."""
    asked = entry("https://h.example/v1", "GITHUB_API_KEY")
    assert not goes(asked, GITHUB_API_KEY="secret")
    assert goes(asked, PENTAD_KEY_HOSTS="A_API_KEY=https://a.example, GITHUB_API_KEY=https://h.example")
    (file := tmp_path / "m.json").write_text(
        '{"models":[{"id":"f","endpoint":"https://h.example/v2","api_key_env":"GITHUB_API_KEY"}]}'
    )
    assert goes(asked, PENTAD_MODELS=str(file))
    assert not goes(entry("https://other.example", "GITHUB_API_KEY"), PENTAD_MODELS=str(file))


def test_the_refusal_says_what_to_do_and_binds_registered_entries_alone() -> None:
    """The operator's own file is not bound: it is the operator who wrote it."""
    configured, asked = configured_models(load_settings(LOCAL)), entry("http://thief.example:99/v1")
    with pytest.raises(SettingsError) as refused:
        configured.check_key(KnownModel(asked, "registered"))
    assert str(refused.value) == (
        "model m: the key LLM_API_KEY goes to http://127.0.0.1:8000 alone: to send it to http://thief.example:99 too, "
        "start the services with PENTAD_KEY_HOSTS=LLM_API_KEY=http://thief.example:99, or enter the model in the file "
        "of PENTAD_MODELS"
    )
    configured.check_key(KnownModel(asked, "file"))


@pytest.mark.parametrize(
    "text", ["sk-geheim", "A_API_KEY=sk-geheim", "PENTAD_API_KEY=http://sk-geheim", "A_API_KEY=http://h/sk-geheim",
             "A_API_KEY=http://me:sk-geheim@h", "A_API_KEY=http://h?k=sk-geheim", "A=http://sk-geheim"],
)  # fmt: skip
def test_what_is_no_key_and_server_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(SettingsError, match="PENTAD_KEY_HOSTS is wrong: entry 1 is not of the form") as refused:
        load_settings({"PENTAD_KEY_HOSTS": text})
    assert "geheim" not in str(refused.value)
