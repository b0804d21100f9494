"""The server of the page in ``examples/web``, as a process."""

import asyncio
import os
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2

from tests.support.processes.up import ROOT
from tests.support.waiting import PATIENCE_S, wait_until

WEB = ROOT / "examples" / "web"
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
_OURS = ("PENTAD_", "LLM_", "EMBED_", "REDIS_", "PYTHONPATH")


@asynccontextmanager
async def page_server(gateway: str, port: int, folder: Path) -> AsyncIterator[httpx2.AsyncClient]:
    """The example's server as a process, and a visitor's browser, as far as cookies go."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(WEB / "server.py"), gateway, str(port)),
        cwd=folder,
        env=kept | {"PENTAD_API_KEY": "ka", "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
    )
    address = f"http://127.0.0.1:{port}"
    try:
        async with httpx2.AsyncClient(base_url=address, verify=NO_TLS, trust_env=False, timeout=PATIENCE_S) as http:
            await wait_until("the page's server", lambda: _answers(http))
            yield http
    finally:
        process.terminate()
        await process.communicate()


async def _answers(http: httpx2.AsyncClient) -> bool:
    try:
        return (await http.get("/")).status_code == 200
    except httpx2.TransportError:
        return False
