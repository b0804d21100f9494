"""A real browser for tests: Chromium, watched for errors and for requests that leave the gateway.

    async with open_page(stage.url + "/console") as page:
        await page.get_by_label("Message").fill("hello")

Where there is no Chromium the test is skipped with that reason.
"""

import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import pytest
from playwright.async_api import ConsoleMessage, Page, Request, async_playwright, expect

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_PATIENCE_MS = 30_000
_SIZE = {"width": 1280, "height": 800}


class Watch:
    """What a page should not do: complain, fail, or ask another host."""

    def __init__(self, page: Page, homes: Sequence[str]) -> None:
        self.faults: list[str] = []
        self._homes = {urlsplit(home).netloc for home in homes}
        page.on("console", self._complains)
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("request", self._asks)

    def _complains(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.faults.append(f"console: {message.text}")

    def _asks(self, request: Request) -> None:
        address = urlsplit(request.url)
        if address.scheme not in ("data", "blob") and address.netloc not in self._homes:
            self.faults.append(f"a request to another host: {request.url}")


@asynccontextmanager
async def open_page(
    url: str,
    *,
    go: bool = True,
    also: Sequence[str] = (),
    allowed: Sequence[str] = (),
    keys: dict[str, str] | None = None,
    phone: bool = False,
) -> AsyncIterator[Page]:
    """A page at this address. At the end it must have had no fault, but those that contain a text of ``allowed``.

    ``also``: addresses of other hosts that the page asks. ``go``: False leaves it to the test to go there. ``keys``:
    entries of the tab's session storage.
    """
    chromium = next(filter(None, map(shutil.which, _NAMES)), None)
    if chromium is None:
        pytest.skip("there is no Chromium here: apt-get install chromium")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        size = {"width": 390, "height": 800} if phone else _SIZE
        page = await browser.new_page(viewport=size, reduced_motion="reduce")  # type: ignore[arg-type]
        page.set_default_timeout(_PATIENCE_MS)
        expect.set_options(timeout=_PATIENCE_MS)
        watch = Watch(page, (url, *also))
        for name, value in (keys or {}).items():
            await page.add_init_script(f"sessionStorage.setItem({name!r}, {value!r})")
        if go:
            await page.goto(url)
        yield page
        await browser.close()
    faults = [fault for fault in watch.faults if not any(text in fault for text in allowed)]
    assert faults == [], "\n".join(faults)
