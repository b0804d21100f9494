"""What an operator may register as a model, and what is refused before it can send a secret away or break requests."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from pentad.contracts.models import MAX_PARAMETERS, ModelEntry, Prices


def complaint(**fields: Any) -> str:
    with pytest.raises(ValidationError) as refused:
        ModelEntry.model_validate({"id": "m", **fields})
    return "; ".join(each["msg"] for each in refused.value.errors(include_input=False))


def test_a_full_entry_survives_its_json() -> None:
    entry = ModelEntry(
        id="fast", endpoint="https://models.example:8443/v1", model="gpt-9", parameters={"temperature": 0.2},
        api_key_env="FAST_API_KEY", fallbacks=("slow", "default"), concurrency=8, prices=Prices(input=1.5, output=6),
        default=True,
    )  # fmt: skip
    assert ModelEntry.model_validate_json(entry.to_json()) == entry


@pytest.mark.parametrize("name", ["api_key", "apiKey", "key", "token", "secret"])
def test_a_key_in_the_entry_is_refused_and_not_repeated(name: str) -> None:
    said = complaint(**{name: "sk-geheim"})
    assert "api_key_env" in said
    assert "sk-geheim" not in said


@pytest.mark.parametrize(
    "name",
    [
        "PENTAD_API_KEY",
        "PENTAD_X_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "REDIS_URL",
        "NEO4J_PASSWORD",
        "openai_api_key",
        "_API_KEY",
        "1_API_KEY",
        "OPENAI_API_KEY\n",
        "OPENAI_API_KEY ",
        "ＯPENAI_API_KEY",
        "A" * 130 + "_API_KEY",
        "",
        "sk-geheim",
    ],
)
def test_no_entry_can_have_another_secret_sent(name: str) -> None:
    assert "sk-geheim" not in complaint(api_key_env=name)


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "A_API_KEY", "LLM_API_KEY", "X9__Y_API_KEY"])
def test_a_variable_that_ends_in_api_key_holds_one(name: str) -> None:
    assert ModelEntry(id="m", api_key_env=name).api_key_env == name


@pytest.mark.parametrize(
    "endpoint",
    [
        "",
        "models.example/v1",
        "ftp://models.example",
        "file:///etc/passwd",
        "http://",
        "http:///v1",
        "http://h:99999/",
        "http://[::1/",
        "http://user:geheim@h/v1",
        "http://geheim@h/v1",
        "http://h/v1?key=geheim",
        "http://h/v1?",
        "http://h/v1#geheim",
        "http://h/v1 x",
        "http://h/\nv1",
        "http://h\u3002x/",
        "http://h/" + "x" * 2048,
        7,
    ],
)
def test_what_is_no_plain_address_is_refused_and_not_repeated(endpoint: object) -> None:
    assert "geheim" not in complaint(endpoint=endpoint)


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:9/v1", "https://h", "http://[::1]:8000/v1/", "HTTP://H/v1"])
def test_a_plain_address_is_taken_as_it_is(endpoint: str) -> None:
    assert ModelEntry(id="m", endpoint=endpoint).endpoint == endpoint


@pytest.mark.parametrize(
    "name", ["messages", "model", "tools", "tool_choice", "functions", "system", "stream", "stream_options", "n"]
)
def test_parameters_cannot_replace_what_each_request_has(name: str) -> None:
    assert name in complaint(parameters={name: 1})


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "parameters",
    [
        {"x": "y" * MAX_PARAMETERS},
        {"x": float("nan")},
        {"x": float("inf")},
        {"x": {1, 2}},
        {"x": b"raw"},
        {"x": nested(100_000)},
        [1],
        "temperature",
    ],
)
def test_parameters_that_cannot_be_sent_are_refused(parameters: object) -> None:
    assert complaint(parameters=parameters)


@pytest.mark.parametrize(
    "fields",
    [
        {"id": "a b"},
        {"id": "@version"},
        {"id": ""},
        {"id": "x" * 129},
        {"kind": "image"},
        {"protocol": "telnet"},
        {"protocol": "anthropic"},
        {"kind": "embedding", "protocol": "anthropic"},
        {"kind": "llm", "protocol": "simple"},
        {"protocol": "offline", "endpoint": "http://h"},
        {"kind": "embedding", "protocol": "simple", "api_key_env": "X_API_KEY"},
        {"kind": "embedding", "fallbacks": ["b"]},
        {"kind": "embedding", "parameters": {"temperature": 1}},
        {"kind": "embedding", "parameters": {"dimensions": 0}},
        {"kind": "embedding", "parameters": {"dimensions": True}},
        {"kind": "embedding", "parameters": {"dimensions": "64"}},
        {"fallbacks": ["m"]},
        {"fallbacks": ["b", "b"]},
        {"fallbacks": [f"b{n}" for n in range(9)]},
        {"fallbacks": ["a b"]},
        {"concurrency": 0},
        {"concurrency": 1.5},
        {"concurrency": 100_001},
        {"prices": {"input": -1}},
        {"prices": {"input": float("nan")}},
        {"prices": {"input_tokens": 1}},
        {"begin_s": 0},
        {"context_tokens": 255},
        {"context_tokens": 10**9 + 1},
        {"context_tokens": "many"},
        {"kind": "embedding", "context_tokens": 8_192},
        {"begin_s": float("inf")},
        {"model": ""},
        {"model": "x" * 257},
        {"temprature": 1},
        {"default": "perhaps"},
    ],
)
def test_a_value_out_of_bounds_is_refused(fields: dict[str, Any]) -> None:
    assert complaint(**fields)


def test_an_embedding_model_may_say_how_long_its_vectors_are() -> None:
    entry = ModelEntry(id="m", kind="embedding", protocol="dashscope", parameters={"dimensions": 512})
    assert json.loads(entry.to_json())["parameters"] == {"dimensions": 512}


def test_prices_are_for_a_million_tokens() -> None:
    assert Prices(input=3, output=15).usd(1_000_000, 200_000) == 6.0
    assert Prices().usd(10, 10) == 0.0
    assert Prices(input=3, output=15, cached_input=1).usd(1_000_000, 0, 500_000) == 2.0
    assert Prices(input=3).usd(1_000_000, 0, 500_000) == 3.0
