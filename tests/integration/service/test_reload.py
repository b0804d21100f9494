"""``pentad up --reload``: plug-ins, instructions and models are taken up again when their files change."""

import asyncio
import json
import logging
import os
import re
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from urllib.request import urlopen

import pytest

import pentad
from pentad.contracts.graphs import Runnable
from pentad.shared.errors import PentadError
from pentad.shared.models.configured_models import ConfiguredModels
from pentad.shared.models.model_list import given_models
from pentad.shared.settings import Settings
from pentad.system.reload import Reloader, WatchedFiles
from tests.support.processes.up import PENTAD, Up
from tests.support.waiting import wait_until

PLUGIN = """
import pentad, shelf

@pentad.tool(effect="pure")
async def stock(item: str) -> str:
    '''Pieces of an item that are left.'''
    return f"{shelf.PIECES} {item}"
"""


GREETER = """
@pentad.instruction(tools=[])
def greeter() -> str:
    '''Greets.'''
    return "Say hello."
"""


def write(folder: Path, pieces: str, prompt: str = "You sell.") -> None:
    (folder / "shop_tools.py").write_text(PLUGIN)
    (folder / "shelf.py").write_text(f"PIECES = {pieces}\n")
    (folder / "shop.toml").write_text(f'[[instructions]]\nname = "seller"\nsystem_prompt = "{prompt}"\n')
    (folder / "models.json").write_text(json.dumps({"models": [{"id": f"m{len(prompt)}", "model": "m"}]}))


async def test_a_running_system_takes_up_what_changes_and_keeps_what_it_has_when_a_change_is_wrong(
    tmp_path: Path,
) -> None:
    write(tmp_path, "3")
    (tmp_path / "shop_tools.py").write_text(PLUGIN + GREETER)
    environment = {"PENTAD_PLUGINS": "shop_tools", "PENTAD_INSTRUCTIONS": "shop.toml", "PENTAD_MODELS": "models.json"}
    environment["PENTAD_POLICIES"] = "rules.json"
    (tmp_path / "rules.json").write_text('{"policies": []}')
    with Up(tmp_path, environment, (str(PENTAD), "up", "--port", "0", "--reload")) as system:
        url = await system.ready()
        assert "reload: 5 files are watched\n" in system.out
        async with pentad.connect(url) as agent:

            async def stock() -> str:
                return await agent.ask("stock of tea?", task_id="new")

            async def prompt() -> str:
                return str((await agent.inspection.instruction("seller"))["system_prompt"])

            async def instructions() -> set[str]:
                return {each["name"] for each in await agent.inspection.instructions()}

            async def models() -> set[str]:
                return {each["id"] for each in await agent.inspection.models()}

            async def models_of_archiver() -> set[str]:
                """Models of the process in which the archiver runs, as it says in what it counts."""
                page = await asyncio.to_thread(lambda: urlopen(f"{url}/metrics", timeout=30).read().decode())
                return set(re.findall(r'pentad_model_state\{model="(m\d+)",service="archiver"\}', page))

            assert await stock() == "stock: 3 tea"
            await wait_until("the archiver's process to have the model", lambda: has(models_of_archiver, "m9"))
            assert "greeter" in await instructions()
            write(tmp_path, "4", "You sell well.")

            async def taken_up() -> bool:
                return (await stock(), await prompt()) == ("stock: 4 tea", "You sell well.")

            await wait_until("the change is taken up", taken_up)
            await wait_until("the models are", lambda: has(models, "m14"))
            await wait_until("those of the archiver's process are", lambda: has(models_of_archiver, "m14"))
            assert "greeter" not in await instructions()

            rule = {"name": "closed", "tool": "*", "then": "deny", "reason": "the shop is closed"}
            (tmp_path / "rules.json").write_text(json.dumps({"policies": [rule]}))

            async def closed() -> bool:
                return "the shop is closed" in await stock()

            await wait_until("the approval policies are taken up", closed)
            (tmp_path / "rules.json").write_text('{"policies": [ ]}')
            await wait_until("they are gone again", taken_up)

            (tmp_path / "shelf.py").write_text("PIECES = = 5\n")
            (tmp_path / "shop.toml").write_text("[[instructions]]\n")
            await wait_until("both mistakes are told", lambda: system.err.count("cannot be taken up") == 2)
            assert "plugin 'shop_tools' does not import: SyntaxError" in system.err
            assert "shop.toml: instructions[0].name: Field required" in system.err
            assert (await stock(), await prompt()) == ("stock: 4 tea", "You sell well.")

            write(tmp_path, "6", "You sell.")

            async def mended() -> bool:
                return (await stock(), await prompt()) == ("stock: 6 tea", "You sell.")

            await wait_until("what is mended is taken up", mended)
        system.ctrl_c()
        assert await system.ended() == 0
        assert system.descendants() == []


async def has(names: Callable[[], Awaitable[set[str]]], wanted: str) -> bool:
    return wanted in await names()


class Taken:
    """Files that are taken up by counting, or not at all."""

    def __init__(self, *files: Path) -> None:
        self.files = [str(file) for file in files]
        self.count = 0
        self.wrong: Exception | None = None

    async def take(self) -> None:
        self.count += 1
        if self.wrong is not None:
            raise self.wrong


async def looked(watched: WatchedFiles) -> None:
    await watched.look()
    await watched.look()


async def test_a_change_is_taken_up_once_and_only_when_it_has_settled(tmp_path: Path) -> None:
    (file := tmp_path / "a.py").write_text("1")
    taken = Taken(file)
    watched = WatchedFiles("the plug-ins", lambda: taken.files, taken.take)
    await watched.begin()
    await looked(watched)
    assert taken.count == 0
    for text in ("22", "333"):
        file.write_text(text)
        await watched.look()
        assert taken.count == 0
    await watched.look()
    assert taken.count == 1
    await looked(watched)
    assert taken.count == 1


async def test_a_file_that_goes_and_one_of_the_same_size_in_its_place_are_changes(tmp_path: Path) -> None:
    (file := tmp_path / "a.py").write_text("1")
    taken = Taken(file)
    watched = WatchedFiles("the plug-ins", lambda: taken.files, taken.take)
    await watched.begin()
    (other := tmp_path / "b").write_text("2")
    os.utime(other, ns=(0, file.stat().st_mtime_ns))
    os.replace(other, file)
    await looked(watched)
    assert taken.count == 1
    file.unlink()
    await looked(watched)
    assert taken.count == 2


@pytest.mark.parametrize("error", [PentadError("it does not import"), OSError("no room"), RuntimeError("a fault")])
async def test_a_change_that_is_wrong_is_told_once_and_mended_in_a_module_that_was_never_imported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    (file := tmp_path / "a.py").write_text("1")
    taken = Taken(file)
    watched = WatchedFiles("the plug-ins", lambda: taken.files, taken.take)
    await watched.begin()
    taken.wrong = error
    (new := tmp_path / "new.py").write_text("wrong")
    file.write_text("import new")
    await looked(watched)
    await looked(watched)
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert said == [f"the plug-ins stay as they were, because a change cannot be taken up: {error}"]
    taken.wrong = None
    new.write_text("right")
    await looked(watched)
    assert taken.count == 2
    new.write_text("right again")  # it is in use nowhere: nobody imports it here
    await looked(watched)
    assert taken.count == 2


async def test_a_file_that_comes_with_a_change_is_watched_from_then_on(tmp_path: Path) -> None:
    first, second = tmp_path / "a.py", tmp_path / "b.py"
    first.write_text("1")
    second.write_text("1")
    taken = Taken(first)
    watched = WatchedFiles("the plug-ins", lambda: taken.files, taken.take)
    await watched.begin()
    taken.files.append(str(second))
    first.write_text("22")
    await looked(watched)
    await looked(watched)
    assert taken.count == 1
    second.write_text("22")
    await looked(watched)
    assert taken.count == 2


class Using:
    """A service that takes instructions and models."""

    name = "using"

    def __init__(self) -> None:
        self.instructions: Sequence[Runnable] = ()
        self.models: ConfiguredModels | None = None

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def checks(self) -> dict[str, str | None]:
        return {}

    def alive(self) -> bool:
        return True

    def use_instructions(self, configured: Sequence[Runnable]) -> None:
        self.instructions = configured

    def use_models(self, configured: ConfiguredModels) -> None:
        self.models = configured


async def test_another_embedding_model_is_told_to_need_a_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "models.json"
    embedding = {"id": "e", "kind": "embedding", "protocol": "simple", "model": "s"}
    file.write_text(json.dumps({"models": [embedding, {"id": "a"}]}))
    using = Using()
    reloader = Reloader(Settings(pentad_models=file), [using])
    await reloader.start()
    try:
        file.write_text(json.dumps({"models": [embedding | {"id": "e2"}, {"id": "b"}]}))
        await wait_until("it is taken up", lambda: using.models is not None)
    finally:
        await reloader.stop()
    assert [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING] == [
        "other embedding models are used from the next start on, as what they embed is kept"
    ]
    assert using.models is not None
    first = ConfiguredModels((), given_models([embedding, {"id": "a"}]), using.models.keys)
    assert [each.id for each in first.with_chat_models_of(using.models).file] == ["b", "e"]
