"""The registry of streams as an AsyncAPI 3.0 document. ``python -m pentad.contracts.asyncapi`` prints it.

Facts about Redis Streams for which AsyncAPI has no word are in ``x-`` fields: the entry field that holds the JSON, the
consumer group, the dead-letter stream, and the retention of entries.
"""

import json
import re
from collections.abc import Iterator
from inspect import cleandoc
from typing import Any

from pydantic.json_schema import models_json_schema

from pentad.contracts.envelope import Contract
from pentad.contracts.ids import EXTERNAL_ID_RULE, ID_PATTERN
from pentad.contracts.streams import EVENTS, INBOUND, STREAMS, Stream

Document = dict[str, Any]

FIELD = "data"
"""Field of a stream's entry that holds the JSON."""

_ABOUT = (
    f"Streams of Redis. An entry's field `{FIELD}` holds one JSON object; what else an entry has is Pentad's own. A "
    f"reader drops fields of the object that it does not know. `{INBOUND.key()}` takes messages from any client; an "
    f"entry's id on a stream of `{EVENTS.name}` is the cursor of WebSocket and SSE."
)
_PARAMETERS = {
    "tenant": "The tenant.",
    "session": "The session.",
    "queue": "The tools' queue: 1 to 32 of lower case letters, digits and '-'.",
    "reply": "Names one caller; the caller makes it up.",
}
_RETENTION = {
    "consumed": "cut below what every group has consumed, never by length or age",
    "capped": "cut by length and by TTL",
    "kept": "until a person removes it",
}


def document(shards: int = 1) -> Document:
    """Return the AsyncAPI document of all streams for an installation with this many shards."""
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Pentad",
            "version": "1",
            "description": _ABOUT,
        },
        "defaultContentType": "application/json",
        "servers": {"redis": _server()},
        "channels": {stream.name: _channel(stream) for stream in STREAMS.values()},
        "operations": dict(_operations()),
        "components": {
            "messages": {type_name(contract): _message(contract) for contract in carried()},
            "parameters": _parameters(shards),
            "schemas": schemas(),
        },
    }


def carried() -> tuple[type[Contract], ...]:
    """Return every contract that a stream carries, each once, in the order of the registry."""
    return tuple(dict.fromkeys(contract for stream in STREAMS.values() for contract in stream.carries))


def type_name(contract: type[Contract]) -> str:
    """Return the ``type`` in the contract's JSON, or for a contract without one its class name in the same spelling."""
    field = contract.model_fields.get("type")
    return str(field.default) if field else re.sub(r"(?<=[a-z])(?=[A-Z])", "_", contract.__name__).lower()


def schemas() -> dict[str, Any]:
    """Return the JSON schemas of all contracts that streams carry and of their parts, by class name."""
    found: dict[str, Any] = models_json_schema(
        [(contract, "validation") for contract in carried()], ref_template="#/components/schemas/{model}"
    )[1]["$defs"]
    for contract in carried():
        if "type" in contract.model_fields:
            # It has a default for writers; a reader finds the contract by it.
            schema = found[contract.__name__]
            schema["required"] = ["type", *schema.get("required", ())]
    return found


def _server() -> Document:
    return {
        "host": "{address}",
        "protocol": "redis",
        "description": "Any Redis >= 7.0 or Valkey >= 8; without one of your own, `pentad up` starts one and writes "
        "its address to `redis.url` in its data directory.",
        "variables": {"address": {"default": "127.0.0.1:6379", "description": "Host and port of REDIS_URL."}},
    }


def _channel(stream: Stream) -> Document:
    names = re.findall(r"\{(\w+)\}", stream.template)
    redis = {"type": "stream", "field": FIELD, "group": stream.group, "deadLetters": stream.dead}
    return {
        "address": stream.template,
        "description": stream.description,
        "messages": {type_name(c): _ref("components/messages", type_name(c)) for c in stream.carries},
        **({"parameters": {name: _ref("components/parameters", name) for name in names}} if names else {}),
        "x-redis": {key: value for key, value in redis.items() if value is not None},
        "x-retention": {"rule": stream.retention, "description": _RETENTION[stream.retention]},
    }


def _operations() -> Iterator[tuple[str, Document]]:
    for stream in STREAMS.values():
        for action, parties in (("send", stream.writers), ("receive", stream.readers)):
            for party in parties:
                name = f"{party.replace(' ', '-')}.{action}.{stream.name}"
                yield name, _operation(stream, action, party)


def _operation(stream: Stream, action: str, party: str) -> Document:
    grouped = action == "receive" and stream.group is not None
    return {
        "action": action,
        "channel": _ref("channels", stream.name),
        "messages": [_ref(f"channels/{stream.name}/messages", type_name(c)) for c in stream.carries],
        "tags": [{"name": party}],
        **({"x-redis": {"group": stream.group}} if grouped else {}),
    }


def _message(contract: type[Contract]) -> Document:
    return {
        "name": type_name(contract),
        "title": contract.__name__,
        "summary": cleandoc(contract.__doc__ or "").partition("\n")[0].strip(),
        "contentType": "application/json",
        "payload": _ref("components/schemas", contract.__name__),
    }


def _parameters(shards: int) -> Document:
    """Return the parameters of the addresses. The shard's braces belong to the Redis key: they are a hash tag."""
    tags = ["{" + str(shard) + "}" for shard in range(shards)]
    shard = {
        "description": f'crc32("TENANT/SESSION") mod {shards}, in literal braces: a Redis hash tag.',
        "enum": tags,
        "default": tags[0],
    }
    named = {name: {"description": f"{text}{_pattern(name)}"} for name, text in _PARAMETERS.items()}
    return {"shard": shard, **named}


def _pattern(name: str) -> str:
    if name == "session":
        return f" Percent-encoded (UTF-8) where it does not match `{ID_PATTERN}`: an id has {EXTERNAL_ID_RULE}."
    return f" Matches `{ID_PATTERN}`." if name == "tenant" else ""


def _ref(*path: str) -> Document:
    return {"$ref": "#/" + "/".join(path)}


if __name__ == "__main__":
    print(json.dumps(document(), indent=1))
