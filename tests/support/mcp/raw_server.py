"""Servers on standard input and output that no SDK has made: old ones, and hostile ones.

python -m tests.support.mcp.raw_server KIND [FILE]

``old`` speaks the protocol of 2025, and has the tools that the JSON in FILE names, which it reads anew for each list.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

_VERSION = "2025-06-18"


def say(message: Any) -> None:
    """Write one message."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def tool(name: str, **more: Any) -> dict[str, Any]:
    """Return a tool as a list has it."""
    return {"name": name, "inputSchema": {"type": "object"}, **more}


def bomb(levels: int) -> dict[str, Any]:
    """Return a small schema that stands for 2 ** levels parts."""
    defs: dict[str, Any] = {
        f"d{n}": {"type": "array", "prefixItems": [{"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 1}"}]}
        for n in range(levels)
    }
    defs[f"d{levels}"] = {"type": "string"}
    return {"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": defs}


def hostile_tools() -> list[dict[str, Any]]:
    """Return tools of which few can be offered."""
    own_end = {"type": "object", "properties": {"next": {"$ref": "#"}}}
    return [
        tool("good", description="a good one"),
        tool("long", description="x" * 100_000),
        {"name": "loop", "inputSchema": own_end},
        {"name": "bomb", "inputSchema": bomb(14)},
        {"name": "away", "inputSchema": {"type": "object", "properties": {"x": {"$ref": "http://127.0.0.1/s"}}}},
        {"name": "giant", "inputSchema": {"type": "object", "description": "y" * 40_000}},
        tool("n" * 300),
        tool("spaced name"),
        tool("spaced_name"),
        *(tool(f"many{n:04}") for n in range(3_000)),
    ]


def answer(kind: str, file: Path | None, request: dict[str, Any]) -> Any:
    """Return the result of a request, an exception for an error."""
    method = request["method"]
    if method == "initialize":
        version = "1999-01-01" if kind == "wrong-protocol" else _VERSION
        capabilities = {"tools": {"listChanged": True}}
        return {"protocolVersion": version, "capabilities": capabilities, "serverInfo": {"name": kind, "version": "1"}}
    if method == "tools/list":
        if kind == "hostile":
            return {"tools": hostile_tools()}
        if kind == "misfit":
            return {"tools": [tool("fine"), {"name": "misfit", "inputSchema": {"type": "array"}}]}
        if kind == "endless":
            return {"tools": [tool(f"t{time.monotonic_ns()}")], "nextCursor": "more"}
        return {"tools": json.loads(file.read_text()) if file is not None else [tool("plain")]}
    if method == "tools/call":
        return called(request["params"]["name"])
    return LookupError(method)


def called(name: str) -> Any:
    """Return the result of a call."""
    if name == "no-result":
        return {"content": "of a wrong type"}
    if name == "values":
        return {"content": [], "structuredContent": {"x": [0] * 200_000}}
    if name == "flood":
        say_flood()
    if name == "large":
        return {"content": [{"type": "text", "text": "z" * 3_000_000}]}
    if name == "asks":
        return {"resultType": "input_required", "requestState": "s"}
    return {"content": [{"type": "text", "text": f"{name} ran"}]}


def say_flood() -> None:
    """Write a line that does not end."""
    for _ in range(100):
        sys.stdout.write("x" * (1 << 20))
    sys.stdout.flush()


def main() -> None:
    """Serve until the input closes."""
    kind, file = sys.argv[1], Path(sys.argv[2]) if len(sys.argv) > 2 else None
    if kind == "exits":
        print("the token is missing", file=sys.stderr)
        sys.exit(7)
    for line in sys.stdin:
        if kind == "hangs":
            continue
        if kind == "rubbish":
            print("Welcome to the server! [1, 2", flush=True)
            continue
        request = json.loads(line)
        if "id" not in request:
            if request["method"] == "changed":
                say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
            continue
        result = answer(kind, file, request)
        if isinstance(result, LookupError):
            error = {"code": -32601, "message": f"unknown method {result}"}
            say({"jsonrpc": "2.0", "id": request["id"], "error": error})
        else:
            say({"jsonrpc": "2.0", "id": request["id"], "result": result})
            if request["method"] == "tools/call":
                say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})


if __name__ == "__main__":
    main()
