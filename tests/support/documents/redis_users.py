"""The users of Redis, one for each service, as rules of its ACL: ``k8s/redis/users.acl`` is made from here.

python -m tests.support.documents.redis_users

A service may use the streams of the registry that it writes or reads. All other keys are named below by the functions
of `shared/keys.py`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from pentad.contracts.ids import encoded_id
from pentad.contracts.streams import INBOUND, SERVICES, STREAMS, Service, Stream
from pentad.shared import keys
from pentad.shared.keys import TaskKeys
from tests.support.documents.manifests import ROOT

PATH = ROOT / "k8s" / "redis" / "users.acl"
SECRET = "SECRET"
"""Placeholder for the password of each user, which operators choose."""
OPERATOR = "operator"
COMMANDS = "resetchannels -@all +@read +@write +@connection -@dangerous -@scripting +eval +evalsha +time"
_ANY = 999
"""A shard's number that becomes the pattern of every shard."""
_SHARDS = "{[0-9]*}"
_WHOLE_SHARDS = f"pentad:{_SHARDS}:*"
_REGISTRIES = (keys.MODELS_REGISTRY, keys.INSTRUCTIONS_REGISTRY, keys.GRAPHS_REGISTRY, keys.POLICIES_REGISTRY)
_PUBLISHED = (keys.INSTRUCTIONS_PUBLISHED, keys.GRAPHS_PUBLISHED)
_OF_MODELS = f"pentad:{{{keys.MODELS_REGISTRY}}}:*"

EVERYBODY = (keys.CLUSTER, keys.PROBE, keys.LOOP_HOLDS, keys.PROCESSES, keys.TOTALS)
"""Keys that every service reads and writes beside its streams."""
_OF_MEMORY = (keys.FORGOTTEN_NOTES, keys.MEMORY_COUNTS, f"{keys.UNDOABLE}*")
"""Keys that services which remove memories write."""
SHARES: Mapping[Service, Sequence[str]] = {
    "gateway": (
        _WHOLE_SHARDS,
        f"{keys.REMEMBERS}*",
        *_OF_MEMORY,
        keys.MEMORY_REBUILD,
        keys.MEMORY_REBUILD_LATER,
        *_REGISTRIES,
        *(keys.registry_versions(registry, "*") for registry in _REGISTRIES),
        keys.SERVERS_REGISTRY,
        keys.GATEWAY_ADDRESS,
        f"{keys.SIGN_INS}*",
        keys.HTTP_TOOLS_REGISTRY,
        keys.WEBHOOKS_REGISTRY,
        keys.PLUGIN_RELOAD,
        keys.HOOKS_PUBLISHED,
        f"{keys.SCHEDULES}*",
        f"{keys.TOOL_STATES}*",
        keys.MODEL_HEALTH,
        f"pentad:{{{STREAMS['inbound-dead'].template}}}:*",
        STREAMS["inbound-dead"].template,
    ),
    "router": (
        _WHOLE_SHARDS,
        keys.INBOUND_LEASE,
        f"pentad:{{{STREAMS['inbound-dead'].template}}}:*",
        _OF_MODELS,
        keys.MODEL_HEALTH,
        f"{keys.IN_USE}*",
    ),
    "task-runner": (_WHOLE_SHARDS, f"{keys.REMEMBERS}*", _OF_MODELS, keys.MODEL_HEALTH, f"{keys.IN_USE}*"),
    "tool-worker": (
        f"{TaskKeys(_ANY, '*', '*').header}",
        keys.bell(_ANY),
        keys.attempts(_ANY),
        keys.waiting_calls(_ANY),
        keys.TOOLS_REGISTRY,
        f"{keys.TOOL_STATES}*",
        keys.SERVER_REPORTS,
        f"{keys.SIGN_INS}*",
        keys.PLUGIN_REPORTS,
        keys.PLUGIN_TURN,
        keys.HOOKS_PUBLISHED,
        *_PUBLISHED,
        *_OF_MEMORY,
    ),
    "embedding": (keys.attempts(_ANY), keys.vector(_ANY, "*"), _OF_MODELS, keys.MODEL_HEALTH, f"{keys.IN_USE}*"),
    "archiver": (
        _WHOLE_SHARDS,
        INBOUND.template,
        STREAMS["inbound-dead"].template,
        keys.WEBHOOKS_REGISTRY,
        f"{keys.REMEMBERS}*",
        *_OF_MEMORY,
        keys.MEMORY_REBUILD,
        keys.MEMORY_REBUILD_LATER,
        keys.MEMORY_REBUILD_LEASE,
        keys.MEMORY_WAITS,
        f"{keys.EXTRACTION}*",
        f"{keys.SCHEDULES}*",
        _OF_MODELS,
        keys.MODEL_HEALTH,
        f"{keys.IN_USE}*",
    ),
}
"""Keys that a service reads and writes besides."""
LOOKS: Mapping[Service, Sequence[str]] = {
    "gateway": (
        keys.INBOUND_LEASE,
        keys.MEMORY_REBUILD_LEASE,
        keys.MEMORY_WAITS,
        f"{keys.EXTRACTION}*",
        keys.TOOLS_REGISTRY,
        keys.SERVER_REPORTS,
        f"{keys.SIGN_INS}*",
        keys.PLUGIN_REPORTS,
        _OF_MODELS,
        *_PUBLISHED,
    ),
    "router": (*_REGISTRIES, *_PUBLISHED),
    "task-runner": (*_REGISTRIES, keys.TOOLS_REGISTRY, keys.HOOKS_PUBLISHED, *_PUBLISHED),
    "tool-worker": (
        keys.SERVERS_REGISTRY,
        keys.GATEWAY_ADDRESS,
        keys.HTTP_TOOLS_REGISTRY,
        keys.PLUGIN_RELOAD,
        f"{keys.tag(_ANY)}:user:*:*:erased",
        f"{keys.tag(_ANY)}:session:*:*:erased",
    ),
    "embedding": (keys.MODELS_REGISTRY,),
    "archiver": (*_REGISTRIES, *_PUBLISHED),
}
"""Keys that a service only reads."""


def _pattern(key: str) -> str:
    return key.replace(f"{{{_ANY}}}", _SHARDS).replace(encoded_id("*"), "*")


def _streams_of(service: Service) -> Iterator[str]:
    for stream in STREAMS.values():
        if service in (*stream.writers, *stream.readers):
            yield _pattern(stream.key(_ANY, **dict.fromkeys(_parts(stream), "*")))


def _parts(stream: Stream) -> list[str]:
    return [name for name in ("queue", "reply", "tenant", "session") if f"{{{name}}}" in stream.template]


def rule(service: Service) -> str:
    """The rule of one service's user."""
    own = sorted({*_streams_of(service), *map(_pattern, (*EVERYBODY, *SHARES[service]))})
    if (whole := _pattern(_WHOLE_SHARDS)) in own:
        own = [key for key in own if key == whole or not key.startswith(f"pentad:{_SHARDS}:")]
    seen = sorted({_pattern(key) for key in LOOKS[service]} - {*own})
    return _line(service, [*(f"~{key}" for key in own), *(f"%R~{key}" for key in seen)])


def _line(user: str, patterns: Iterable[str], more: str = "") -> str:
    return f"user {user} on >{SECRET} {' '.join(patterns)} {COMMANDS}{more}"


def text() -> str:
    """Return the whole file: the users of the services and of the operator."""
    operator = _line(OPERATOR, [f"~{keys.PREFIX}*"], " +info +config|get")
    return "\n".join([*map(rule, SERVICES), operator]) + "\n"


def service_users(password: str) -> dict[str, list[str]]:
    """The rules of the file by user, as ``ACL SETUSER`` takes them, with one password for all."""
    lines = [line.split() for line in PATH.read_text().splitlines()]
    return {words[1]: [word.replace(f">{SECRET}", f">{password}") for word in words[2:]] for words in lines}


if __name__ == "__main__":
    PATH.write_text(text())
