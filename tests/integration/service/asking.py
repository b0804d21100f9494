"""One HTTP request to a service under test."""

import asyncio
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tests.support.waiting import PATIENCE_S


async def get(url: str, key: str | None = None) -> tuple[int, str]:
    """Status and body."""
    return await asyncio.to_thread(_get, url, key)


def _get(url: str, key: str | None) -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        with urlopen(Request(url, headers=headers), timeout=PATIENCE_S) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()
