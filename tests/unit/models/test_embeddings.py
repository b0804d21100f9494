"""The hashing embedding is the same everywhere, of length one, and near for texts that share words."""

import math
import subprocess
import sys

import pytest

from pentad.shared.errors import SettingsError
from pentad.shared.models.embeddings import HashingEmbedding
from pentad.shared.models.model_makers import make_chat_model, make_embedding_model
from pentad.shared.models.offline.model import OfflineModel
from pentad.shared.models.openai_chat import OpenAIChat

EMBEDDING = HashingEmbedding()


def near(left: str, right: str) -> float:
    return sum(a * b for a, b in zip(EMBEDDING.vector(left), EMBEDDING.vector(right), strict=True))


@pytest.mark.parametrize("text", ["hello world", "你好世界", "", "!!!", "\ud83d", "a" * 100_000])
def test_every_text_has_a_vector_of_length_one(text: str) -> None:
    vector = EMBEDDING.vector(text)
    assert len(vector) == 384
    assert math.isclose(sum(value * value for value in vector), 1.0)


def test_another_process_computes_the_same_vector() -> None:
    code = "from pentad.shared.models.embeddings import HashingEmbedding as H; print(H(32).vector('Hello, 世界'))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout.strip() == str(HashingEmbedding(32).vector("Hello, 世界"))


@pytest.mark.parametrize(
    ("text", "like", "unlike"),
    [
        ("the deployment failed on friday", "why did the deployment fail", "my cat eats fish"),
        ("北京的天气很好", "今天北京天气怎么样", "我喜欢吃鱼"),
        ("PostgreSQL replication", "postgres replicas", "holiday pictures"),
    ],
)
def test_texts_that_share_words_are_nearer(text: str, like: str, unlike: str) -> None:
    assert near(text, like) > near(text, unlike) + 0.1


def test_case_and_width_do_not_matter() -> None:
    assert near("Hello World", "ｈｅｌｌｏ　world") == pytest.approx(1.0)


async def test_vectors_come_in_the_order_of_the_texts() -> None:
    assert await EMBEDDING.embed(["a", "b"]) == [EMBEDDING.vector("a"), EMBEDDING.vector("b")]


@pytest.mark.parametrize("given", [(None, None), ("", " "), (None, "")])
def test_without_key_and_address_the_offline_model_answers(given: tuple[str | None, str | None]) -> None:
    assert isinstance(make_chat_model("some-model", *given), OfflineModel)


@pytest.mark.parametrize("given", [("key", None), (None, "http://127.0.0.1:1/v1")])
def test_either_key_or_address_turns_the_offline_model_off(given: tuple[str | None, str | None]) -> None:
    model = make_chat_model("some-model", *given)
    assert isinstance(model, OpenAIChat)
    assert model.name == "some-model"


def test_a_key_that_cannot_be_sent_is_refused_without_showing_it() -> None:
    with pytest.raises(SettingsError, match="LLM_API_KEY") as refused:
        make_chat_model(None, "sk-geheim\nx", None)
    assert "geheim" not in str(refused.value)


def test_embedding_kinds_are_named() -> None:
    assert make_embedding_model("simple").dimensions == 384
    assert make_embedding_model("openai", "m", None, "http://127.0.0.1:1").name == "m"
    with pytest.raises(SettingsError, match="EMBED_MODEL_TYPE=bert is not known: use simple, local"):
        make_embedding_model("bert")


def test_dashscope_is_an_endpoint_of_its_own_with_small_requests() -> None:
    model = make_embedding_model("dashscope", api_key="sk-x")
    assert (model.name, model.most_texts) == ("text-embedding-v4", 10)
    assert model.place == "https://dashscope.aliyuncs.com/compatible-mode/v1"
    elsewhere = make_embedding_model("dashscope", "text-embedding-v3", "sk-x", "https://dashscope-intl.aliyuncs.com/v1")
    assert (elsewhere.name, elsewhere.place) == ("text-embedding-v3", "https://dashscope-intl.aliyuncs.com/v1")
    with pytest.raises(SettingsError, match="needs a key: set EMBED_API_KEY"):
        make_embedding_model("dashscope")


def test_importing_the_clients_does_not_import_the_sdk() -> None:
    code = "import sys, pentad.shared.models.model_makers; sys.exit('openai' in sys.modules or 'httpx2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
