"""Counts tokens of prompts without a tokenizer: by a bound over bytes, calibrated by what answers report."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from string import ascii_lowercase, digits
from typing import Literal, get_args

Texture = Literal["plain", "dense", "accented", "wide"]
"""Kind of a line by its bytes: prose, code and JSON; digits and codes; Latin with accents and other short scripts;
Chinese and other scripts of three bytes a character. A tokenizer has a cost of its own for each."""

MARGIN = 1.1
"""Factor by which a count lies above what answers of late have reported for such lines."""
_DECAY = 0.97
"""Factor by which each answer lowers a ratio at most: a costly line is remembered for some twenty answers."""
_FLOOR = 0.45
"""Least ratio that is believed: a conversation of cheap lines says nothing of the line that comes next."""
_MIN_BOUND = 200
"""Least bound of a prompt that is learned from: of a shorter one most is what its server adds."""
_MAX_RATIO = 8.0
"""Largest ratio that is believed. A server that counts more than this makes its numbers up."""
_PROMPT_TOKENS, _MESSAGE_TOKENS, _TOOLS_TOKENS = 16, 4, 400
"""Tokens that servers add: to each prompt, to each message beside its JSON, and to tools (Anthropic's: up to 346)."""
_MAX_WAITING = 64
"""Reports that wait to be learned from: while nobody counts, only the newest matter."""
_MAX_WAITING_BYTES = 32 * 1024
"""Bytes of a prompt whose report may wait; a longer one is learned from at once, so that its lines are not kept."""
_MAX_LINES = 16_384
"""Lines whose bounds are remembered, each by its hash and length."""

_EIGHTHS = 8
_LOWER, _SPACE, _ESCAPE, _UPPER, _SIGN, _TWO_BYTES, _THREE_BYTES, _FOUR_BYTES = 4, 2, 3, 6, 8, 10, 16, 32
"""Eighths of a token that a character costs, by its kind; digits are signs, a backslash of JSON is an escape. Measured:
docs/decisions/0041-counting-tokens.md."""
_LOWER_BYTES = ascii_lowercase.encode()
_UPPER_BYTES = _LOWER_BYTES.upper()
_DIGIT_BYTES = digits.encode()
_FOLLOWING = bytes(range(0x80, 0xC0))
_LEADS_TWO, _LEADS_THREE, _LEADS_FOUR = bytes(range(0xC0, 0xE0)), bytes(range(0xE0, 0xF0)), bytes(range(0xF0, 0x100))
_WIDE_SHARE = 32
"""A line is not ASCII text when more than one of so many of its bytes are not."""
_DENSE_SHARE = 4
"""A line is dense when more than one of so many of its bytes are capitals or digits."""
_DENSE_FACTOR = 1.25
"""Factor of the bound of a dense line: random letters and digits (base64, hashes) cost more than their kinds say."""


class TokenCounter:
    """Counts prompts for one model. A count errs to the high side.

    Each line has a bound that depends on its bytes alone, and a texture. For each texture the counter keeps a ratio of
    tokens to bound, 1 at first. An answer that reports more than was counted raises the ratios at once; one that
    reports less lowers them little by little, and no further than it proves: what it reports is the most that the lines
    of any one texture can have cost.
    """

    def __init__(self) -> None:
        self._ratios: dict[Texture, float] = dict.fromkeys(get_args(Texture), 1.0)
        self._known: OrderedDict[tuple[int, int], tuple[Texture, float]] = OrderedDict()
        self._calibrated = False
        self._waiting: deque[tuple[Sequence[bytes], bytes | None, int]] = deque(maxlen=_MAX_WAITING)
        """Reports of answers since the last count."""

    def count(self, lines: Sequence[bytes], tools: bytes | None = None) -> int:
        """Return the tokens of a prompt of these messages and tools, ready JSON in OpenAI form, at most."""
        while self._waiting:
            self._learn(*self._waiting.popleft())
        predicted = self._predicted(self._bounds(lines, tools))
        return int(predicted * (MARGIN if self._calibrated else 1.0)) + 1

    def learn(self, lines: Sequence[bytes], tools: bytes | None, reported: int) -> None:
        """Take the tokens that a server has ``reported`` for a prompt. It costs nothing until the next count."""
        self._waiting.append((lines, tools, reported))
        if sum(map(len, lines)) > _MAX_WAITING_BYTES:
            while self._waiting:
                self._learn(*self._waiting.popleft())

    def _learn(self, lines: Sequence[bytes], tools: bytes | None, reported: int) -> None:
        bounds = self._bounds(lines, tools)
        whole = sum(bounds.values())
        if reported <= 0 or whole < _MIN_BOUND or reported > whole * _MAX_RATIO:
            return
        self._calibrated = True
        predicted = self._predicted(bounds)
        for texture, bound in bounds.items():
            ratio = self._ratios[texture]
            if reported > predicted:
                self._ratios[texture] = min(_MAX_RATIO, ratio * reported / predicted)
            elif (proved := reported / bound) < ratio:
                self._ratios[texture] = max(_FLOOR, proved, ratio * _DECAY)

    def _predicted(self, bounds: dict[Texture, float]) -> float:
        return sum(self._ratios[texture] * bound for texture, bound in bounds.items())

    def _bounds(self, lines: Sequence[bytes], tools: bytes | None) -> dict[Texture, float]:
        """Return the bounds of a prompt's lines by their textures."""
        bounds: dict[Texture, float] = {"plain": _PROMPT_TOKENS + _MESSAGE_TOKENS * len(lines)}
        for line in lines if tools is None else (*lines, tools):
            texture, bound = self._bound(line)
            bounds[texture] = bounds.get(texture, 0.0) + bound
        if tools is not None:
            bounds["plain"] += _TOOLS_TOKENS
        return bounds

    def _bound(self, line: bytes) -> tuple[Texture, float]:
        name = (hash(line), len(line))
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = bound_of(line)
            if len(self._known) > _MAX_LINES:
                self._known.popitem(last=False)
        return known


def bound_of(line: bytes) -> tuple[Texture, float]:
    """Return the texture of a line and the tokens that it has at most, by the kinds of its characters.

    Each kind is counted by deleting it, which runs over a megabyte in a millisecond.
    """
    length = len(line)
    rest = line.translate(None, _LOWER_BYTES)
    lower, left = length - len(rest), len(rest)
    rest = rest.translate(None, b" ")
    spaces, left = left - len(rest), len(rest)
    rest = rest.translate(None, _UPPER_BYTES)
    upper, left = left - len(rest), len(rest)
    rest = rest.translate(None, _DIGIT_BYTES)
    numerals, left = left - len(rest), len(rest)
    escapes = rest.count(b"\\")
    eighths = lower * _LOWER + spaces * _SPACE + upper * _UPPER + numerals * _SIGN + escapes * _ESCAPE
    left -= escapes
    if line.isascii():
        bound = (eighths + left * _SIGN) / _EIGHTHS
        is_dense = (upper + numerals) * _DENSE_SHARE > length
        return ("dense", bound * _DENSE_FACTOR) if is_dense else ("plain", bound)
    rest = rest.translate(None, _FOLLOWING)
    two, three, four = (
        len(rest) - len(rest.translate(None, leads)) for leads in (_LEADS_TWO, _LEADS_THREE, _LEADS_FOUR)
    )
    signs = len(rest) - escapes - two - three - four
    eighths += signs * _SIGN + two * _TWO_BYTES + three * _THREE_BYTES + four * _FOUR_BYTES
    if (two * 2 + three * 3 + four * 4) * _WIDE_SHARE <= length:
        return "plain", eighths / _EIGHTHS
    return "accented" if two > three + four else "wide", eighths / _EIGHTHS
