"""One program hands over everything: instructions as dicts, functions and an object as tools, a logger of its own.

    .venv/bin/python examples/handed_over.py

Nothing of it is a file, and the tools run in this process: they may be closures, and methods of objects that it has.
"""

import asyncio
import logging

import pentad

STOCK = {"type": "object", "properties": {"item": {"enum": ["tea", "cake"]}}, "required": ["item"]}


class Shop(pentad.ExpandableTool):
    """What a shop can do. Its actions share the prices."""

    def __init__(self, prices: dict[str, float]) -> None:
        self.prices = prices
        self.asked = 0

    async def setup(self) -> None:
        """Runs once, before the first call."""
        print("the shop opens")

    async def close(self) -> None:
        """Runs when the system stops."""
        print(f"the shop closes: {self.asked} asked")

    @pentad.action(effect="pure")
    async def price(self, item: str) -> float:
        """Price of an item in euros."""
        self.asked += 1
        return self.prices.get(item, 1.0)


async def main() -> None:
    """Everything that the example shows."""
    shelf = {"tea": 3, "cake": 0}

    @pentad.tool(effect="pure", parameters=STOCK)
    async def stock(item: str) -> int:
        """Pieces of an item that are left."""
        return shelf[item]

    waiter = {"name": "waiter", "system_prompt": "You are a waiter.", "tools": ["shop_price", "stock"]}
    log = logging.getLogger("my_shop")
    log.addHandler(logging.NullHandler())
    async with pentad.start(instructions=[waiter], tools=[Shop({"tea": 4.5, "cake": 3.0}), stock], logger=log) as agent:
        table = agent.session()
        print(await table.ask("shop_price of tea?", instruction="waiter"))
        print(await table.ask("stock of cake?", instruction="waiter", task_id="new"))


if __name__ == "__main__":
    asyncio.run(main())
