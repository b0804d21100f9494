"""The ids of tool calls, in the form in which a model's server takes them back. Pure: bytes in, bytes out.

A transcript names calls by our ids. Servers look at ids: Mistral's want nine letters and digits, Kimi's templates read
`functions.NAME:INDEX`, and all of them take what they gave themselves. So a kind of model is sent the ids that its
server gave, and for the calls of another kind nine letters and digits, which all known servers but Kimi's take.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from hashlib import sha256
from string import ascii_letters, digits
from typing import Literal

from pentad.shared.models.thoughts import given_ids, without_kept

CallIdForm = Literal["given", "short", "numbered"]
"""The form of call ids. `given`: a server's own ids where it gave them, else short ones; `numbered`:
`functions.NAME:INDEX` for all."""

_CALLS = b',"tool_calls":['
_CALL = re.compile(rb'\{"id":"([^"\\]*)"(?:,"type":"function")?,"function":\{"name":"([^"\\]*)"')
_RESULT = re.compile(rb'^(\{"role":"tool","tool_call_id":")([^"\\]*)"')
_LETTERS = (digits + ascii_letters).encode()
_SHORT_ID_CHARS = 9


def form_for(model: str) -> CallIdForm:
    """Return the form that a model is sent before its server has refused one."""
    return "numbered" if "kimi" in model.lower() else "given"


def with_sent_ids(messages: Sequence[bytes], kind: str, form: CallIdForm) -> Sequence[bytes]:
    """Return the messages of a transcript with each call and each result under the id that this kind of model gets."""
    sent = _SentIds(kind, form)
    return [sent.of_calls(line) if _CALLS in line else sent.of_result(line) for line in messages]


def has_made_ids(messages: Sequence[bytes], kind: str) -> bool:
    """Whether a transcript has calls for which this kind of model's server gave no id, so that it is sent made ones."""
    lines = (line for line in messages if _CALLS in line)
    return any(not given or b"" in given for given in (given_ids(line, kind) for line in lines))


class _SentIds:
    def __init__(self, kind: str, form: CallIdForm) -> None:
        self._kind, self._form = kind, form
        self._known: dict[bytes, bytes] = {}
        """The ids that are sent, by ours."""
        self._used = {b""}
        """The ids that were sent already: some servers count anew with each answer, and others want each id once."""
        self._number = 0
        """Number of calls so far."""

    def of_calls(self, line: bytes) -> bytes:
        """Return an assistant's line with the ids of its calls as they are sent."""
        said = without_kept(line)
        given = given_ids(line, self._kind) if self._form != "short" else ()
        for at, (ours, name) in enumerate(_CALL.findall(said)):
            theirs = given[at] if at < len(given) else b""
            made = b"functions.%s:%d" % (name, self._number) if self._form == "numbered" else short(ours)
            self._number += 1
            self._known[ours] = made if theirs in self._used else theirs
            self._used.add(self._known[ours])
        changed = _CALL.sub(self._called, said)
        return changed[:-1] + line[len(said) - 1 :] if len(said) < len(line) else changed

    def of_result(self, line: bytes) -> bytes:
        """Return any other line; a result's names its call by the id that is sent."""
        found = _RESULT.match(line)
        if found is None:
            return line
        return b'%s%s"%s' % (found[1], self._known.get(found[2], found[2]), line[found.end() :])

    def _called(self, found: re.Match[bytes]) -> bytes:
        return b'{"id":"%s%s' % (self._known[found[1]], found[0][len(found[1]) + 7 :])


def short(ours: bytes) -> bytes:
    """Return nine letters and digits that stand for one of our ids."""
    number = int.from_bytes(sha256(ours).digest(), "big")
    return bytes(_picked(number))


def _picked(number: int) -> Iterator[int]:
    for _ in range(_SHORT_ID_CHARS):
        number, place = divmod(number, len(_LETTERS))
        yield _LETTERS[place]
