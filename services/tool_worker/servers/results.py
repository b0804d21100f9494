"""The answer of a server to a call of its tool, as the one outcome of an attempt."""

import base64
import binascii
from typing import Any
from urllib.parse import unquote

from mcp_types import (
    URL_ELICITATION_REQUIRED,
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    InputRequiredResult,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from pydantic_core import to_json

from pentad.contracts.tools import Artifact, ToolOutcome
from pentad.services.tool_worker.servers.inputs import CannotAskError, suspension_of
from pentad.services.tool_worker.tool_value import joined_value
from pentad.shared.clipping import plain
from pentad.shared.plugins.results import clean

_MAX_WORD = 200
"""Characters of a type, a name or an address that a line shows."""
_MAX_BLOCKS = 1_000
"""Parts of one result that are looked at."""


def outcome_of(tool: str, result: CallToolResult | InputRequiredResult, call: str | None = None) -> ToolOutcome:
    """Return the outcome that a server's answer is. ``call``: the id of the call whose files are kept; None: none."""
    if isinstance(result, InputRequiredResult):
        try:
            return ToolOutcome("suspended", "", suspension=suspension_of(result))
        except CannotAskError as error:
            return input_required(tool, str(error))
    value = joined_value(tool, result_parts(result), call)
    if result.is_error:
        return ToolOutcome("error", value.text or f"{tool} failed and does not say why", made=value.artifacts)
    return ToolOutcome("ok", value.text, made=value.artifacts)


def input_required(tool: str, why: str) -> ToolOutcome:
    """Return the outcome of a call for which the server wants something of a person that nobody can be asked for."""
    return ToolOutcome("error", f"{tool} needs input from a person, and nobody can be asked here: {why}")


def wants_input(code: int) -> bool:
    """Return whether an error of the protocol says that a person is needed."""
    return code == URL_ELICITATION_REQUIRED


def result_parts(result: CallToolResult) -> list[str | Artifact]:
    """Return the texts of a result and the files in it: images, sound, and other bytes.

    Where no part is text, the structured content goes first.
    """
    parts = [_part(block) for block in result.content[:_MAX_BLOCKS]]
    if not any(isinstance(each, TextContent | EmbeddedResource) for each in result.content):
        parts[:0] = [] if result.structured_content is None else [_json(result.structured_content)]
    if len(result.content) > _MAX_BLOCKS:
        parts.append(f"[{len(result.content) - _MAX_BLOCKS} more parts are left out]")
    return parts


def _part(block: ContentBlock) -> str | Artifact:
    if isinstance(block, TextContent):
        return clean(block.text)
    if isinstance(block, ImageContent | AudioContent):
        return _file(block.data, "", block.mime_type)
    if isinstance(block, ResourceLink):
        about = [_word(each) for each in (block.name, block.mime_type) if each]
        return f"[resource {_word(str(block.uri))}: {', '.join(about)}]"
    assert isinstance(block, EmbeddedResource)
    resource = block.resource
    if isinstance(resource, TextResourceContents):
        return clean(resource.text)
    assert isinstance(resource, BlobResourceContents)
    return _file(resource.blob, _last_name(str(resource.uri)), resource.mime_type)


def _file(encoded: str, name: str, media_type: str | None) -> str | Artifact:
    """Return the file that base64 stands for. It is named by what the server says, and checked where it is kept."""
    try:
        return Artifact(base64.b64decode(encoded), name, media_type)
    except (binascii.Error, ValueError):
        return f"[a file of type {_word(media_type or 'unknown')} that is not base64, and is not kept]"


def _last_name(uri: str) -> str:
    """Return the last name in the path of an address; '' for one without."""
    return clean(unquote(uri.partition("?")[0].partition("#")[0].rpartition("/")[2]))


def _word(text: str) -> str:
    return plain(text, _MAX_WORD)


def _json(value: Any) -> str:
    return clean(to_json(value, inf_nan_mode="strings").decode())
