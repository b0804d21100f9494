"""The MCP server itself: the official SDK's protocol, without state, over the tools and files of the gateway.

Nothing of this process is needed by a client's next request, so any gateway serves it. This module imports the SDK,
which takes half a second: it is imported when the first client comes.
"""

import asyncio
import logging
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    BlobResourceContents,
    CallToolRequestParams,
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextContent,
    TextResourceContents,
    Tool,
    ToolAnnotations,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from pentad.contracts.ids import is_identifier
from pentad.services.gateway.api_docs.openapi import VERSION
from pentad.services.gateway.domain.frames import UnreadableError
from pentad.services.gateway.edge.access import Caller
from pentad.services.gateway.edge.http import BODY_LIMIT, caller_of, scope_of
from pentad.services.gateway.edge.problems import ProblemError
from pentad.services.gateway.protocols.mcp_server.catalogue import FIXED_TOOLS, RUN_PREFIX, OfferedTool, tools_page
from pentad.services.gateway.protocols.mcp_server.file_resources import TEMPLATE, FileResources
from pentad.services.gateway.protocols.mcp_server.inputs import AskedState, PersonsReply, questions_of, read_state
from pentad.services.gateway.protocols.mcp_server.memory_tools import MemoryTools
from pentad.services.gateway.protocols.mcp_server.session_tools import SessionTools, ToolRequest
from pentad.services.gateway.protocols.mcp_server.tool_answers import ToolAnswer, answer_of_problem
from pentad.shared.errors import DamagedError, OutageError
from pentad.shared.event_loop import cancel_all
from pentad.shared.presence.instruction_book import InstructionBook

if TYPE_CHECKING:
    from starlette.requests import Request

log = logging.getLogger(__name__)
_SERVER_INSTRUCTIONS = (
    "Agents with durable tasks and a long-term memory. `run__NAME` runs one of them, `send` talks in a session. What "
    "takes long goes on by itself: `run_state` tells its end. Give each request a `message_id` of your own, so that "
    "repeating it is safe. Where a person must decide, ask that person before `decide`."
)
_END_S = 5.0
"""Seconds that requests have to end when the gateway stops."""
Context = ServerRequestContext[Any, Any]
Handler = Callable[[ToolRequest], Awaitable[ToolAnswer]]


class McpServed:
    """The MCP server of one gateway: an ASGI app. `start` must be awaited first, `aclose` last."""

    def __init__(
        self, sessions: SessionTools, memory: MemoryTools, files: FileResources, book: InstructionBook
    ) -> None:
        self._sessions, self._files, self._book = sessions, files, book
        self._tools: Mapping[str, Handler] = {
            "run": sessions.run,
            "send": sessions.send,
            "run_state": sessions.state,
            "decide": sessions.decide,
            "cancel": sessions.cancel,
            "memory_search": memory.search,
            "memory_expand": memory.expand,
            "memory_note": memory.note,
        }
        self._manager = StreamableHTTPSessionManager(
            self._server(),
            stateless=True,
            max_request_body_size=BODY_LIMIT,
            # The gateway has checked host, origin and key by its own rules before.
            security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )
        self._ready, self._closing = asyncio.Event(), asyncio.Event()
        self._owner: asyncio.Task[None] | None = None

    def _server(self) -> "Server[Any]":
        return Server(
            "pentad",
            version=VERSION,
            title="Pentad",
            instructions=_SERVER_INSTRUCTIONS,
            get_tool_input_schema=lambda _: None,  # no argument is mirrored in a header
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_files,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_file,
        )

    async def start(self) -> None:
        """Start the SDK's part. One task enters and leaves it, as it must."""
        self._owner = asyncio.create_task(self._run())
        await self._ready.wait()

    async def _run(self) -> None:
        async with self._manager.run():
            self._ready.set()
            await self._closing.wait()

    async def aclose(self) -> None:
        """Stop the SDK's part."""
        self._closing.set()
        if self._owner is not None:
            await asyncio.wait({self._owner}, timeout=_END_S)
            await cancel_all({self._owner})

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._manager.handle_request(scope, receive, send)

    # Tools

    async def _list_tools(self, context: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        after = None if params is None else params.cursor
        if after is not None and not is_identifier(after):
            raise MCPError(INVALID_PARAMS, "cursor: the nextCursor of an earlier page is expected")
        offered, following = tools_page(_caller(context), await self._book.runnables(), after)
        return ListToolsResult(tools=[_tool(each) for each in offered], next_cursor=following)

    async def _call_tool(self, context: Context, params: CallToolRequestParams) -> CallToolResult | InputRequiredResult:
        try:
            answer = await self._answered(context, params)
        except ProblemError as problem:
            answer = answer_of_problem(problem)
        except UnreadableError as error:
            answer = ToolAnswer(str(error), failed=True)
        except OutageError as error:
            answer = ToolAnswer(f"a store is unavailable: {error}. Try again shortly", failed=True)
        except DamagedError as error:
            answer = ToolAnswer(f"{error}: an operator must look at what is kept", failed=True)
        except MCPError:
            raise
        except Exception:
            log.exception("a tool call of MCP has failed")
            answer = ToolAnswer("this is our fault: see the gateway's log", failed=True)
        return self._asked(context, params, answer) or CallToolResult(
            content=[TextContent(text=answer.text)], structured_content=answer.data, is_error=answer.failed
        )

    async def _answered(self, context: Context, params: CallToolRequestParams) -> ToolAnswer:
        request = _request(context)
        scope_of(request)
        call = ToolRequest(request, params.arguments or {}, _teller(context))
        fixed = next((tool for tool in FIXED_TOOLS if tool.name == params.name), None)
        is_run = params.name.startswith(RUN_PREFIX) and is_identifier(params.name.removeprefix(RUN_PREFIX))
        if fixed is None and not is_run:
            raise MCPError(INVALID_PARAMS, f"there is no tool {params.name[:100]!r}: tools/list has all that there are")
        for right in (FIXED_TOOLS[0] if fixed is None else fixed).rights:
            _caller(context).check(right)
        if params.request_state is not None:
            return await self._sessions.resume(call, read_state(params.request_state), _replies(params))
        if fixed is None:
            return await self._sessions.run_named(params.name.removeprefix(RUN_PREFIX), call)
        return await self._tools[fixed.name](call)

    def _asked(self, context: Context, params: CallToolRequestParams, answer: ToolAnswer) -> InputRequiredResult | None:
        """Return the questions to the person for a client that can ask them; None for an answer that is told in words.

        A person who has closed the questions is not asked again at once.
        """
        closed = any(reply.action == "cancel" for reply in _replies(params).values())
        if answer.state is None or closed or not _asks_people(context):
            return None
        asked = questions_of(answer.state)
        if asked is None:
            return None
        state, questions = asked
        if not _may_answer(_caller(context), state):
            return None
        requests = {
            key: ElicitRequest(params=ElicitRequestFormParams(message=each.message, requested_schema=each.form))
            for key, each in questions.items()
        }
        return InputRequiredResult(input_requests=dict(requests), request_state=state.written())

    # Files

    async def _list_files(self, context: Context, params: PaginatedRequestParams | None) -> ListResourcesResult:
        cursor = None if params is None else params.cursor
        files, following = await _refusing(self._files.page(_request(context), cursor))
        listed = [
            Resource(uri=each.uri, name=each.info.path, mime_type=each.media_type, size=each.info.size)
            for each in files
        ]
        return ListResourcesResult(resources=listed, next_cursor=following)

    async def _list_templates(
        self, context: Context, params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        template = ResourceTemplate(
            uri_template=TEMPLATE, name="file", description="A file of a session, which people and tools share."
        )
        return ListResourceTemplatesResult(resource_templates=[template])

    async def _read_file(self, context: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        read = await _refusing(self._files.read(_request(context), params.uri))
        text = read.text()
        about = {"uri": params.uri, "mime_type": read.media_type}
        if text is None:
            return ReadResourceResult(contents=[BlobResourceContents(**about, blob=b64encode(read.data).decode())])
        return ReadResourceResult(contents=[TextResourceContents(**about, text=text)])


async def _refusing(work: Awaitable[Any]) -> Any:
    """Return what comes of work on files; refusals become errors of the protocol."""
    try:
        return await work
    except (ProblemError, UnreadableError, OutageError) as error:
        raise MCPError(INVALID_PARAMS, str(error)) from None


def _caller(context: Context) -> Caller:
    return caller_of(_request(context))


def _request(context: Context) -> "Request":
    request: Request | None = context.request
    assert request is not None, "every request comes by HTTP"
    return request


def _teller(context: Context) -> Callable[[float, str], Awaitable[None]] | None:
    """Return the function that tells the progress; None for a client that has not asked for it."""
    if not context.meta or context.meta.get("progress_token") is None:
        return None

    async def tell(number: float, text: str) -> None:
        await context.session.report_progress(number, None, text)

    return tell


def _asks_people(context: Context) -> bool:
    """Return whether the client asks people in forms, and calls again with what they say."""
    able = context.session.client_capabilities
    asks = None if able is None else able.elicitation
    if asks is None or context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return False
    return asks.form is not None or asks.url is None


def _may_answer(caller: Caller, asked: AskedState) -> bool:
    """Return whether a caller may bring back the answer."""
    return caller.grant is None or ("approve" if asked.calls else "send") in caller.grant.may


def _replies(params: CallToolRequestParams) -> dict[str, PersonsReply]:
    return {
        key: PersonsReply(reply.action, reply.content or {})
        for key, reply in (params.input_responses or {}).items()
        if isinstance(reply, ElicitResult)
    }


def _tool(offered: OfferedTool) -> Tool:
    annotations = ToolAnnotations(
        read_only_hint=offered.reads_only,
        destructive_hint=False if offered.reads_only else None,
        idempotent_hint=offered.idempotent or offered.reads_only,
    )
    return Tool(
        name=offered.name,
        description=offered.description,
        input_schema=offered.input_schema,
        output_schema=offered.output,
        annotations=annotations,
    )
