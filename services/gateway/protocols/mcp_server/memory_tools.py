"""The tools of the MCP server that search, open and extend the long-term memory of a tenant."""

from collections.abc import Mapping
from typing import Any

from pentad.contracts.ids import EXTERNAL_ID_RULE, is_external_id, milliseconds
from pentad.contracts.memories import MemoryKind
from pentad.services.gateway.domain.additions import read_node
from pentad.services.gateway.domain.expansion import read_expansion
from pentad.services.gateway.domain.frames import UnreadableError
from pentad.services.gateway.edge.http import tenant_of
from pentad.services.gateway.memory.memories import Memories
from pentad.services.gateway.memory.memory_turns import MemoryTurns
from pentad.services.gateway.memory.statements import KnowledgeEdits
from pentad.services.gateway.protocols.mcp_server.session_tools import ToolRequest
from pentad.services.gateway.protocols.mcp_server.tool_answers import ToolAnswer, answer_of_data
from pentad.shared.memory.ranking import MOST_FOUND
from pentad.shared.memory.walk_choice import BY_RULE, DEFAULT_DEPTH, NO_WALK
from pentad.shared.owners import Owner
from pentad.shared.recall.questions import MOST_CHARS

_HITS_DEFAULT = 10
_KINDS = (MemoryKind.EPISODIC, MemoryKind.SEMANTIC)


class MemoryTools:
    """Carries out calls of the tools of memory.

    Methods raise ``ProblemError``, ``UnreadableError`` and ``OutageError``.
    """

    def __init__(self, memories: Memories, edits: KnowledgeEdits, turns: MemoryTurns) -> None:
        self._memories, self._edits, self._turns = memories, edits, turns

    async def search(self, call: ToolRequest) -> ToolAnswer:
        """Find memories, the best first."""
        asked = call.fields("query", "limit", "user_id", "session_id", "kind", "as_of")
        tenant, question, kind = tenant_of(call.request), _question(asked), _kind(asked)
        owner = Owner(tenant, _id(asked, "user_id"), _id(asked, "session_id"))
        walk = NO_WALK if kind is MemoryKind.EPISODIC else BY_RULE  # a walk comes to what is known
        kinds = () if kind is None else (kind.value,)
        async with self._turns.turn(tenant):
            found = await self._memories.search(
                owner, question, _limit(asked), _time(asked), walk, DEFAULT_DEPTH, kinds
            )
        hits = [hit.model_dump(mode="json", exclude_none=True, exclude={"parts"}) for hit in found.hits]
        return answer_of_data({"hits": hits})

    async def expand(self, call: ToolRequest) -> ToolAnswer:
        """Open an anchor."""
        asked = read_expansion(call.fields("anchor", "window", "user_id", "session_id"))
        tenant = tenant_of(call.request)
        async with self._turns.turn(tenant):
            opened = await self._memories.expand(Owner(tenant, asked.user, asked.session), asked.anchor, asked.window)
        return answer_of_data(opened.model_dump(mode="json", exclude_none=True))

    async def note(self, call: ToolRequest) -> ToolAnswer:
        """Keep something that is known; the same words are kept once."""
        asked = read_node({"kind": "fact"} | call.fields("text", "user_id", "kind", "importance"))
        tenant = tenant_of(call.request)
        async with self._turns.turn(tenant):
            node = await self._edits.add_node(tenant, asked)
        return answer_of_data(node.model_dump(mode="json", exclude_none=True))


def _question(asked: Mapping[str, Any]) -> str:
    text = asked.get("query")
    if not isinstance(text, str) or not 1 <= len(text) <= MOST_CHARS:
        raise UnreadableError(f"query: a question of 1 to {MOST_CHARS} characters is expected")
    return text


def _limit(asked: Mapping[str, Any]) -> int:
    limit = asked.get("limit", _HITS_DEFAULT)
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MOST_FOUND:
        raise UnreadableError(f"limit: a number from 1 to {MOST_FOUND} is expected")
    return limit


def _id(asked: Mapping[str, Any], name: str) -> str | None:
    given = asked.get(name)
    if given is not None and not (isinstance(given, str) and is_external_id(given)):
        raise UnreadableError(f"{name}: an id of {EXTERNAL_ID_RULE} is expected")
    return given


def _kind(asked: Mapping[str, Any]) -> MemoryKind | None:
    given = asked.get("kind")
    if given is not None and given not in _KINDS:
        raise UnreadableError(f"kind: one of {', '.join(_KINDS)} is expected")
    return None if given is None else MemoryKind(given)


def _time(asked: Mapping[str, Any]) -> int | None:
    given = asked.get("as_of")
    try:
        return None if given is None else max(0, milliseconds(given if isinstance(given, str) else ""))
    except ValueError as error:
        raise UnreadableError(f"as_of: {error}") from None
