"""`pentad open`: the console's link, printed and opened where there is a browser and a person."""

from pathlib import Path

from tests.support.clients.fake_gateway import fake_gateway, task
from tests.support.processes.terminal import Terminal, piped
from tests.support.waiting import wait_until


async def test_it_prints_the_link_to_the_task_and_to_a_step(tmp_path: Path) -> None:
    async with fake_gateway() as gateway:
        gateway.tasks["task-0-a"] = task("task-0-a") | {"steps": 2}
        code, out, err = await piped("open", gateway.url, tmp_path, id="task-0-a")
        assert (code, out, err) == (0, f"{gateway.url}/console#/tasks/task-0-a\n", "")
        code, out, _ = await piped("open", gateway.url, tmp_path, id="task-0-a", step="2")
        assert (code, out) == (0, f"{gateway.url}/console#/tasks/task-0-a/steps/2\n")


async def test_a_task_or_a_step_that_is_not_there_has_no_link(tmp_path: Path) -> None:
    async with fake_gateway() as gateway:
        gateway.tasks["task-0-a"] = task("task-0-a")
        code, out, err = await piped("open", gateway.url, tmp_path, id="task-0-b")
        assert (code, out, len(err.splitlines())) == (1, "", 1)
        code, out, err = await piped("open", gateway.url, tmp_path, id="task-0-a", step="9")
        assert (code, out, err) == (1, "", "task task-0-a has no step 9: it has 1 so far\n")


async def test_a_terminal_with_a_browser_opens_the_browser_unless_it_is_to_print(tmp_path: Path) -> None:
    opened = tmp_path / "opened"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" >> {opened}\n')
    browser.chmod(0o700)
    variables = {"BROWSER": str(browser)}
    async with fake_gateway() as gateway:
        gateway.tasks["task-0-a"] = task("task-0-a")
        options = {"id": "task-0-a", **variables}
        async with Terminal("open", gateway.url, tmp_path, **options, only_print="yes") as shown:
            assert await shown.code() == 0
        assert not opened.exists()
        async with Terminal("open", gateway.url, tmp_path, **options) as shown:
            assert await shown.code() == 0
            link = f"{gateway.url}/console#/tasks/task-0-a"
            await wait_until("the browser", lambda: opened.exists() and opened.read_text() == link + "\n")
            assert shown.rows == [link]


async def test_without_a_browser_the_link_is_all(tmp_path: Path) -> None:
    async with fake_gateway() as gateway:
        gateway.tasks["task-0-a"] = task("task-0-a")
        async with Terminal("open", gateway.url, tmp_path, id="task-0-a", PATH=str(tmp_path)) as shown:
            assert await shown.code() == 0
            assert shown.rows == [f"{gateway.url}/console#/tasks/task-0-a"]
