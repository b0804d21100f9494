"""Tells whether a server's words say that a conversation or a text is too long, and how much its model takes. Pure.

The words are those of OpenAI, Anthropic, Google, xAI, Groq, Mistral, DeepSeek, Moonshot, MiniMax, DashScope, Cohere,
Bedrock, OpenRouter, Together, Poolside, GitHub, LiteLLM, vLLM, SGLang, TGI, TEI, TensorRT-LLM, llama.cpp, Ollama and
LM Studio.
"""

from __future__ import annotations

import re

from pentad.shared.models.refusal import as_number

_TOO_LONG = re.compile(
    r"context[ _-]?(?:length|size|window)(?! is (?:not|un))|context_?limit|model'?s? context limit"
    r"|maximum (?:context|prompt|model|input|sequence) length|max(?:imum)?_(?:model_len|seq_?len|context_length)"
    r"|max_(?:num|input)_tokens"
    r"|(?:prompt|input|conversation|messages?|text|total length)s?(?: \w+){0,3} (?:is|are|was) too (?:long|large)"
    r"|(?:prompt|input)(?: tokens?)? too (?:long|large)|too long for (?:requested|this|the) model"
    r"|request[ _]too[ _]large|request (?:size )?exceeds the maximum size|payload too large|too large to process"
    r"|too large for model|reduce (?:the length of|your)(?: \w+){0,3} (?:messages?|prompt|input|completion)"
    r"|(?:input|prompt) (?:token count|tokens?|length)[^.\n]{0,60} exceeds?"
    r"|(?:input|prompt)(?: tokens| text)? exceeds? (?:the )?(?:configured|maximum|model)"
    r"|token count is [\d,]+ but (?:the )?model|has [\d,]+ tokens, exceeding|cannot exceed [\d,]+ tokens"
    r"|payload size exceeds|#/(?:texts|inputText|prompt|messages)\b[^\n]{0,24}expected maxLength"
    r"|maximum number of input tokens|context shift is disabled|truncate prompt with n_keep|body too large for"
    r"|(?:input|prompt) (?:is longer than the model|exceeds max)|max(?:imum)? input characters"
    r"|size of tensor a \(\d+\) must match the size of tensor b"
    r"|exceed(?:s|ed)?(?: the)?(?: model)?(?:'s)?(?: maximum)?(?: allowed)?"
    r" (?:token limit|number of tokens|input length)"
    r"|token limit exceeded|too many (?:input )?tokens(?! per)|maximum number of tokens allowed"
    r"|prompt token count of \d+ exceeds|range of input length|prompt tokens too long|prompt contains [\d,]+ tokens"
    r"|`inputs`(?: tokens \+ `max_new_tokens`)? must (?:be|have)|exceed_context_size|model_context_window_exceeded"
    r"|string_above_max_length(?=.*messages)|maximum allowed (?:input )?length of [\d,]+ tokens"
    r"|exceeds? max message tokens|tokens in prompt exceed"
    r"|上下文(?:长度|窗口)|输入(?:内容|长度)?(?:过长|超长|超过|超出)",
    re.I,
)
_ADDRESS = re.compile(r"https?://\S+")
"""The address of a page that the server names: its words say nothing of this request."""
_RATE = re.compile(
    r"rate[ _-]?limit|per (?:min|sec|hour|day)|too many requests|please (?:wait|try again)|throttl|quota", re.I
)
"""Words about too many tokens in some time: waiting helps against that."""
_PLAIN_WORDS = re.compile(r"maximum context length|prompt is too long|context_length_exceeded|context size", re.I)
"""Words that mean the length although the server speaks of rates too."""
_NEVER_FITS = re.compile(r"request too large", re.I)
"""Words that come with a limit for each minute, which this request alone exceeds."""
_OUTPUT = re.compile(
    r"max_(?:completion_|output_|new_)?tokens[^.\n]{0,80}(?:at most|maximum|range|<=|>|less than|exceed|too large)"
    r"|completion tokens",
    re.I,
)
"""Words about the limit of tokens of an answer."""
_OF_INPUT = re.compile(r"\b(?:prompt|inputs?|messages)\b|maximum context length|context limit", re.I)
_NUMBER = r"\(?\[?(?:only |1, ?)?([\d][\d,_]{2,14})"
_LIMITS = tuple(
    re.compile(pattern, re.I)
    for pattern in (
        r"\d (?:tokens )?> ([\d][\d,_]{2,14})",
        r"([\d][\d,_]{2,14}) maximum context length",
        r"maximum (?:context|prompt|model|input|sequence) length(?: is| of|:)? ?" + _NUMBER,
        r"(?:context|configured context|available context) (?:length|size|window|limit)(?: is| of|:)? ?" + _NUMBER,
        r"maximum number of tokens allowed(?: is| of|:)? ?" + _NUMBER,
        r"token limit(?: is| of|:)? ?" + _NUMBER,
        r"(?:maximum allowed length|max size)(?: is| of|:)? ?" + _NUMBER,
        r"input length (?:should be|of|is) ?" + _NUMBER,
        r"(?:limit|maximum|max_seq_len|max_model_len|n_ctx\"?)(?: is| of|:)? ?" + _NUMBER,
        r"(?:must be <=|must have less than|cannot exceed|at most|up to) ?" + _NUMBER,
    )
)
_ASKED = tuple(
    re.compile(pattern, re.I)
    for pattern in (
        r"(?:resulted in|requested(?: a total of| about)?|request contains) ([\d][\d,_]{2,14}) tokens",
        r"(?:is|are|was) too (?:long|large):? ?\(?([\d][\d,_]{2,14})",
        r"(?:input|prompt) token count (?:is |of )?\(?([\d][\d,_]{2,14})",
        r"(?:input|prompt|request) \(([\d][\d,_]{2,14}) tokens\)",
        r"(?:prompt|input|request) (?:contains|has) ([\d][\d,_]{2,14}) (?:input )?tokens",
        r"(?:passed|keep the first) ([\d][\d,_]{2,14}) (?:input )?tokens",
        r"token count is ([\d][\d,_]{2,14})",
    )
)
"""Patterns of the number of tokens that a server has counted in a request."""
_SPARE_TOKENS, _MIN_ANSWER_TOKENS = 16, 256
"""Tokens that servers may count in addition at the next try, and tokens of the shortest answer that is worth a
request."""


def says_too_long(words: str) -> bool:
    """Whether the server refuses the length: it would answer a shorter request, or a larger model would."""
    words = _ADDRESS.sub("", words)
    if not _TOO_LONG.search(words):
        return False
    if _RATE.search(words) and not _NEVER_FITS.search(words):
        return bool(_PLAIN_WORDS.search(words))
    return not _OUTPUT.search(words) or bool(_OF_INPUT.search(words))


def limit_in(words: str) -> int | None:
    """Return the number of tokens that the model takes, where the words name it."""
    for pattern in _LIMITS:
        match = pattern.search(words)
        if match and (number := as_number(match[1])):
            return number
    return None


def asked_in(words: str, limit: int) -> int | None:
    """Return the number of tokens that the server has counted in the request, where the words name one that is more
    than the ``limit``."""
    for pattern in _ASKED:
        for match in pattern.finditer(words):
            if (number := as_number(match[1])) and number > limit:
                return number
    return None


def room_left(words: str, asked: int) -> int | None:
    """Return the number of tokens that an answer may have so that this prompt fits, where the words say both.

    ``asked`` is the number that the request has reserved for the answer.
    """
    limit = limit_in(words)
    numbers = {n for n in map(as_number, re.findall(r"\d[\d,]{0,14}", words)) if n is not None}
    if limit is None or asked not in numbers:
        return None
    prompts = [n for n in numbers if n < limit and n != asked and n + asked > limit]
    left = limit - max(prompts) - _SPARE_TOKENS if prompts else 0
    return left if left >= _MIN_ANSWER_TOKENS else None
