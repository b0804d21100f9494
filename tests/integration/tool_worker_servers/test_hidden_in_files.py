"""A secret of a connection is in no file that its server hands over."""

from pentad.contracts.tool_servers import ToolServer
from pentad.contracts.tools import Artifact
from pentad.services.tool_worker.servers.connection import ServerConnection


async def test_a_file_has_a_mark_in_the_place_of_a_secret() -> None:
    server = ToolServer(name="s", url="http://127.0.0.1:9/mcp")
    connection = ServerConnection(server, lambda: None, hidden={"TOKEN": "alices-token"})
    kept = connection._hiding(Artifact(b"it is alices-token.", "alices-token.txt", "text/plain"))
    assert (kept.data, kept.name) == (b"it is [secret TOKEN].", "[secret TOKEN].txt")
