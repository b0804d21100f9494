"""The tools of the web in the whole system: offered where an operator turns them on, kept from what is inside."""

from pathlib import Path

import pytest

import pentad
from tests.support.outside.web_server import reply, web_server

NAMES = {"web_fetch", "get_weather", "web_search"}


async def _offered(agent: pentad.Agent) -> set[str]:
    return NAMES.intersection([tool["name"] for tool in await agent.inspection.tools()])


async def test_no_tool_of_the_web_is_offered_by_default(tmp_path: Path) -> None:
    async with pentad.start(tmp_path) as agent:
        assert await _offered(agent) == set()


async def test_a_page_is_fetched_where_that_is_on_and_nothing_inside(tmp_path: Path) -> None:
    async with web_server() as web, web_server() as inside:
        web.answers["/"] = reply(b"<title>Tea</title><p>Green <a href=/leaf>leaf</a>")
        async with pentad.start(
            tmp_path, pentad_web="on", pentad_web_allow=web.place, tavily_api_key="tvly-x"
        ) as agent:
            assert await _offered(agent) == NAMES
            fetched = await agent.tools.execute("web_fetch", {"url": web.url})
            assert f"Title: Tea\n\nGreen [leaf]({web.url}/leaf)" in str(fetched)
            with pytest.raises(pentad.ToolFailed, match="only addresses of the public internet"):
                await agent.tools.execute("web_fetch", {"url": inside.url})
        assert inside.received == []
