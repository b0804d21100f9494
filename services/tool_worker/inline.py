"""Built-in tools run in the worker itself: they are ours, quick, and hold nothing up."""

import asyncio
from time import perf_counter
from typing import Any

from pentad.services.tool_worker.children.invocation import ToolOutcome
from pentad.shared.plugins.definition import ToolDefinition
from pentad.shared.plugins.errors import InvalidArguments
from pentad.shared.plugins.results import result_text


async def run_builtin(tool: ToolDefinition, args: dict[str, Any], timeout_s: float) -> ToolOutcome:
    """Run one call. Every failure is an outcome."""
    begun = perf_counter()
    try:
        kwargs = tool.validate(args)
        value = tool.function(**kwargs)
        if tool.is_async:
            value = await asyncio.wait_for(value, timeout_s)
        text = result_text(tool.spec.name, value)
    except InvalidArguments as error:
        return _failed(str(error), begun)
    except TimeoutError:
        return ToolOutcome(None, f"{tool.spec.name}: no result within {timeout_s:g} s", "timeout", _ms(begun))
    except Exception as error:
        return _failed(f"{tool.spec.name}: {error}", begun)
    return ToolOutcome(text, None, "ok", _ms(begun))


def _failed(text: str, begun: float) -> ToolOutcome:
    return ToolOutcome(None, text, "error", _ms(begun))


def _ms(begun: float) -> int:
    return round((perf_counter() - begun) * 1000)
