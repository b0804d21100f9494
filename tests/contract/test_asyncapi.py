"""The AsyncAPI document says of every stream what the registry says, and its schemas take the golden examples."""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from jsonschema.exceptions import ValidationError  # type: ignore[import-untyped]

from pentad.contracts.asyncapi import FIELD, carried, document, type_name
from pentad.contracts.envelope import Contract
from pentad.contracts.streams import EVENTS, STREAMS, Stream
from tests.support.documents.examples import FOLDER, Example, examples
from tests.support.documents.streams_table import tables, written

COMMITTED = FOLDER.parent / "asyncapi.json"
DOCUMENT = document()
CARRIED = [example for example in examples() if example.kind in DOCUMENT["components"]["messages"]]


def resolve(ref: str) -> Any:
    """What a reference points at. Raises ``KeyError`` when it points at nothing."""
    found: Any = DOCUMENT
    for part in ref.removeprefix("#/").split("/"):
        found = found[part]
    return found


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if "$ref" in value:
            yield value["$ref"]
        for part in value.values():
            yield from references(part)
    elif isinstance(value, list):
        for part in value:
            yield from references(part)


def validator(name: str) -> Draft202012Validator:
    payload = DOCUMENT["components"]["messages"][name]["payload"]["$ref"]
    return Draft202012Validator({"$ref": payload, "components": DOCUMENT["components"]})


def test_the_committed_document_is_todays() -> None:
    assert json.loads(COMMITTED.read_text()) == DOCUMENT, (
        "run: python -m pentad.contracts.asyncapi > contracts/asyncapi.json"
    )


def test_it_is_printed_as_it_is_committed() -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "pentad.contracts.asyncapi"],
        capture_output=True,
        check=True,
        timeout=60,
        cwd=FOLDER.parents[1],
    )
    assert printed.stdout == COMMITTED.read_bytes()


def test_every_reference_leads_somewhere() -> None:
    assert [resolve(ref) for ref in references(DOCUMENT)]
    with pytest.raises(KeyError):
        resolve("#/components/schemas/Nobody")


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)
def test_a_stream_is_a_channel_with_its_writers_and_readers(stream: Stream) -> None:
    channel = DOCUMENT["channels"][stream.name]
    assert channel["address"] == stream.template
    assert list(channel["messages"]) == [type_name(contract) for contract in stream.carries]
    assert channel["x-retention"]["rule"] == stream.retention
    assert channel["x-redis"].get("group") == stream.group
    assert channel["x-redis"].get("deadLetters") == stream.dead
    operations = [o for o in DOCUMENT["operations"].values() if o["channel"] == {"$ref": f"#/channels/{stream.name}"}]
    for action, parties in (("send", stream.writers), ("receive", stream.readers)):
        assert [o["tags"][0]["name"] for o in operations if o["action"] == action] == list(parties)
    assert all(resolve(ref["$ref"]) for o in operations for ref in o["messages"])


def test_there_is_no_channel_and_no_message_beside_the_registry() -> None:
    assert list(DOCUMENT["channels"]) == list(STREAMS)
    assert list(DOCUMENT["components"]["messages"]) == [type_name(contract) for contract in carried()]
    assert len(DOCUMENT["operations"]) == sum(len(s.writers) + len(s.readers) for s in STREAMS.values())


def test_an_address_filled_in_is_the_redis_key() -> None:
    address = document(shards=3)["channels"]["events"]["address"]
    shard = document(shards=3)["components"]["parameters"]["shard"]
    assert shard["enum"] == ["{0}", "{1}", "{2}"]
    filled = address.replace("{tenant}", "t").replace("{session}", "s").replace("{shard}", shard["enum"][2])
    assert filled == EVENTS.key(2, tenant="t", session="s")
    assert list(DOCUMENT["channels"]["events"]["parameters"]) == ["shard", "tenant", "session"]
    assert "parameters" not in DOCUMENT["channels"]["inbound"]


@pytest.mark.parametrize("name", DOCUMENT["components"]["messages"])
def test_a_message_has_a_valid_schema_and_says_what_it_is(name: str) -> None:
    message = DOCUMENT["components"]["messages"][name]
    Draft202012Validator.check_schema(resolve(message["payload"]["$ref"]))
    assert message["summary"].endswith((".", "?")) or len(message["summary"]) > 20
    assert (
        name not in {type_name(c) for c in EVENTS.carries} or "type" in resolve(message["payload"]["$ref"])["required"]
    )


@pytest.mark.parametrize("contract", [c for c in carried() if "type" in c.model_fields], ids=type_name)
def test_a_reader_may_rely_on_the_type(contract: type[Contract]) -> None:
    schema = resolve(f"#/components/schemas/{contract.__name__}")
    assert "type" in schema["required"]
    assert schema["properties"]["type"]["const"] == type_name(contract)


@pytest.mark.parametrize("example", CARRIED, ids=str)
def test_the_schema_takes_the_golden_example(example: Example) -> None:
    validator(example.kind).validate(example.read())


@pytest.mark.parametrize("example", [e for e in CARRIED if not e.is_input], ids=str)
def test_the_schema_refuses_what_the_code_refuses(example: Example) -> None:
    check = validator(example.kind)
    required = [field.alias or name for name, field in example.contract.model_fields.items() if field.is_required()]
    for name in required:
        with pytest.raises(ValidationError):
            check.validate({key: value for key, value in example.read().items() if key != name})
    if "version" in example.contract.model_fields:
        with pytest.raises(ValidationError):
            check.validate({**example.read(), "version": 2})


def test_the_field_of_an_entry_is_the_one_that_is_read() -> None:
    """Golden dead letters hold whole entries."""
    letters = [example.read() for example in CARRIED if example.kind == "dead_letter"]
    assert {field for letter in letters for field in letter["body"] if letter["kind"] == "entry"} == {FIELD}
    assert {channel["x-redis"]["field"] for channel in DOCUMENT["channels"].values()} == {FIELD}


def test_the_table_of_streams_is_todays() -> None:
    assert written() == tables(), "run: python -m tests.support.documents.streams_table"
