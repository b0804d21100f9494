"""Meanings of a server's refusals: the one table of them, made from the sources of Valkey and Redis. Pure.

Most refusals say that Redis cannot serve now. Nothing was the command's fault then: whoever asked waits and asks again,
and counts nothing (hazards 7 and 12). What is left is the flow of the protocol (NOGROUP, NOSCRIPT, ...) or our bug.
"""

import re
from dataclasses import dataclass

from redis.exceptions import ConnectionError, InvalidResponse, RedisError, ResponseError, TimeoutError

_MIN_AGE_S, _MIN_AGE_OF_STARTING_SERVER_S = 0.5, 2.0
"""How old a connection must be before it is given up: a server that has just been asked for is asked a while longer."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """One kind of refusal: what is waited for, in words that say what to do."""

    waits_for: str
    quit_after_s: float | None = None
    """How old a connection must be to be closed for this; None: it is as good as any other."""
    to_mend: bool = False
    """Whether the refusal does not pass by itself: a person must act, and is told until that is done."""


_REPLICA = Refusal("this server is a replica: waiting for the primary at this address", _MIN_AGE_S)
_CLUSTER = Refusal("the cluster does not serve all keys: waiting until it does", _MIN_AGE_OF_STARTING_SERVER_S)
_PERMISSION = Refusal("the user of REDIS_URL may not do that: allow it (docs/redis.md)", to_mend=True)
_PASSWORD = Refusal(
    "the user name or password of REDIS_URL is wrong, or missing: correct one of the two",
    _MIN_AGE_OF_STARTING_SERVER_S,
    to_mend=True,
)
_FULL = Refusal("Redis is full: raise maxmemory or make room", to_mend=True)
_BUSY = Refusal("Redis is busy with a long script or command: waiting for its end")

REFUSALS = {
    # a server that is not the primary, or not any more
    "READONLY": _REPLICA,
    "UNBLOCKED": Refusal("the server has ended a read that waited: asking again", _MIN_AGE_S),
    "REDIRECT": _REPLICA,
    "MASTERDOWN": Refusal("this server is a replica without its primary: waiting for the primary", _MIN_AGE_S),
    # one that comes up, is full, cannot write, or is busy
    "LOADING": Refusal("Redis loads its data: waiting for the end of it", _MIN_AGE_OF_STARTING_SERVER_S),
    "OOM": _FULL,
    "MISCONF": Refusal("Redis cannot write to its disk: see its log, and make room there", to_mend=True),
    "NOREPLICAS": Refusal(
        "too few replicas follow (min-replicas-to-write): waiting for them", _MIN_AGE_OF_STARTING_SERVER_S
    ),
    "BUSY": _BUSY,
    # a cluster
    "CLUSTERDOWN": _CLUSTER,
    "TRYAGAIN": _CLUSTER,
    "MOVED": Refusal("another node of the cluster serves this key: Pentad wants all keys on one primary", _MIN_AGE_S),
    "ASK": Refusal(
        "this key moves to another node of the cluster: Pentad wants all keys on one primary",
        _MIN_AGE_OF_STARTING_SERVER_S,
    ),
    # what a person must mend
    "WRONGTYPE": Refusal("a key with one of our names holds something else: rename or delete it", to_mend=True),
    "NOPERM": _PERMISSION,
    "NOAUTH": _PASSWORD,
    "WRONGPASS": _PASSWORD,
    "DENIED": Refusal("Redis is in protected mode: give it a password, and REDIS_URL too", to_mend=True),
}
"""Refusals by the code with which they begin."""

_PROTOCOL_CODES = frozenset(
    {"ERR", "NOSCRIPT", "NOGROUP", "BUSYGROUP", "BUSYKEY", "CROSSSLOT", "EXECABORT", "NOPROTO", "NOSUB"}
)
"""Codes that are part of the protocol's flow, or our bug. A code that nobody knows is the server's trouble."""

_BY_WORDS = (
    ("ACL failure in script", _PERMISSION),
    ("The user executing the script can't", _PERMISSION),
    ("while the cluster is down", _CLUSTER),
    ("during rehashing of the slot", _CLUSTER),
    ("a slot not served", _CLUSTER),
    ("a non local key in a cluster node", REFUSALS["MOVED"]),
    ("max number of clients", Refusal("Redis has as many clients as it takes: raise maxclients, or end some")),
    ("command not allowed when used memory", _FULL),
    ("invalid password", _PASSWORD),
    ("Script killed by user", _BUSY),
)
"""Refusals without a code of their own."""
_HANGS_UP = "the server hangs up at once: it wants TLS (rediss://), or is in protected mode"
_HINTS = (
    ("Error while reading", _HANGS_UP),
    ("Connection closed by server", _HANGS_UP),
    (
        "CERTIFICATE_VERIFY_FAILED",
        "its certificate is not trusted: name its CA in REDIS_URL, ?ssl_ca_certs=FILE",
    ),
    ("WRONG_VERSION_NUMBER", "this port speaks no TLS: REDIS_URL with redis:// instead of rediss://"),
    ("record layer failure", "this port speaks no TLS: REDIS_URL with redis:// instead of rediss://"),
    ("Timeout connecting", "nothing answers at this address, or, where it begins with rediss://, there is no TLS"),
    ("Protocol error, got", "what answers there is no Redis, or wants TLS: REDIS_URL with rediss://"),
)
"""Hints for errors of the connection, by words of their texts."""
_IN_SCRIPT = re.compile(r"@user_script: ?\d+: -?([A-Z]+) ")
"""Servers that wrap what a script was refused say its code further on."""
_CODE = re.compile(r"([A-Z]+)(?: |$)")
_UNKNOWN = Refusal("waiting until Redis takes it")


def refusal_of(error: BaseException) -> Refusal | None:
    """Return the meaning of a refusal; None for the protocol's flow, for our bugs, and for errors of no server."""
    text = text_of(error)
    for words, refusal in _BY_WORDS:
        if words in text:
            return refusal
    found = _IN_SCRIPT.search(text) or _CODE.match(text)
    code = found[1] if found else "ERR"
    if not isinstance(error, ResponseError) and code not in REFUSALS:
        return None
    return None if code in _PROTOCOL_CODES else REFUSALS.get(code, _UNKNOWN)


def is_outage(error: BaseException) -> bool:
    """Whether an error says that Redis cannot serve now, rather than that the command was wrong."""
    if isinstance(error, ConnectionError | TimeoutError | InvalidResponse | OSError):
        return True
    return isinstance(error, RedisError) and refusal_of(error) is not None


def quit_after(error: BaseException) -> float | None:
    """How many seconds old a connection must be to be closed for this refusal; None: it is kept."""
    refusal = refusal_of(error)
    return refusal.quit_after_s if refusal is not None else None


def said(error: BaseException, about: str = "") -> str:
    """An error on one line, with what it is about and what is waited for."""
    refusal = refusal_of(error)
    text = text_of(error) or type(error).__name__
    hint = refusal.waits_for if refusal is not None else next((h for words, h in _HINTS if words in text), "")
    return f"{text}{f' ({about})' if about else ''}{f': {hint}' if hint else ''}"


def text_of(error: BaseException) -> str:
    """The server's words with their code, which redis-py keeps apart."""
    code = getattr(error, "status_code", None)
    return f"{code} {error}" if isinstance(code, str) and code else str(error)
