"""The answer of a server to a call of its tool, as the one outcome of an attempt."""

from typing import Any

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

from pentad.contracts.tools import ToolOutcome
from pentad.services.tool_worker.domain import RESULT_LIMIT
from pentad.services.tool_worker.servers.inputs import CannotAskError, suspension_of
from pentad.shared.clipping import clip, plain
from pentad.shared.plugins.results import clean

_MAX_WORD = 200
"""Characters of a type, a name or an address that a line shows."""
_MAX_BLOCKS = 1_000
"""Parts of one result that are looked at."""


def outcome_of(tool: str, result: CallToolResult | InputRequiredResult) -> ToolOutcome:
    """Return the outcome that a server's answer is."""
    if isinstance(result, InputRequiredResult):
        try:
            return ToolOutcome("suspended", "", suspension=suspension_of(result))
        except CannotAskError as error:
            return input_required(tool, str(error))
    text = result_text(result)
    return (
        ToolOutcome("error", text or f"{tool} failed and does not say why")
        if result.is_error
        else ToolOutcome("ok", text)
    )


def input_required(tool: str, why: str) -> ToolOutcome:
    """Return the outcome of a call for which the server wants something of a person that nobody can be asked for."""
    return ToolOutcome("error", f"{tool} needs input from a person, and nobody can be asked here: {why}")


def wants_input(code: int) -> bool:
    """Return whether an error of the protocol says that a person is needed."""
    return code == URL_ELICITATION_REQUIRED


def result_text(result: CallToolResult) -> str:
    """Return a result as the text that a model reads.

    The one place where it is decided what becomes of images, sound and files: a line that says what there is. Where no
    part is text, the structured content goes before such lines.
    """
    parts, has_text, room = list[str](), False, RESULT_LIMIT
    for block in result.content[:_MAX_BLOCKS]:
        text, said = _part(block)
        has_text = has_text or said
        text = clip(clean(text), room + 1)
        room -= len(text)
        parts.append(text)
        if room < 0:  # what is over the limit is cut, and says so, where the call is closed
            break
    if not has_text and result.structured_content is not None:
        parts.insert(0, _json(result.structured_content))
    if len(result.content) > _MAX_BLOCKS:
        parts.append(f"[{len(result.content) - _MAX_BLOCKS} more parts are left out]")
    return "\n".join(parts)


def _part(block: ContentBlock) -> tuple[str, bool]:
    """Return the text that stands for a part of a result, and whether it is the part's own."""
    if isinstance(block, TextContent):
        return block.text, True
    if isinstance(block, ImageContent | AudioContent):
        return f"[{block.type} {_word(block.mime_type)}, {_bytes(block.data)}: not shown]", False
    if isinstance(block, ResourceLink):
        about = [_word(each) for each in (block.name, block.mime_type) if each]
        return f"[resource {_word(str(block.uri))}: {', '.join(about)}]", False
    assert isinstance(block, EmbeddedResource)
    resource = block.resource
    if isinstance(resource, TextResourceContents):
        return resource.text, True
    assert isinstance(resource, BlobResourceContents)
    kind = _word(resource.mime_type or "of unknown type")
    return f"[resource {_word(str(resource.uri))}, {kind}, {_bytes(resource.blob)}: not shown]", False


def _bytes(data: str) -> str:
    """Return the size of base64 in words."""
    return f"{len(data.rstrip('=')) * 3 // 4} bytes"


def _word(text: str) -> str:
    return plain(text, _MAX_WORD)


def _json(value: Any) -> str:
    return clean(to_json(value, inf_nan_mode="strings").decode())
