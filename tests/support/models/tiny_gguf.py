"""Writes a model of 3 MB that says what it is told, for a real llama.cpp server without weights from elsewhere.

    python -m tests.support.models.tiny_gguf FILE.gguf          # and: llama-server -m FILE.gguf --jinja

Its words are bytes and a few whole ones. An embedding is the word itself and no layer adds to it, so the next word
depends on the last one alone. Its chat template ends a prompt with a word that begins what is to be said: a user
message with `call` and an offered tool begins a call of the calculator, `long` two hundred lines, `think` a thought
first; everything else a greeting.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

HELLO = ("Hello", ", ", "世", "界", "! ", "😀")
_BEGUN = ("<tool_call>", '\n{"', "name", '": "', "calc", "ulator", '", "arg', "uments", '": {"', "expression", '":"6')
CALL = (*_BEGUN, "*", '7"', "}}\n", "</tool_call>")
THOUGHT = ("<think>", "\nhm, ", "what", " is", " it?", "\n", "</think>", "\n\n")
END, START = "<|im_end|>", "<|im_start|>"
BEGINNINGS = ("<|say|>", "<|use|>", "<|muse|>", "<|ramble|>")
LINES = 200

TEMPLATE = "".join(
    line.strip()
    for line in r"""
    {%- if tools %}
        {{ '<|im_start|>system\n' }}
        {%- if messages[0].role == 'system' %}{{ messages[0].content + '\n\n' }}{%- endif %}
        {{ '# Tools\n\n<tools>' }}
        {%- for tool in tools %}{{ '\n' }}{{ tool | tojson }}{%- endfor %}
        {{ '\n</tools>\n\nA call is a JSON object within <tool_call></tool_call>:\n' }}
        {{ '<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call><|im_end|>\n' }}
    {%- elif messages[0].role == 'system' %}
        {{ '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}
    {%- endif %}
    {%- for message in messages %}
        {%- if message.role == 'tool' %}
            {{ '<|im_start|>user\n<tool_response>\n' + message.content + '\n</tool_response><|im_end|>\n' }}
        {%- elif message.role == 'assistant' %}
            {{ '<|im_start|>assistant\n' }}
            {%- if message.reasoning_content %}
                {{ '<think>\n' + message.reasoning_content + '\n</think>\n\n' }}
            {%- endif %}
            {{ message.content or '' }}
            {%- for call in message.tool_calls or [] %}
                {{ '<tool_call>\n{"name": "' + call.function.name + '", "arguments": ' }}
                {{ (call.function.arguments | tojson) + '}\n</tool_call>' }}
            {%- endfor %}
            {{ '<|im_end|>\n' }}
        {%- elif message.role == 'user' or not loop.first %}
            {{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}
        {%- endif %}
    {%- endfor %}
    {%- if add_generation_prompt %}
        {{ '<|im_start|>assistant\n' }}
        {%- set said = messages[-1].content if messages[-1].role == 'user' else '' %}
        {%- if 'long' in said %}{{ '<|ramble|>' }}
        {%- elif 'think' in said %}{{ '<|muse|>' }}
        {%- elif tools and 'call' in said %}{{ '<|use|>' }}
        {%- else %}{{ '<|say|>' }}{%- endif %}
    {%- endif %}""".splitlines()
)


def of_bytes(data: bytes) -> str:
    """Bytes as GPT-2 writes them in its vocabulary."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    moved = [byte for byte in range(256) if byte not in plain]
    return "".join(chr(byte if byte in plain else 256 + moved.index(byte)) for byte in data)


def words() -> tuple[list[str], list[int], dict[int, int]]:
    """The vocabulary, the kind of each word, and what follows what."""
    texts, kinds = [of_bytes(bytes([byte])) for byte in range(256)], [1] * 256
    follows: dict[int, int] = {}

    def number(text: str, kind: int = 1) -> int:
        text = text if kind == 3 else of_bytes(text.encode())
        if text not in texts:
            texts.append(text)
            kinds.append(kind)
        return texts.index(text)

    def chain(*numbers: int) -> None:
        follows.update(pairwise(numbers))

    number(START, 3)
    end = number(END, 3)
    say, use, muse, ramble = (number(text, 3) for text in BEGINNINGS)
    hello = [number(text) for text in HELLO]
    chain(say, *hello, end)
    chain(use, *(number(text, 4 if "tool_call>" in text else 1) for text in CALL), end)
    chain(muse, *(number(text, 4 if "think>" in text else 1) for text in THOUGHT), hello[0])
    chain(ramble, *(number(f"line {line:03} of many. \n") for line in range(LINES)), end)
    return texts, kinds, follows


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _value(value: object) -> bytes:
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + _string(value)
    assert isinstance(value, list)
    texts = not value or isinstance(value[0], str)
    each = b"".join(_string(one) if texts else struct.pack("<i", one) for one in value)
    return struct.pack("<IIQ", 9, 8 if texts else 5, len(value)) + each


def written(path: Path, layers: int = 1, hidden: int = 64, context: int = 65_536) -> None:
    """Write the model. More `layers` with more in `hidden` make it slower, and say nothing else."""
    texts, kinds, follows = words()
    width = -len(texts) // 32 * -32
    table = np.eye(len(texts), width, dtype=np.float32)
    output = np.zeros((len(texts), width), np.float32)
    for last, following in follows.items():
        output[following, last] = 1.0
    tensors: dict[str, tuple[Sequence[int], NDArray[np.float32] | None]] = {
        "token_embd.weight": (table.shape, table),
        "output.weight": (output.shape, output),
        "output_norm.weight": ((width,), np.ones(width, np.float32)),
    }
    for layer in range(layers):
        ones = ((width,), np.ones(width, np.float32))
        tensors |= {f"blk.{layer}.{name}_norm.weight": ones for name in ("attn", "ffn")}
        tensors |= {f"blk.{layer}.attn_{name}.weight": ((width, width), None) for name in ("q", "k", "v", "output")}
        tensors |= {f"blk.{layer}.ffn_{name}.weight": ((hidden, width), None) for name in ("gate", "up")}
        tensors[f"blk.{layer}.ffn_down.weight"] = ((width, hidden), None)
    settings: dict[str, object] = {
        "general.architecture": "llama",
        "general.name": "tiny",
        "general.alignment": 32,
        "llama.context_length": context,
        "llama.embedding_length": width,
        "llama.block_count": layers,
        "llama.feed_forward_length": hidden,
        "llama.attention.head_count": width // 32,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": texts,
        "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.merges": [],
        "tokenizer.ggml.eos_token_id": texts.index(END),
        "tokenizer.chat_template": TEMPLATE,
    }
    at, heads = 0, b""
    for name, (shape, _) in tensors.items():
        dims = struct.pack(f"<{len(shape)}Q", *reversed(shape))
        heads += _string(name) + struct.pack("<I", len(shape)) + dims + struct.pack("<IQ", 0, at)
        at += -(-int(np.prod(shape)) * 4 // 32) * 32
    with path.open("wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(settings)))
        file.write(b"".join(_string(name) + _value(value) for name, value in settings.items()) + heads)
        file.write(bytes(-file.tell() % 32))
        begin = file.tell()
        for shape, values in tensors.values():
            if values is not None:
                file.write(values.tobytes())
            else:
                file.seek(int(np.prod(shape)) * 4, 1)  # zeros that take no place on the disk
            file.seek(-(file.tell() - begin) % 32, 1)
        file.truncate(file.tell())


if __name__ == "__main__":
    written(Path(sys.argv[1]), *map(int, sys.argv[2:]))
