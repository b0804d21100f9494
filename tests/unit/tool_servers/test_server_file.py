"""Files of MCP servers are read as the programs write that people have them from; mistakes name server and field."""

import json
from contextlib import suppress
from pathlib import Path
from time import thread_time
from typing import Any

import pytest

from pentad.contracts.tool_servers import ServerSignIn, ToolServer
from pentad.shared.errors import SettingsError
from pentad.shared.tool_servers.jsonc import read_jsonc
from pentad.shared.tool_servers.server_file import MAX_FILE_BYTES, MAX_SERVERS, ServerFile, read_server_file
from tests.support.slowness import slowness

VARIABLES = {"GITHUB_TOKEN": "ghp-1", "API_KEY": "key-2", "HOME": "/home/me", "EMPTY": ""}
CLAUDE_DESKTOP = """{
  "mcpServers": {
    "filesystem": {"command": "npx", "args": ["-y", "server-filesystem", "/data"]},
    "brave": {"command": "docker", "args": ["run", "-i", "--rm", "-e", "BRAVE"], "env": {"BRAVE": "b"}}
  }
}"""
CLAUDE_CODE = """{"mcpServers": {"api": {"type": "http", "url": "${API_BASE_URL:-https://api.example.com}/mcp",
  "headers": {"Authorization": "Bearer ${API_KEY}"}}}}"""
CURSOR = """// of the editor
{
  "mcpServers": {
    /* one
       server */
    "local": {"command": "python", "args": ["${workspaceFolder}/s.py"], "env": {"T": "${env:GITHUB_TOKEN}"},},
    "far": {"url": "http://localhost:3000/mcp", "headers": {"API_KEY": "value // kept, ] too"}},
  },
}"""
VS_CODE = """{
  "inputs": [{"type": "promptString", "id": "key", "password": true}],
  "servers": {
    "GitHub": {"type": "http", "url": "https://api.githubcopilot.com/mcp/"},
    "play": {"type": "stdio", "command": "npx", "args": ["-y", "@playwright/mcp@latest"], "dev": {"watch": "*"}}
  }
}"""
VS_CODE_SETTINGS = (
    """{"editor.fontSize": 12, "mcp": {"servers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}}}"""
)
CLINE = """{"mcpServers": {"weather": {"command": "node", "args": ["build/index.js"], "timeout": 120, "disabled": false,
  "autoApprove": ["forecast"]}, "off": {"disabled": true, "command": "node"}}}"""
ROO = """{"mcpServers": {"remote": {"type": "streamable-http", "url": "https://x.example.com/mcp", "alwaysAllow": ["a"],
  "disabledTools": ["drop"], "timeout": 3600}}}"""
WINDSURF = """{"mcpServers": {"figma": {"serverUrl": "https://mcp.figma.com/sse", "type": "sse",
  "headers": {"X-Key": "{{secret:FIGMA}}"}}}}"""
GEMINI = """{"theme": "dark", "mcpServers": {"zen": {"httpUrl": "https://z.example.com/mcp", "timeout": 300000,
  "trust": true, "includeTools": ["a", "b"], "excludeTools": ["c"]}, "here": {"command": "bin/s", "cwd": "./sub"}}}"""
OPENCODE = """{"mcp": {"files": {"type": "local", "command": ["npx", "-y", "files"], "environment": {"A": "1"},
  "enabled": true},
  "far": {"type": "remote", "url": "https://far.example.com", "enabled": false}}}"""
ZED = """{"context_servers": {"pg": {"command": {"path": "pg-mcp", "args": ["--ro"], "env": null}, "settings": {}}}}"""
CODEX = """
[mcp_servers.docs]
command = "docs-server"
tool_timeout_sec = 30
enabled_tools = ["find"]

[mcp_servers.hub]
url = "https://hub.example.com/mcp"
bearer_token_env_var = "GITHUB_TOKEN"
env_http_headers = { X-Api = "API_KEY" }
"""
SHAPES: dict[str, tuple[str, dict[str, dict[str, Any]]]] = {
    "Claude Desktop": (
        CLAUDE_DESKTOP,
        {
            "filesystem": {"command": "npx", "args": ("-y", "server-filesystem", "/data")},
            "brave": {"command": "docker", "args": ("run", "-i", "--rm", "-e", "BRAVE"), "env": {"BRAVE": "b"}},
        },
    ),
    "Claude Code": (
        CLAUDE_CODE,
        {"api": {"url": "https://api.example.com/mcp", "headers": {"Authorization": "Bearer key-2"}}},
    ),
    "Cursor": (
        CURSOR,
        {
            "local": {"command": "python", "args": ("FOLDER/s.py",), "env": {"T": "ghp-1"}},
            "far": {"url": "http://localhost:3000/mcp", "headers": {"API_KEY": "value // kept, ] too"}},
        },
    ),
    "VS Code": (
        VS_CODE,
        {
            "GitHub": {"url": "https://api.githubcopilot.com/mcp/"},
            "play": {"command": "npx", "args": ("-y", "@playwright/mcp@latest")},
        },
    ),
    "VS Code settings": (VS_CODE_SETTINGS, {"time": {"command": "uvx", "args": ("mcp-server-time",)}}),
    "Cline": (CLINE, {"weather": {"command": "node", "args": ("build/index.js",), "timeout": 120.0}}),
    "Roo": (ROO, {"remote": {"url": "https://x.example.com/mcp", "without": ("drop",), "timeout": 3600.0}}),
    "Windsurf": (
        WINDSURF,
        {"figma": {"url": "https://mcp.figma.com/sse", "sse": True, "headers": {"X-Key": "{{secret:FIGMA}}"}}},
    ),
    "Gemini CLI": (
        GEMINI,
        {
            "zen": {"url": "https://z.example.com/mcp", "timeout": 300.0, "only": ("a", "b"), "without": ("c",)},
            "here": {"command": "bin/s", "cwd": "FOLDER/sub"},
        },
    ),
    "OpenCode": (OPENCODE, {"files": {"command": "npx", "args": ("-y", "files"), "env": {"A": "1"}}}),
    "Zed": (ZED, {"pg": {"command": "pg-mcp", "args": ("--ro",)}}),
    "Codex": (
        CODEX,
        {
            "docs": {"command": "docs-server", "timeout": 30.0, "only": ("find",)},
            "hub": {
                "url": "https://hub.example.com/mcp",
                "headers": {"Authorization": "Bearer ghp-1", "X-Api": "key-2"},
            },
        },
    ),
}


def read(folder: Path, text: str, name: str = "mcp.json") -> ServerFile:
    path = folder / name
    path.write_text(text)
    return read_server_file(path, variable=VARIABLES.get)


def problem(folder: Path, servers: Any, name: str = "mcp.json") -> str:
    text = servers if isinstance(servers, str) else json.dumps({"mcpServers": servers})
    with pytest.raises(SettingsError) as raised:
        read(folder, text, name)
    return str(raised.value)


@pytest.mark.parametrize("program", SHAPES)
def test_the_file_of_a_program_is_read_as_it_is(program: str, tmp_path: Path) -> None:
    text, expected = SHAPES[program]
    found = read(tmp_path, text.replace("FOLDER", str(tmp_path)), "mcp.toml" if program == "Codex" else "mcp.json")
    wanted = json.loads(json.dumps(expected).replace("FOLDER", str(tmp_path)))
    assert {each.name: each for each in found.servers} == {
        name: ToolServer.model_validate({"name": name, **fields}) for name, fields in wanted.items()
    }


def test_servers_that_are_turned_off_are_left_out_and_told(tmp_path: Path) -> None:
    assert read(tmp_path, CLINE).turned_off == ("off",)
    assert read(tmp_path, OPENCODE).turned_off == ("far",)


def test_fields_that_mean_nothing_here_are_noted(tmp_path: Path) -> None:
    assert read(tmp_path, CLINE).notes == ("server 'weather': these fields mean nothing here: autoApprove",)


@pytest.mark.parametrize(
    ("fields", "client"),
    [
        ({}, None),
        ({"oauth": False}, None),
        ({"oauth": {"enabled": False}}, None),
        ({"auth": {"token": "x"}}, None),
        ({"oauth": True}, ServerSignIn()),
        ({"oauth": {}}, ServerSignIn()),
        ({"auth": "oauth"}, ServerSignIn()),
        ({"oauth": {"clientId": "a", "callbackPort": 80}}, ServerSignIn(client_id="a")),
        (
            {"auth": {"CLIENT_ID": "a", "CLIENT_SECRET": "${API_KEY}", "scopes": ["x", "y"]}},
            ServerSignIn(client_id="a", client_secret="key-2", scope="x y"),
        ),
    ],
)
def test_who_signs_persons_in_is_read_from_all_forms(
    fields: dict[str, Any], client: ServerSignIn | None, tmp_path: Path
) -> None:
    [server] = read(tmp_path, json.dumps({"mcpServers": {"s": {"url": "https://h", **fields}}})).servers
    assert server.oauth == client
    assert "key-2" not in repr(server)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"command": "x", "env": {"T": "${NOT_SET}"}}, "server 's': env.T: the variable NOT_SET is not set"),
        ({"command": "x", "args": ["${EMPTY}"]}, "server 's': args: the variable EMPTY is not set"),
        ({"command": "x", "env": {"T": "${input:key}"}}, "env.T: ${input:key} asks a person"),
        ({"command": "x", "env": {"T": "${PENTAD_ADMIN_KEY}"}}, "PENTAD_ADMIN_KEY is Pentad's own"),
        ({"command": "x", "args": ["${a b}"]}, "args: ${a b} names no variable"),
        ({}, "it needs a url"),
        ({"comand": "x"}, "it needs a url"),
        ({"command": "x", "url": "http://h"}, "a command and a url"),
        ({"command": "x", "type": "ws"}, "type 'ws' is not known: there are stdio, http (streamable HTTP) and sse"),
        ({"type": "stdio", "url": "http://h"}, "a server with a url is of type http"),
        ({"command": "x", "args": "a b"}, "args must be a list of texts"),
        ({"command": "x", "args": [["a"]]}, "args must be a text"),
        ({"command": "x", "env": ["A=1"]}, "env must be an object of texts"),
        ({"command": "x", "env": {"A=B": "1"}}, "is not the name of a variable"),
        ({"command": "x", "envFile": ".env"}, "envFile: variables are not read from another file"),
        (
            {"url": "http://h", "oauth": "yes"},
            "oauth must be an object with client_id, client_secret and scope, or true",
        ),
        ({"url": "http://h", "oauth": {"client_secret": "x"}}, "client_secret needs the client_id whose secret it is"),
        ({"url": "http://h", "oauth": {"client_id": "a\n"}}, "must be a line of ASCII"),
        (
            {"url": "http://h", "oauth": {"client_id": "a", "client_secret": "{{secret:}}"}},
            "write a secret as {{secret",
        ),
        ({"url": "http://h", "oauth": True, "headers": {"authorization": "x"}}, "leave out the header Authorization"),
        ({"url": "http://h", "oauth": True, "headers": {"X": "{{secret:A}}"}}, "and secrets in headers"),
        ({"command": "x", "oauth": True}, "oauth belongs to a server with a url"),
        ({"url": "ftp://h"}, "must be an address like https://HOST/PATH"),
        ({"url": "http://h/{{secret:A}}"}, "url: a secret would be seen there"),
        ({"command": "x", "args": ["{{secret:A}}"]}, "args: a secret would be seen there"),
        ({"url": "http://h", "headers": {"A": "{{secret:}}"}}, "write a secret as {{secret:NAME}}"),
        ({"url": "http://h", "headers": {"Host": "evil"}}, "the header Host is the protocol's own"),
        ({"url": "http://h", "headers": {"Mcp-Session-Id": "1"}}, "the header Mcp-Session-Id is the protocol's own"),
        ({"url": "http://h", "headers": {"A": "x\r\nB: y"}}, "must be a line of ASCII"),
        ({"command": "x", "timeout": -1}, "timeout"),
        ({"command": "x", "concurrency": "2"}, "concurrency"),
        ({"command": "x", "concurrency": 0}, "concurrency"),
        ({"command": "x", "rate": "10"}, "rate"),
        ({"command": "x", "timeout": "soon"}, "timeout"),
        ({"command": "x\0y"}, "must be a line of text"),
        ("npx", "it must be an object"),
    ],
)
def test_a_mistake_names_its_server_and_what_to_do(entry: Any, said: str, tmp_path: Path) -> None:
    found = problem(tmp_path, {"s": entry})
    assert said in found
    assert found.startswith("PENTAD_MCP is wrong: ")
    assert "server 's'" in found


def test_all_mistakes_are_told_together(tmp_path: Path) -> None:
    found = problem(tmp_path, {"one": {"command": "x", "args": 1}, "two": {"type": "ws", "url": "http://h"}})
    assert "server 'one'" in found
    assert "server 'two'" in found


def test_two_servers_whose_tools_would_have_the_same_names_are_refused(tmp_path: Path) -> None:
    found = problem(tmp_path, {"my server": {"command": "x"}, "my_server": {"command": "y"}})
    assert "server 'my_server': its tools would be named like those of 'my server': rename one" in found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "it names no servers"),
        ("{}", "it names no servers"),
        ('{"servers": []}', "it names no servers"),
        ('{"mcpServers": {', "it is no JSON"),
        ('{"mcpServers": {} /* ', "a comment /* does not end"),
        ('{"mcpServers": "// not a comment', "it is no JSON"),
        ("[" * 100_000, "it is no JSON"),
    ],
)
def test_what_is_no_file_of_servers_is_refused(text: str, said: str, tmp_path: Path) -> None:
    assert said in problem(tmp_path, text)


def test_a_file_has_a_bound_in_bytes_and_servers(tmp_path: Path) -> None:
    assert "longer than" in problem(tmp_path, " " * (MAX_FILE_BYTES + 1))
    many = {f"s{number}": {"command": "x"} for number in range(MAX_SERVERS + 1)}
    assert f"at most {MAX_SERVERS}" in problem(tmp_path, many)
    assert "more than 65536 bytes" in problem(tmp_path, {"s": {"command": "x", "args": ["y" * 8_000] * 10}})


def test_an_error_does_not_repeat_the_value_of_a_variable(tmp_path: Path) -> None:
    entry = {"url": "http://h", "headers": {"A": "${API_KEY}\n"}}
    assert "key-2" not in problem(tmp_path, {"s": entry})


def test_a_server_shows_neither_its_variables_nor_its_headers(tmp_path: Path) -> None:
    (server,) = read(tmp_path, CLAUDE_CODE).servers
    assert "key-2" not in repr(server) + str(server)


@pytest.mark.parametrize("piece", ["/*", "//", '"\\\\', "/**/", ", ", '"",'])
def test_a_hostile_file_is_read_in_time(piece: str) -> None:
    text, begun = (piece * MAX_FILE_BYTES)[:MAX_FILE_BYTES], thread_time()
    with suppress(ValueError):
        read_jsonc(text)
    assert thread_time() - begun < 0.3 * slowness()
