"""One class that is several tools: their names, what they share, and when it is set up and closed."""

import asyncio
import threading
from typing import Any

import pytest

from pentad import ExpandableTool, action
from pentad.contracts.tools import Effect
from pentad.shared.plugins.context import ToolContext
from pentad.shared.plugins.definition import ToolDefinition
from pentad.shared.plugins.errors import PluginError, SetupFailed
from pentad.shared.plugins.expandable import definitions_of, not_made_by_plugins
from pentad.shared.plugins.given import given_tools
from pentad.shared.plugins.registry import registered_tools, tool


class RoomService(ExpandableTool):
    """Brings things."""

    def __init__(self) -> None:
        self.did: list[str] = []
        self.gate = asyncio.Event()
        self.wrong: list[BaseException] = []

    async def setup(self) -> None:
        await self.gate.wait()
        self.did.append("set up")
        if self.wrong:
            raise self.wrong.pop()

    def close(self) -> None:
        self.did.append("closed")

    @action(effect="pure", timeout=5)
    async def bring(self, what: str, ctx: ToolContext) -> str:
        """Brings a thing.

        Args:
            what: The thing.
        """
        return f"{what} for {ctx.session_id}"

    @action("clean-up", queue="slow", concurrency=2, rate="10/min", breaker=None)
    def clean(self) -> int:
        """Cleans the room."""
        return len(self.did)

    @action
    def menu(self) -> str:
        return "tea"

    def helper(self) -> str:
        return "no tool"


def of(service: RoomService, name: str) -> ToolDefinition:
    return next(each for each in definitions_of(service) if each.spec.name == name)


def test_each_action_is_a_tool_named_after_class_and_method() -> None:
    names = {"room_service_bring", "room_service_clean-up", "room_service_menu"}
    assert names == {each.spec.name for each in definitions_of(RoomService)}
    assert names <= registered_tools().keys()
    bring = registered_tools()["room_service_bring"]
    assert (bring.spec.effect, bring.spec.timeout, bring.is_async) == (Effect.PURE, 5, True)
    assert bring.spec.description == "Brings a thing."
    assert bring.spec.parameters["properties"] == {"what": {"type": "string", "description": "The thing."}}
    clean = registered_tools()["room_service_clean-up"].spec
    assert (clean.queue, clean.concurrency, clean.rate, clean.breaker) == ("slow", 2, "10/min", None)
    assert (bring.spec.breaker, registered_tools()["room_service_menu"].spec.breaker) == ("5/min", "5/min")


async def test_the_object_is_made_and_set_up_once_however_many_calls_begin_together() -> None:
    service = RoomService()
    bring = of(service, "room_service_bring")
    assert bring.belongs_to is not None
    together = [asyncio.create_task(bring.belongs_to.ready()) for _ in range(5)]
    await asyncio.sleep(0)  # all of them wait now
    together[0].cancel()
    await asyncio.wait({together[0]})
    service.gate.set()
    await asyncio.gather(*together[1:])
    assert service.did == ["set up"]
    assert await bring.call({"what": "tea"}, ToolContext(session_id="s")) == "tea for s"
    await bring.belongs_to.close()
    await bring.belongs_to.close()
    assert service.did == ["set up", "closed"]


@pytest.mark.parametrize("error", [ConnectionError("no kitchen"), SystemExit(3)], ids=["error", "exit"])
async def test_a_setup_that_fails_fails_that_call_and_is_tried_again(error: BaseException) -> None:
    service = RoomService()
    service.wrong, held = [error], of(service, "room_service_menu").belongs_to
    service.gate.set()
    assert held is not None
    with pytest.raises(SetupFailed, match=f"RoomService could not be set up: {type(error).__name__}"):
        await held.ready()
    assert not held.is_ready
    await held.ready()
    assert service.did == ["set up", "set up"]


async def test_plain_methods_of_setup_run_beside_the_loop() -> None:
    where: list[int] = []

    class Plain(ExpandableTool):
        def setup(self) -> None:
            where.append(threading.get_ident())

        @action
        def ask(self) -> None: ...

    held = definitions_of(Plain())[0].belongs_to
    assert held is not None
    await held.ready()
    assert where != []
    assert where != [threading.get_ident()]


def test_a_class_that_needs_arguments_is_no_plugins_and_an_object_of_it_can_be_given() -> None:
    class Bank(ExpandableTool):
        def __init__(self, name: str) -> None:
            self.name = name

        @action
        def pay(self) -> None: ...

    assert "bank_pay" not in registered_tools()
    assert any(name.endswith("Bank") for name in not_made_by_plugins())
    names = [each.spec.name for each in given_tools([Bank("north"), Bank("south")])]
    assert names == ["north_pay", "south_pay"]
    with pytest.raises(PluginError, match=r"tools\[0\]: .*Bank.* cannot be made without arguments: give an object"):
        given_tools([Bank])
    with pytest.raises(PluginError, match=r"tools\[1\]: another of these tools is called 'north_pay'"):
        given_tools([Bank("north"), Bank("north")])


def test_a_subclass_has_the_actions_of_its_base_and_may_take_one_back() -> None:
    class Shop(ExpandableTool):
        name = "shop"

        @action
        def buy(self) -> None: ...

        @action
        def sell(self) -> None: ...

    class Booth(Shop):
        def sell(self) -> None: ...

    assert [each.spec.name for each in definitions_of(Shop)] == ["shop_buy", "shop_sell"]
    assert [each.spec.name for each in definitions_of(Booth)] == ["booth_buy"]


def test_what_cannot_be_an_action_is_refused_where_it_is_defined() -> None:
    with pytest.raises(PluginError, match="@action takes a method"):
        action(staticmethod(lambda: None))
    with pytest.raises(PluginError, match="name='too_bold name_do' must be"):

        class Wrong(ExpandableTool):
            name = "too_bold name"

            @action
            def do(self) -> None: ...

    with pytest.raises(PluginError, match=r"make the class a pentad.ExpandableTool and its methods @pentad.action"):

        class Method:
            @tool
            def act(self) -> None: ...


def named() -> str:
    """A plain function."""
    return "x"


def test_functions_are_given_decorated_or_plain() -> None:
    made = []
    for number in range(2):

        @tool(f"from_a_loop_{number}", effect="pure")
        def decorated() -> int:
            return number  # noqa: B023

        made.append(decorated)
    found = given_tools([named, *made])
    assert [(each.spec.name, each.spec.effect) for each in found] == [
        ("named", Effect.UNSAFE),
        ("from_a_loop_0", Effect.PURE),
        ("from_a_loop_1", Effect.PURE),
    ]
    assert [each.function for each in found] == [named, *made]


@pytest.mark.parametrize(
    ("tools", "told"),
    [
        ("named", "it must be a list of functions"),
        (named, "it must be a list of functions"),
        ([named, 5], r"tools\[1\]: 5 is no tool: give a function"),
        ([named, named], r"tools\[1\]: another of these tools is called 'named'"),
        ([lambda: None], r"tools\[0\]: tool '<lambda>': name="),
        ([ExpandableTool], r"tools\[0\]: .* has no action"),
        ([print], r"tools\[0\]: <built-in function print> is no tool"),
    ],
)
def test_what_is_no_tool_is_told_with_its_place(tools: Any, told: str) -> None:
    with pytest.raises(PluginError, match=told):
        given_tools(tools)


def test_an_isolated_tool_cannot_be_given() -> None:
    @tool(isolated=True)
    def lonely() -> None: ...

    with pytest.raises(PluginError, match=r"tools\[0\]: tool 'lonely' is isolated.*plugins="):
        given_tools([lonely])


def test_a_name_of_a_tool_that_every_task_has_is_refused() -> None:
    def ask_user() -> None: ...

    with pytest.raises(PluginError, match=r"tools\[0\]: every task has a tool 'ask_user' of its own"):
        given_tools([ask_user])
