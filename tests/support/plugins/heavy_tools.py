"""Tools whose results are the worst that a tool may give: as long as may be, of many lines, deep, in many pieces."""

import asyncio
from base64 import b64encode

from pentad.shared.plugins.context import ToolContext
from pentad.shared.plugins.registry import tool

SIZE = 4 << 20
_PIECES = {"letters": "a", "lines": "\n", "brackets": "[", "quotes": '"', "signs": "\u2028", "json": '{"a":[1,'}


@tool(effect="pure")
async def give_text(of: str) -> str:
    """Gives a text of 4 MiB.

    Args:
        of: What it is made of.
    """
    piece = _PIECES[of]
    return piece * (SIZE // len(piece))


@tool(effect="pure")
async def give_image(of: str) -> str:
    """Gives 4 MiB as a data URL.

    Args:
        of: The kind of image.
    """
    return f"data:image/{of};base64,{b64encode(bytes(SIZE)).decode()}"


@tool(effect="pure")
async def give_values(depth: int, width: int) -> dict[str, object]:
    """Gives many values within one another.

    Args:
        depth: How deep they are.
        width: How many there are side by side.
    """
    value: object = 1
    for _ in range(depth):
        value = [value]
    return {"deep": value, "wide": [{"n": n, "text": "a"} for n in range(width)]}


@tool(effect="pure", timeout=60)
async def say_progress(times: int, length: int, ctx: ToolContext) -> str:
    """Says how far it is, again and again, as often as its process sends it.

    Args:
        times: How often.
        length: Characters of each.
    """
    for n in range(times):
        await ctx.progress("p" * length, fraction=n / times)
        await asyncio.sleep(0)
    return "done"
