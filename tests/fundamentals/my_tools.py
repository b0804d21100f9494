"""The tools of the tutorial. ``PENTAD_PLUGINS`` names this module; the tool-workers import it."""

import asyncio
from pathlib import Path

import pentad

WEATHER = {"Beijing": "31 degrees, clear", "Shanghai": "28 degrees, rain"}


@pentad.tool(effect="pure")
async def weather(city: str) -> str:
    """Weather of a city right now.

    Args:
        city: Name of the city, in English.
    """
    if city not in WEATHER:
        raise ValueError(f"no weather station in {city}")
    return WEATHER[city]


def is_open(cake: str) -> bool:
    """Whether somebody has made the file ``CAKE.open`` in the working directory."""
    return Path(f"{cake}.open").exists()


@pentad.tool(effect="idempotent", timeout=60)
async def bake(cake: str, ctx: pentad.ToolContext) -> str:
    """Bake a cake. It takes until somebody opens the oven.

    Args:
        cake: Which cake.
    """
    # `ctx` is filled in and not shown to the model.
    table = ctx.metadata.get("table")
    await ctx.progress(f"{cake} is in the oven" + (f" for table {table}" if table else ""), fraction=0.5)
    while not is_open(cake):
        await asyncio.sleep(0.01)
    return f"a fresh {cake} cake"
