"""The tools of the web that the settings ask for. Import this module late: it imports the HTTP client."""

from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from pentad.services.tool_worker.builtins.web.weather import WeatherAddresses, weather_tool
from pentad.services.tool_worker.builtins.web.web_fetch import web_fetch_tool
from pentad.services.tool_worker.builtins.web.web_search import TAVILY_URL, TavilySearch, web_search_tool
from pentad.shared.outbound.outside_client import OutsideClient
from pentad.shared.plugins.definition import ToolDefinition
from pentad.shared.settings import Settings


class WebTools:
    """The tools of the web. The server of a service that an operator names may be inside; pages may not."""

    def __init__(self, settings: Settings) -> None:
        self._clients: list[OutsideClient] = []
        self.definitions: Mapping[str, ToolDefinition] = {tool.spec.name: tool for tool in self._made(settings)}

    def _made(self, settings: Settings) -> Iterator[ToolDefinition]:
        if settings.pentad_web == "on":
            yield web_fetch_tool(self._client(*settings.pentad_web_allow))
            base = settings.weather_base_url
            yield weather_tool(self._client(*_place_of(base)), WeatherAddresses.at(base))
        if settings.tavily_api_key is not None:
            base, key = settings.tavily_base_url, settings.tavily_api_key.get_secret_value()
            yield web_search_tool(TavilySearch(self._client(*_place_of(base)), key, base or TAVILY_URL))

    def _client(self, *allowed: str) -> OutsideClient:
        client = OutsideClient(allowed)
        self._clients.append(client)
        return client

    async def aclose(self) -> None:
        """Close what the tools have opened."""
        for client in self._clients:
            await client.aclose()


def _place_of(base: str | None) -> tuple[str, ...]:
    """Return host and port of an operator's own address, as the guard takes them."""
    if base is None:
        return ()
    parts = urlsplit(base)
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return (f"[{host}]:{port}" if ":" in host else f"{host}:{port}",)
