"""Every service knows the instructions and graphs of plugins that it never imports."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pentad.contracts.graphs import GraphSpec
from pentad.contracts.instructions import Instruction
from pentad.services.tool_worker.app import ToolWorker
from pentad.shared.errors import OutageError
from pentad.shared.instructions.builtin import BUILT_IN
from pentad.shared.keys import GRAPHS_PUBLISHED, INSTRUCTIONS_PUBLISHED
from pentad.shared.plugins.errors import PluginError
from pentad.shared.presence import instruction_book
from pentad.shared.presence.instruction_book import InstructionBook
from pentad.shared.presence.published import GRAPHS, INSTRUCTIONS
from pentad.shared.registries.registrations import REGISTERED_GRAPHS, REGISTERED_INSTRUCTIONS
from pentad.shared.settings import Settings
from pentad.shared.store.store import Store
from tests.support.ports import free_port
from tests.support.processes.running import beside
from tests.support.waiting import wait_until

POET = Instruction(name="poet", system_prompt="Rhyme.")
KNOWN_S = 2.0


def worker(store: Store, folder: Path, *plugins: str) -> ToolWorker:
    settings = {
        "redis_url": store.url,
        "pentad_data_dir": folder,
        "pentad_tool_processes": 1,
        "pentad_plugins": plugins,
    }
    return ToolWorker(Settings.model_validate(settings))


async def test_a_plugins_instructions_are_known_everywhere(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pentad.services.tool_worker.app.BEAT_S", 3600)
    running = worker(store, tmp_path, "tests.support.plugins.poet")
    await running.start()
    known = await InstructionBook(store).known("poet")
    assert {*known} == {*BUILT_IN, "poet", "counter"}
    assert (known["poet"].description, known["poet"].tools, known["counter"].output) == ("Writes poems.", [], "json")
    await store.call("FLUSHALL")
    await wait_until("the instructions to be back", lambda: INSTRUCTIONS.read(store))
    await running.stop()


async def test_a_schema_that_is_none_stops_the_start(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wrong_schema.py").write_text(
        "import pentad\n@pentad.instruction(output={'type': 'objekt'})\ndef wrong() -> str:\n    return 'x'\n"
    )
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PluginError, match="instruction 'wrong': output_schema is no JSON schema"):
        await worker(store, tmp_path, "wrong_schema").start()


async def test_what_changes_is_noticed_and_what_cannot_be_read_is_left_out(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instruction_book, "_EVERY_S", 0.01)
    book = InstructionBook(store)
    following = asyncio.create_task(book.follow())
    await INSTRUCTIONS.publish(store, [POET])

    async def knows(prompt: str) -> bool:
        found = (await book.known()).get("poet")
        return found is not None and found.system_prompt == prompt

    await wait_until("the poet", lambda: knows("Rhyme."))
    await INSTRUCTIONS.publish(store, [POET.model_copy(update={"system_prompt": "Do not rhyme."})])
    await store.call("HSET", INSTRUCTIONS_PUBLISHED, "bad", "{")
    await wait_until("the new poet", lambda: knows("Do not rhyme."))
    same = await book.known()
    await INSTRUCTIONS.publish(store, [])
    assert await book.known() is same
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)


async def test_a_name_that_nobody_knows_is_not_looked_for_all_the_time(store: Store) -> None:
    book = InstructionBook(store)
    assert "nobody" not in await book.known("nobody")
    await INSTRUCTIONS.publish(store, [POET])
    assert "poet" not in await book.known("poet")  # too soon after the last look


async def test_an_unknown_name_waits_for_a_redis_that_is_away() -> None:
    nowhere = Store(f"redis://127.0.0.1:{free_port()}/0")
    book = InstructionBook(nowhere)
    with pytest.raises(OutageError):
        await book.known("poet")
    assert "executor" in await book.known()
    await nowhere.close()


async def register(store: Store, name: str, made: Instruction | None) -> None:
    assert await REGISTERED_INSTRUCTIONS.write(store, await REGISTERED_INSTRUCTIONS.read(store), name, made)


async def test_a_registered_one_is_known_to_a_second_process_within_two_seconds_until_it_is_removed(
    store: Store,
) -> None:
    assert instruction_book._EVERY_S < KNOWN_S
    ours, theirs = InstructionBook(store), InstructionBook(store)
    again = POET.model_copy(update={"system_prompt": "Do not rhyme."})

    async def says(prompt: str | None) -> bool:
        both = [(await book.known()).get("poet") for book in (ours, theirs)]
        return all((each and each.system_prompt) == prompt for each in both)

    async with beside(ours.follow()), beside(theirs.follow()):
        await wait_until("nobody to know it", lambda: says(None))
        await register(store, "poet", POET)
        await wait_until("the poet", lambda: says("Rhyme."))
        await register(store, "poet", again)
        await wait_until("the new poet", lambda: says("Do not rhyme."))
        await register(store, "poet", None)
        await wait_until("the poet to be gone", lambda: says(None))


async def test_one_that_was_just_registered_is_found_at_once_by_its_name(store: Store) -> None:
    book = InstructionBook(store)
    assert "poet" not in await book.known("poet")
    await register(store, "poet", POET)
    assert "poet" in await book.known("poet")


async def test_the_file_goes_before_the_registry_that_before_plugins_and_that_before_what_is_built_in(
    store: Store,
) -> None:
    def executor(place: str) -> Instruction:
        return Instruction(name="executor", system_prompt=place)

    await INSTRUCTIONS.publish(store, [executor("plugin"), POET])
    book, with_file = InstructionBook(store), InstructionBook(store, [executor("file")])
    assert (await book.known("poet"))["executor"].system_prompt == "plugin"
    await register(store, "executor", executor("registry"))
    for each in (book, with_file):
        await each.known("anything else")
    assert (await book.known())["executor"].system_prompt == "registry"
    assert (await with_file.known())["executor"].system_prompt == "file"
    await register(store, "executor", None)
    await book.known("anything else")
    assert (await book.known())["executor"].system_prompt == "plugin"


def survey(name: str = "survey", **fields: Any) -> GraphSpec:
    """A graph of one question."""
    node = {"key": "a", "kind": "ask", "question": "Well?"}
    return GraphSpec.model_validate({"name": name, "nodes": [node], "entry": "a", "ends": ["a"]} | fields)


async def draw(store: Store, name: str, made: GraphSpec | None) -> None:
    assert await REGISTERED_GRAPHS.write(store, await REGISTERED_GRAPHS.read(store), name, made)


async def test_a_plugins_graphs_are_known_everywhere(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pentad.services.tool_worker.app.BEAT_S", 3600)
    running = worker(store, tmp_path, "tests.support.plugins.grapher")
    await running.start()
    book = InstructionBook(store)
    found = await book.runnables("writer")
    assert {*found} == {*BUILT_IN, "survey", "writer"}
    writer = found["writer"]
    assert isinstance(writer, GraphSpec)
    assert [(edge.source, edge.target) for edge in writer.edges] == [("draft", "review")]
    assert {*await book.known()} == {*BUILT_IN}, "they are no instructions"
    await store.call("DEL", GRAPHS_PUBLISHED)
    await wait_until("the graphs to be back", lambda: GRAPHS.read(store))
    await running.stop()


async def test_a_plugin_with_a_graph_that_cannot_be_used_stops_the_start(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = survey(state_schema={"type": "object", "pattern": "("}).model_dump(mode="json")
    (tmp_path / "wrong_graph.py").write_text(f"import pentad\npentad.graph({spec!r})\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PluginError, match="graph 'survey': state_schema is no JSON schema"):
        await worker(store, tmp_path, "wrong_graph").start()


async def test_a_graph_that_a_plugin_has_no_more_is_withdrawn(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "import pentad\npentad.graph({!r})\n"
    (module := tmp_path / "changing_graphs.py").write_text(text.format(survey().model_dump(mode="json")))
    monkeypatch.chdir(tmp_path)
    running = ToolWorker(worker(store, tmp_path, "changing_graphs").settings, changing=True)
    await running.start()
    assert {*await GRAPHS.read(store)} == {"survey"}
    module.write_text(text.format(survey("poll").model_dump(mode="json")))
    await running.reload_plugins()

    async def known() -> bool:
        return {*await GRAPHS.read(store)} == {"poll"}

    await wait_until("the new graph alone", known)
    await running.stop()


async def test_a_registered_graph_is_found_by_its_name_and_changes_the_mapping_once(store: Store) -> None:
    book = InstructionBook(store)
    assert "survey" not in await book.runnables("survey")
    await draw(store, "survey", survey())
    found = await book.runnables("survey")
    assert found["survey"] == survey()
    await book.runnables("nobody")
    assert await book.runnables() is found
    await draw(store, "survey", survey(description="Other."))
    await book.runnables("nobody")
    assert (await book.runnables())["survey"].description == "Other."


async def test_of_an_instruction_and_a_graph_of_one_name_that_of_the_earlier_source_counts(store: Store) -> None:
    await draw(store, "executor", survey("executor"))
    await register(store, "poet", POET)
    await GRAPHS.publish(store, [survey("poet"), survey()])
    book, with_file = (
        InstructionBook(store),
        InstructionBook(store, [survey("poet"), POET.model_copy(update={"name": "survey"})]),
    )
    for each in (book, with_file):
        await each.runnables("nobody")
    kinds = {name: type(each) for name, each in (await book.runnables()).items()}
    assert (kinds["executor"], kinds["poet"], kinds["survey"]) == (GraphSpec, Instruction, GraphSpec)
    kinds = {name: type(each) for name, each in (await with_file.runnables()).items()}
    assert (kinds["executor"], kinds["poet"], kinds["survey"]) == (GraphSpec, GraphSpec, Instruction)
    known = await with_file.known()
    assert (known["executor"], known["poet"]) == (BUILT_IN["executor"], POET), "instructions are as they were"
    with_file.use_file([])
    assert type((await with_file.runnables())["poet"]) is Instruction


async def test_what_was_read_before_redis_went_away_is_in_use(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    book = InstructionBook(store)
    await INSTRUCTIONS.publish(store, [POET])

    async def away(*_: object) -> None:
        raise OutageError("Redis is away")

    with monkeypatch.context() as broken:
        broken.setattr(REGISTERED_GRAPHS, "newer", away)
        with pytest.raises(OutageError):
            await book.runnables("poet")
    assert "poet" in await book.runnables()
