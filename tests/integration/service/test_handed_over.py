"""What a program hands over to ``pentad.start()``: models, instructions, tools and a logger, beside the files."""

import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import pentad
from pentad.contracts.instructions import Instruction
from pentad.shared.errors import PentadError, SettingsError
from pentad.shared.instructions.builtin import PLAN_SOLVE
from pentad.shared.models.configured_models import configured_models
from pentad.shared.models.model_list import given_models
from pentad.shared.settings import Settings
from pentad.shared.telemetry import logging_to
from tests.support.models.model_server import ScriptedModel
from tests.support.models.replies import Reply, call, say

WAITER = {"name": "waiter", "system_prompt": "You are a waiter.", "model": "mine", "tools": ["count_tables"]}


def waits_on(request: dict[str, Any]) -> Reply:
    """A model that counts tables once, and says what came of it."""
    last = request["messages"][-1]
    return say(str(last["content"])) if last["role"] == "tool" else call(("count_tables", {"floor": 2}))


async def test_models_instructions_and_closures_are_used_as_those_of_files_are(tmp_path: Path) -> None:
    floors: list[int] = []

    async def count_tables(floor: int) -> str:
        """Counts tables."""
        floors.append(floor)
        return f"{floor * 6} tables, counted by {os.getpid()}"

    async with ScriptedModel(waits_on) as model:
        mine = {"id": "mine", "endpoint": model.base_url, "model": "m"}
        async with pentad.start(
            tmp_path, models=[mine], instructions=[WAITER], tools=[count_tables], pentad_tool_processes=1
        ) as agent:
            assert await agent.ask("tables?", instruction="waiter") == f"12 tables, counted by {os.getpid()}"
            assert await agent.ask("what is 6*7?") == "6*7 = 42"  # the default model is as it was
            assert {each["id"]: each["source"] for each in await agent.inspection.models()}["mine"] == "file"
            assert "waiter" in {each["name"] for each in await agent.inspection.instructions()}
    assert floors == [2]
    assert model.chats[0]["tools"][0]["function"]["name"] == "count_tables"


class Shop(pentad.ExpandableTool):
    """A tool whose object the program makes."""

    def __init__(self, prices: dict[str, float]) -> None:
        self.prices = prices

    @pentad.action(effect="pure")
    async def price(self, item: str) -> float:
        """Price of an item."""
        return self.prices[item]


async def test_an_object_is_given_beside_plugins_whose_tools_have_processes_of_their_own(tmp_path: Path) -> None:
    shop = Shop({"tea": 4.5})
    async with pentad.start(tmp_path, tools=[shop], plugins=["tests.fundamentals.my_tools"]) as agent:
        names = {tool["name"] for tool in await agent.inspection.tools()}
        assert {"shop_price", "weather"} <= names
        shop.prices["tea"] = 5
        assert await agent.ask("shop_price of tea?") == "shop_price: 5"


class OwnModel(BaseModel):
    """A model of the program's own that looks like an instruction."""

    name: str
    system_prompt: str
    recall: bool = False


async def test_instructions_may_be_models_and_go_before_those_of_the_file(tmp_path: Path) -> None:
    (file := tmp_path / "i.json").write_text(
        json.dumps({"instructions": [{"name": "a", "system_prompt": "file"}, {"name": "b", "system_prompt": "file"}]})
    )
    ours = Instruction(name="c", system_prompt="given", tool_rounds=None)
    given: list[Any] = [OwnModel(name="a", system_prompt="given"), ours]
    async with pentad.start(tmp_path, instructions=given, pentad_instructions=file) as agent:
        found = {each["name"]: each for each in await agent.inspection.instructions()}
    assert {name: found[name]["system_prompt"] for name in "abc"} == {"a": "given", "b": "file", "c": "given"}
    assert (found["a"]["recall"], found["c"]["tool_rounds"]) == (False, None)


SURVEY = {"name": "survey", "nodes": [{"key": "a", "kind": "ask", "question": "?"}], "entry": "a", "ends": ["a"]}


async def test_graphs_may_be_built_and_go_before_what_the_file_has_under_their_names(tmp_path: Path) -> None:
    (file := tmp_path / "i.json").write_text(
        json.dumps(
            {
                "graphs": [SURVEY, SURVEY | {"name": "poll"}],
                "instructions": [{"name": "writer", "system_prompt": "of the file"}],
            }
        )
    )
    built = pentad.AgentBuilder("writer").add_ask_node("a", "?").set_entry_point("a").set_end_points(["a"]).build()
    given: list[Any] = [built, SURVEY | {"description": "given"}]
    async with pentad.start(tmp_path, graphs=given, pentad_instructions=file) as agent:
        found = {each["name"]: each.get("description") for each in await agent.inspection.graphs()}
        assert found == {"plan_solve": PLAN_SOLVE.description, "poll": "", "survey": "given", "writer": ""}
        assert "writer" not in {each["name"] for each in await agent.inspection.instructions()}


def test_a_model_that_is_given_takes_the_place_of_the_files_with_its_id_and_of_the_default(tmp_path: Path) -> None:
    (file := tmp_path / "m.json").write_text(
        json.dumps({"models": [{"id": "a", "model": "old"}, {"id": "b", "fallbacks": ["a"], "default": True}]})
    )
    given = given_models([{"id": "a", "model": "new"}, {"id": "c", "default": True, "fallbacks": ["b"]}])
    models = configured_models(Settings(pentad_models=file).handing_over(given, ())).and_registered(())
    assert {name: models.known[name].entry.model for name in "ab"} == {"a": "new", "b": None}
    assert [known.entry.id for known in models.chain(None)] == ["c", "b"]
    assert [name for name in "abc" if models.known[name].entry.default] == ["c"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"models": [{"id": "a", "modle": "m"}]}, "pentad.start(models=...) is wrong: models[0] ('a').modle: "),
        ({"models": [{"id": "a"}, {"id": "a"}]}, "pentad.start(models=...) is wrong: models[1] ('a').id: another"),
        ({"models": [{"id": "a", "fallbacks": ["z"]}]}, "pentad.start(models=...) is wrong: models[0] ('a').fallbacks"),
        ({"models": [{"id": "default"}]}, "pentad.start(models=...) is wrong: models[0] ('default').id: this one is"),
        ({"models": {"id": "a"}}, "pentad.start(models=...) is wrong: it must be a list of dicts, not dict"),
        ({"models": [{"id": f"m{n}"} for n in range(201)]}, "pentad.start(models=...) is wrong: it has 201 models"),
        ({"models": ["gpt"]}, "pentad.start(models=...) is wrong: models[0]: "),
        (
            {"instructions": [{"name": "a"}]},
            "pentad.start(instructions=...) is wrong: instructions[0] ('a').sys",
        ),
        (
            {"instructions": [WAITER, WAITER]},
            "pentad.start(instructions=...) is wrong: instructions[1] ('waiter').name: another instruction has it",
        ),
        (
            {"instructions": [WAITER | {"output": "json", "output_schema": {"type": "strnig"}}]},
            "pentad.start(instructions=...) is wrong: instructions[0] ('waiter'): output_schema is no JSON schema",
        ),
        ({"graphs": [{"name": "a"}]}, "pentad.start(graphs=...) is wrong: graphs[0] ('a').nodes: Field required"),
        ({"graphs": {"name": "a"}}, "pentad.start(graphs=...) is wrong: it must be a list of dicts, not dict"),
        ({"graphs": [7]}, "pentad.start(graphs=...) is wrong: graphs[0]: "),
        ({"graphs": [SURVEY, SURVEY]}, "pentad.start(graphs=...) is wrong: graphs[1] ('survey').name: another graph"),
        (
            {"instructions": [WAITER], "graphs": [SURVEY | {"name": "waiter"}]},
            "pentad.start(graphs=...) is wrong: graphs[0] ('waiter').name: an instruction has it: names are shared",
        ),
        ({"tools": [Shop]}, "pentad.start(tools=...) is wrong: tools[0]: "),
        ({"tools": [5]}, "pentad.start(tools=...) is wrong: tools[0]: 5 is no tool"),
        ({"logger": "my_log"}, "pentad.start(logger=...) is wrong: it must be a logging.Logger, not str"),
        ({"logger": logging.getLogger("pentad.mine")}, "pentad.start(logger=...) is wrong: 'pentad.mine' is Pentad's"),
    ],
)
async def test_what_is_wrong_is_told_with_argument_place_and_field(
    tmp_path: Path, given: dict[str, Any], told: str
) -> None:
    with pytest.raises(PentadError) as caught:
        async with pentad.start(tmp_path, **given):
            raise AssertionError("it must not start")
    assert str(caught.value).startswith(told)
    assert not (tmp_path / "gateway.url").exists()


class Kept(logging.Handler):
    """A handler of the program's own."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


async def test_the_log_of_all_services_goes_to_the_programs_logger_and_nowhere_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SHOP_CODE", raising=False)

    @pentad.tool(name="locked", env=["SHOP_CODE"])
    async def locked() -> None:
        """Needs a variable."""

    kept, ours = Kept(), logging.getLogger("my_program.pentad")
    ours.addHandler(kept)
    ours.setLevel(logging.INFO)
    ours.propagate = False
    before = logging.getLogger("pentad").level, logging.getLogger("pentad").propagate
    try:
        async with pentad.start(tmp_path, logger=ours, tools=[locked]) as agent:
            await agent.ask("what is 6*7?")
            tools = {tool["name"]: tool for tool in await agent.inspection.tools()}
    finally:
        ours.removeHandler(kept)
    assert "router has started" in kept.lines
    missing = [line for line in kept.lines if "SHOP_CODE" in line]
    assert missing == [
        "tool 'locked' reads the variable SHOP_CODE, which is not set: set it where the tool-worker runs, and start it "
        "again"
    ]
    assert tools["locked"]["missing_env"] == ["SHOP_CODE"]
    assert [each for each in caplog.records if each.name.startswith("pentad")] == []
    assert (logging.getLogger("pentad").level, logging.getLogger("pentad").propagate) == before
    assert logging.getLogger("pentad").handlers == []


def test_loggers_of_two_systems_do_not_take_each_other_away(caplog: pytest.LogCaptureFixture) -> None:
    one, two = Kept(), Kept()
    ours = [logging.getLogger("my_first"), logging.getLogger("my_second")]
    for logger, kept in zip(ours, (one, two), strict=True):
        logger.addHandler(kept)
        logger.propagate = False
    ours[0].setLevel(logging.ERROR)
    ours[1].setLevel(logging.INFO)
    log = logging.getLogger("pentad.shared.anything")
    with logging_to(ours[0]):
        with logging_to(ours[1]):
            log.info("quiet")
            log.error("loud")
        log.error("later")
    log.error("after")
    assert (one.lines, two.lines) == (["loud", "later"], ["quiet", "loud"])
    assert [record.getMessage() for record in caplog.records] == ["after"]


def test_without_a_logger_nothing_changes() -> None:
    with logging_to(None):
        assert logging.getLogger("pentad").propagate
    with pytest.raises(SettingsError), logging_to(logging.getLogger("pentad")):
        raise AssertionError("it must be refused")
