"""Of models from several places: which one counts, which answers where none is named, and who needs whom."""

from pentad.contracts.models import ModelEntry
from pentad.shared.models.configured_models import configured_models
from pentad.shared.models.model_list import ModelList, merged, misplaced
from pentad.shared.models.model_pool import ModelPool, OpenGate
from pentad.shared.models.offline.model import OfflineModel
from pentad.shared.settings import load_settings

ENVIRONMENT = configured_models(load_settings({})).environment


def entry(name: str, **fields: object) -> ModelEntry:
    return ModelEntry.model_validate({"id": name, **fields})


def chain(models: ModelList, name: str | None) -> list[str]:
    return [known.entry.id for known in models.chain(name)]


def test_without_a_file_the_environment_answers() -> None:
    models = merged(ENVIRONMENT, (), ())
    assert models.defaults == {"llm": "default", "embedding": "default-embedding"}
    assert chain(models, None) == chain(models, "default") == ["default"]
    assert chain(models, "unheard-of") == []


def test_the_environments_address_is_shown_without_what_may_be_secret() -> None:
    settings = load_settings({"LLM_BASE_URL": "http://me:geheim@h/v1?x=geheim", "LLM_API_KEY": "geheim"})
    assert "geheim" not in str(configured_models(settings))


def test_the_environments_model_has_the_window_that_is_set_where_there_is_one() -> None:
    real = {"LLM_BASE_URL": "http://h/v1", "LLM_CONTEXT_TOKENS": "8192"}
    for variables, window in (
        (real, 8_192),
        ({"LLM_CONTEXT_TOKENS": "8192"}, None),
        ({"LLM_BASE_URL": "http://h"}, None),
    ):
        chat, _ = configured_models(load_settings(variables)).environment
        assert chat.context_tokens == window


def test_a_pool_tells_the_window_and_the_counter_of_the_model_that_is_asked_first() -> None:
    """Promise: prompts are planned for the model that normally answers, and each model has one counter."""
    listed = [entry("a", fallbacks=["b"], context_tokens=8_000, default=True), entry("b", context_tokens=4_000)]
    pool = ModelPool(lambda _: OfflineModel(), OpenGate(), merged(ENVIRONMENT, listed, ()))
    assert [pool.window(name) for name in (None, "a", "b", "unheard-of")] == [8_000, 8_000, 4_000, None]
    assert pool.counter(None) is pool.counter("a") is not pool.counter("b")
    assert pool.counter("unheard-of").count([b"x"]) > 0


def test_the_files_entry_goes_before_one_that_was_registered() -> None:
    models = merged(ENVIRONMENT, [entry("a", model="file")], [entry("a", model="other"), entry("b")])
    assert {name: (m.entry.model, m.source) for name, m in models.known.items() if m.source != "environment"} == {
        "a": ("file", "file"),
        "b": (None, "registered"),
    }


def test_a_default_of_the_file_goes_before_a_registered_one_and_that_before_the_environments() -> None:
    file, late = [entry("f", default=True)], [entry("r", default=True)]
    assert merged(ENVIRONMENT, file, late).defaults["llm"] == "f"
    assert "default" not in merged(ENVIRONMENT, file, late).known
    assert merged(ENVIRONMENT, (), late).defaults["llm"] == "r"
    assert merged(ENVIRONMENT, (), late).defaults["embedding"] == "default-embedding"


def test_a_chain_is_the_model_and_its_own_fallbacks_in_order() -> None:
    every = [entry("a", fallbacks=["c", "gone", "e", "b"]), entry("b"), entry("c", fallbacks=["a"])]
    models = merged(ENVIRONMENT, every, [entry("e", kind="embedding")])
    assert chain(models, "a") == ["a", "c", "b"]
    assert chain(models, "e") == [], "an embedding model does not chat"


def test_who_needs_a_model_is_said() -> None:
    models = merged(ENVIRONMENT, [entry("a", fallbacks=["b"], default=True), entry("b"), entry("c")], ())
    assert [len(models.using(name)) for name in ("a", "b", "c")] == [1, 1, 0]
    assert models.using("b") == ["model a falls back to it"]


def test_the_environments_model_can_be_a_fallback_as_long_as_it_is_there() -> None:
    late = entry("a", fallbacks=["default"])
    assert misplaced(late, [], [late]) is None
    assert "no chat model default" in str(misplaced(late, [], [entry("b", default=True)]))
