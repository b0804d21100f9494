"""A tab of a real Chromium, driven over its DevTools protocol, and watched for what a page should not do."""

import asyncio
import json
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tests.support.waiting import in_time, wait_until

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_OPTIONS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-port=0")
_MAX_MESSAGE = 16 << 20


class Tab:
    """A tab: scripts are run in it, and its faults are collected."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection, self._numbers = connection, count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.faults: list[str] = []
        """Errors in its console, and scripts that have failed."""
        self.asked: list[str] = []
        """Addresses of its requests."""

    async def listen(self) -> None:
        """Take what the browser tells, until it is gone."""
        with suppress(ConnectionClosed):
            async for text in self._connection:
                self._take(json.loads(text))

    def _take(self, told: dict[str, Any]) -> None:
        about = told.get("params", {})
        match told.get("method"):
            case None:
                self._answers.pop(told["id"]).set_result(told)
            case "Runtime.exceptionThrown":
                self.faults.append(str(about["exceptionDetails"]))
            case "Log.entryAdded" if about["entry"]["level"] == "error":
                self.faults.append(f"{about['entry']['text']} {about['entry'].get('url')}")
            case "Network.requestWillBeSent":
                self.asked.append(about["request"]["url"])

    async def call(self, method: str, **about: Any) -> dict[str, Any]:
        """Call a method of the protocol, and return its result."""
        number = next(self._numbers)
        self._answers[number] = asyncio.get_running_loop().create_future()
        await self._connection.send(json.dumps({"id": number, "method": method, "params": about}))
        async with in_time():
            told = await self._answers[number]
        assert "error" not in told, told
        result: dict[str, Any] = told["result"]
        return result

    async def run(self, script: str) -> Any:
        """Run a script, and return its value."""
        ran = await self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in ran, ran
        return ran["result"].get("value")

    async def shows(self, text: str) -> None:
        """Wait until the page shows a text."""
        try:
            await wait_until(f"the page to show {text!r}", lambda: self._has(text))
        except AssertionError as error:
            raise AssertionError(f"{error}; it shows: {await self.text()!r}; its faults: {self.faults}") from None

    async def text(self) -> str:
        """Return all that the page shows."""
        return str(await self.run("document.body?.innerText ?? ''"))

    async def _has(self, text: str) -> bool:
        return text in await self.text()

    async def type(self, text: str) -> None:
        """Type a text into the page's field, and press Enter."""
        await self.run("document.querySelector('form input').focus()")
        await self.call("Input.insertText", text=text)
        await self._press_enter()

    async def press(self, label: str) -> None:
        """Press the visible button with this label by the keyboard: while text streams in, it moves under a mouse."""
        find = f"[...document.querySelectorAll('button')].find((each) => each.textContent === {json.dumps(label)})"
        await wait_until(f"the button {label}", lambda: self.run(f"({find})?.offsetParent != null"))
        await self.run(f"{find}.focus()")
        await self._press_enter()

    async def _press_enter(self) -> None:
        enter = {"key": "Enter", "code": "Enter", "text": "\r", "windowsVirtualKeyCode": 13}
        for kind in ("keyDown", "keyUp"):
            await self.call("Input.dispatchKeyEvent", type=kind, **enter)


@asynccontextmanager
async def opened_tab(url: str, folder: Path) -> AsyncIterator[Tab]:
    """A tab at this address, in a browser of its own. Skips the test where there is no Chromium."""
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on this machine to open the page in")
    profile = folder / "chromium"
    process = await asyncio.create_subprocess_exec(
        *(CHROMIUM, *_OPTIONS, f"--user-data-dir={profile}", "about:blank"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        port_file = profile / "DevToolsActivePort"
        await wait_until("the browser", lambda: port_file.exists() and len(port_file.read_text().split()) == 2)
        async with _first_tab(port_file.read_text().split()[0]) as tab:
            for domain in ("Runtime", "Log", "Network", "Page"):
                await tab.call(f"{domain}.enable")
            await tab.call("Page.navigate", url=url)
            yield tab
    finally:
        process.terminate()
        await process.wait()


@asynccontextmanager
async def _first_tab(port: str) -> AsyncIterator[Tab]:
    """The tab that the browser has begun with."""
    import httpx2

    async with httpx2.AsyncClient(trust_env=False) as http:
        told = (await http.get(f"http://127.0.0.1:{port}/json")).json()
    [address] = [each["webSocketDebuggerUrl"] for each in told if each["type"] == "page"]
    async with connect(address, proxy=None, max_size=_MAX_MESSAGE) as connection:
        tab = Tab(connection)
        listening = asyncio.create_task(tab.listen())
        try:
            yield tab
        finally:
            listening.cancel()
