"""A process with one connection to a server that looks at nothing: it does not end when its input closes.

python -m tests.support.mcp.lone_worker FOLDER

The server writes its process id into the folder.
"""

import asyncio
import sys
from pathlib import Path

from pentad.contracts.tool_servers import ToolServer
from pentad.services.tool_worker.servers.connection import ServerConnection

_SERVER = "import os,sys,time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(600)"


async def hold(folder: Path) -> None:
    """Keep the connection until this process is killed."""
    args = ("-c", _SERVER, str(folder / "pid"))
    ServerConnection(ToolServer(name="s", command=sys.executable, args=args), lambda: None).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(hold(Path(sys.argv[1])))
